//! Generates the pages under `docs/reference/` from the code's own tables. A page has text of its own around the generated block.

mod cli;
mod conditions;
mod engines;
mod errors;
mod markdown;
mod metrics;
mod policy;

#[cfg(test)]
mod hand_written;
#[cfg(test)]
mod raised_errors;

use std::{fs, io, path::PathBuf};

use crate::workspace::root;

const BEGIN: &str = "<!-- generated:begin -->\n";
const END: &str = "<!-- generated:end -->";

/// Makes the generated block of a page.
type MakeText = fn() -> String;

const PAGES: [(&str, MakeText); 6] = [
    ("cli.md", cli::text),
    ("conditions.md", conditions::text),
    ("engines.md", engines::text),
    ("errors.md", errors::text),
    ("metrics.md", metrics::text),
    ("policy.md", policy::text),
];

/// Writes the generated block of every page, and returns the pages that were not current.
pub(crate) fn write() -> io::Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for (name, text) in PAGES {
        let path = root().join("docs/reference").join(name);
        let kept = fs::read_to_string(&path)?;
        let wanted = with_block(&kept, &text()).ok_or_else(|| {
            io::Error::other(format!("{}: no block between `generated:begin` and `generated:end`", path.display()))
        })?;
        if kept != wanted {
            fs::write(&path, wanted)?;
            written.push(path);
        }
    }
    Ok(written)
}

/// The page with `text` as its generated block; `None` if it has no such block.
fn with_block(page: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{}\n\n{END}{after}", text.trim()))
}

#[test]
fn every_page_is_current() {
    if std::env::var_os("SIGNALBOX_UPDATE").is_some() {
        write().unwrap();
    }
    for (name, text) in PAGES {
        let kept = fs::read_to_string(root().join("docs/reference").join(name)).unwrap();
        let wanted = with_block(&kept, &text()).expect("a generated block");
        assert!(kept == wanted, "docs/reference/{name} is not current: run `cargo xtask reference`");
    }
}
