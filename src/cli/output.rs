//! What commands print: text, JSON, tables, and problems with their lines.

use std::io::{self, IsTerminal, Write};

use comfy_table::{CellAlignment, Table, TableComponent, presets};
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};

/// Prints to standard output.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Prints `value` as pretty JSON.
pub(super) fn json(value: &serde_json::Value) -> io::Result<()> {
    print(&format!("{value:#}\n"))
}

/// Prints to standard error. Where even that fails, nobody is listening.
pub(super) fn complain(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// A table with a line under its head; empty tables show nothing.
pub(super) fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    aligned(head, rows, CellAlignment::Left)
}

/// A table of numbers, of which the first column is what they are about.
pub(super) fn numbers<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    aligned(head, rows, CellAlignment::Right)
}

fn aligned<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    others: CellAlignment,
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(head).add_rows(rows);
    table.remove_style(TableComponent::HorizontalLines).remove_style(TableComponent::MiddleIntersections);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(others));
    if table.is_empty() {
        return String::new();
    }
    let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    // The lines above and below the table say nothing.
    format!("{}\n\n", lines[1..lines.len() - 1].join("\n"))
}

/// Whether standard error is read by somebody who sees colours.
pub(super) fn in_colour() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A problem with the lines it is about, in colour where a terminal reads it.
pub(super) fn report(diagnostic: &dyn Diagnostic) -> String {
    let theme = if in_colour() { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme).with_links(false).with_width(100).with_context_lines(1);
    let mut text = String::new();
    // Writing to a string cannot fail; were the diagnostic itself at fault, its message is better than nothing.
    if handler.render_report(&mut text, diagnostic).is_err() {
        text = format!("{diagnostic}\n");
    }
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n") + "\n"
}
