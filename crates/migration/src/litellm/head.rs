//! The comment at the head of an imported policy.

use std::fmt::Write as _;

use crate::{Imported, Kind, Variable};

/// The longest line of a comment.
const WIDTH: usize = 118;

/// The comment: the commands to go on with, the variables to set, and the remarks.
pub(super) fn head(name: &str, imported: &Imported) -> String {
    let (kept, all) = imported.deployments;
    let mut text = String::new();
    let name = line(name);
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "# A policy translated from LiteLLM's configuration `{name}`: {kept} of {all} deployments.\n#\n\
         #   signalbox check policy.yaml\n\
         #   signalbox serve --observe http://127.0.0.1:4000/v1 --config policy.yaml    first beside LiteLLM, changing nothing\n\
         #   signalbox serve --config policy.yaml\n"
    );
    if !imported.variables.is_empty() {
        text += "#\n# Environment variables to set:\n#\n";
        for variable in &imported.variables {
            let _ = writeln!(text, "#   {}{}", variable.name, origin(variable));
        }
    }
    let titles = [
        (Kind::Gap, "Without a counterpart:"),
        (Kind::Differs, "Translated, but working differently:"),
        (Kind::BuiltIn, "Done without a setting:"),
    ];
    for (kind, title) in titles {
        if imported.of(kind).next().is_none() {
            continue;
        }
        let _ = writeln!(text, "#\n# {title}\n#");
        for note in imported.of(kind) {
            let at = if note.line > 0 { format!("line {}, ", note.line) } else { String::new() };
            wrapped(&mut text, &line(&format!("{at}{}: {}", note.place, note.text)));
        }
    }
    text + "\n"
}

fn origin(variable: &Variable) -> String {
    match (variable.plain_at, variable.purpose) {
        (Some(line), _) if line > 0 => format!("    the value in line {line} of the configuration"),
        (Some(_), _) => "    the value in an included file".to_owned(),
        (None, Some(purpose)) => format!("    {purpose}"),
        (None, None) => String::new(),
    }
}

/// `text` on one line: a comment ends with its line.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c }).collect()
}

/// Adds an item of a list, broken between words.
fn wrapped(text: &mut String, item: &str) {
    let mut column = WIDTH;
    let mut prefix = "#   - ";
    for word in item.split(' ').filter(|word| !word.is_empty()) {
        let width = word.chars().count();
        if column + 1 + width > WIDTH {
            if prefix == "#     " {
                text.push('\n');
            }
            text.push_str(prefix);
            (column, prefix) = (prefix.len() - 1, "#     ");
        } else {
            text.push(' ');
        }
        text.push_str(word);
        column += 1 + width;
    }
    text.push('\n');
}
