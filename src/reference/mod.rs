//! Generates the pages under `docs/reference/` from the code's own tables. Compiled for tests only.
//!
//! `SIGNALBOX_UPDATE=1 cargo test -p signalbox-gateway --lib reference::` writes the pages. Without the variable the tests compare, and fail where a page is
//! not current. A page has text of its own around the generated block.

#[cfg(test)]
mod cli;
#[cfg(test)]
mod conditions;
#[cfg(test)]
mod errors;
#[cfg(test)]
mod policy;

use std::{fmt::Write, fs, path::Path};

use signalbox_telemetry as telemetry;

const BEGIN: &str = "<!-- generated:begin -->\n";
const END: &str = "<!-- generated:end -->";

/// Compares the generated block of `docs/reference/{page}` with `text`, or writes it.
fn keep(page: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference").join(page);
    let kept = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (before, rest) = kept.split_once(BEGIN).unwrap_or_else(|| panic!("{page} has no generated:begin"));
    let (block, after) = rest.split_once(END).unwrap_or_else(|| panic!("{page} has no generated:end"));
    let wanted = format!("\n{}\n\n", text.trim());
    if std::env::var_os("SIGNALBOX_UPDATE").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{wanted}{END}{after}")).unwrap();
    } else {
        assert!(
            block == wanted,
            "docs/reference/{page} is not current: run SIGNALBOX_UPDATE=1 cargo test -p signalbox-gateway --lib reference::"
        );
    }
}

/// A Markdown table.
fn table<const N: usize>(heads: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut text = format!("| {} |\n|{}\n", heads.join(" | "), "---|".repeat(N));
    for row in rows {
        let cells = row.map(|cell| cell.replace('|', "\\|").replace('\n', " "));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

#[test]
fn metrics_are_current() {
    let rows = telemetry::ALL.iter().map(|def| {
        let kind = match def.kind {
            telemetry::Kind::Counter => "counter",
            telemetry::Kind::Gauge => "gauge",
            telemetry::Kind::Histogram => "histogram",
        };
        let labels: Vec<_> = def.labels.iter().map(|label| format!("`{label}`")).collect();
        [format!("`{}`", def.name), kind.to_owned(), def.unit.to_owned(), labels.join(", "), def.help.to_owned()]
    });
    keep("metrics.md", &table(["Metric", "Type", "Unit", "Labels", "Meaning"], rows));
}

/// The texts of all files of `crates/{name}`, without their tests.
fn sources(name: &str) -> Vec<String> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(name).join("src")];
    let mut texts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                texts.push(text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned());
            }
        }
    }
    texts
}

#[test]
fn every_admin_path_is_listed() {
    let page = include_str!("../../docs/reference/admin-api.md");
    let mut paths = 0;
    for text in sources("server") {
        for (_, rest) in text.match_indices(".route(\"").map(|(at, found)| text.split_at(at + found.len())) {
            let path = rest.split('"').next().unwrap_or_default();
            assert!(page.contains(&format!("{path}`")), "docs/reference/admin-api.md does not list {path}");
            paths += 1;
        }
    }
    assert!(paths > 10, "the paths are registered in another way: {paths} were found");
}

#[test]
fn every_header_of_ours_is_listed() {
    let page = include_str!("../../docs/reference/headers.md");
    let mut headers = 0;
    for text in sources("gateway") {
        for (_, rest) in text.match_indices("\"x-signalbox-").map(|(at, _)| text.split_at(at + 1)) {
            let header = rest.split('"').next().unwrap_or_default();
            if header.ends_with('-') {
                continue; // the prefix of all of them
            }
            assert!(page.contains(&format!("`{header}`")), "docs/reference/headers.md does not list {header}");
            headers += 1;
        }
    }
    assert!(headers > 10, "headers are written in another way: {headers} were found");
}
