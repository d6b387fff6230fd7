//! Progress bar on standard error.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over `count` steps with a label; hidden if standard error is no terminal.
pub(super) fn bar(count: u64, what: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(&format!("{{bar:30}} {{pos}}/{{len}} {what} (about {{eta}} left)"));
    ProgressBar::new(count).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
