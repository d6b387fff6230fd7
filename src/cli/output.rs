//! Output of commands: text, JSON, tables and diagnostics.

use std::{
    io::{self, IsTerminal, Write},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use comfy_table::{CellAlignment, Table, TableComponent, presets};
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};

use signalbox_quota::calendar;
use signalbox_types::wall_clock;

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

/// Prints to standard error, ignoring errors.
pub(super) fn complain(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// True if standard error is for machines.
static IS_PLAIN: AtomicBool = AtomicBool::new(false);

/// Writes to standard error without colours from now on.
pub(super) fn write_plain() {
    IS_PLAIN.store(true, Relaxed);
}

/// Prints the error that ends the process to standard error: as it is, or as a line of JSON like those of the log, whatever
/// its level.
pub(super) fn fail(problem: &str, json: bool) {
    if !json {
        return complain(problem);
    }
    let timestamp = calendar::written(wall_clock::seconds());
    let line = serde_json::json!({ "timestamp": timestamp, "level": "ERROR", "fields": { "message": problem.trim() } });
    complain(&format!("{line}\n"));
}

/// A table with a ruled head; empty without rows.
pub(super) fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    aligned(head, rows, CellAlignment::Left)
}

/// A table of numbers with labels in the first column.
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
    // Drop the rules above and below the table.
    format!("{}\n\n", lines[1..lines.len() - 1].join("\n"))
}

/// True if standard error is a terminal that shows colours.
pub(super) fn in_colour() -> bool {
    !IS_PLAIN.load(Relaxed)
        && io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Renders a diagnostic with its source lines, in colour on a terminal.
pub(super) fn report(diagnostic: &dyn Diagnostic) -> String {
    let theme = if in_colour() { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme).with_links(false).with_width(100).with_context_lines(1);
    let mut text = String::new();
    // Writing to a string cannot fail; if the diagnostic itself does, its message remains.
    if handler.render_report(&mut text, diagnostic).is_err() {
        text = format!("{diagnostic}\n");
    }
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n") + "\n"
}
