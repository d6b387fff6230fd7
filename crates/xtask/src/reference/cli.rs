//! Generates the reference of the command line from its definition.

use std::fmt::Write;

use clap::Command;

/// The generated part of its page.
pub(super) fn text() -> String {
    let mut command = signalbox::cli::command();
    // Usage lines have the whole name of a command only then.
    command.build();
    let mut text = String::new();
    describe(&mut command, &mut text);
    text
}

/// Appends the help of a command, and of those below it.
fn describe(command: &mut Command, text: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let help = command.render_long_help().to_string();
    let help: Vec<_> = help.trim().lines().map(str::trim_end).collect();
    let _ = writeln!(text, "## {name}\n\n```text\n{}\n```\n", help.join("\n"));
    for below in command.get_subcommands_mut().filter(|below| below.get_name() != "help") {
        describe(below, text);
    }
}
