//! Rules without exceptions by number: cycles of files, lengths of files, heads, purity, and tests that do not sleep.

use super::{
    cycles::cycles,
    map::Map,
    source::{Source, production},
};

/// Limits of the rules, and the exceptions from them.
pub(crate) struct Limits<'a> {
    /// Crates without input, output, tasks and clocks.
    pub(crate) pure: &'a [&'a str],
    /// Files in pure crates that may read a clock, with the reason.
    pub(crate) impure: &'a [(&'a str, &'a str)],
    /// The longest a file may be before its tests.
    pub(crate) lines: usize,
    /// Files that may be longer, with the reason.
    pub(crate) long: &'a [(&'a str, &'a str)],
}

/// Values of `std::net`, which open no connection.
const ADDRESSES: [&str; 7] =
    ["SocketAddr", "SocketAddrV4", "SocketAddrV6", "IpAddr", "Ipv4Addr", "Ipv6Addr", "AddrParseError"];

/// Every breach of the rules by the files of the crates, with what to do about it.
pub(crate) fn breaches(limits: &Limits<'_>, sources: &[&Source]) -> Vec<String> {
    let sources = production(sources);
    let map = Map::of(&sources);
    let mut found = Vec::new();
    for source in &sources {
        heads_and_lengths(limits, source, &mut found);
        purity(limits, source, &mut found);
    }
    for (file, _) in limits.long {
        if !sources.iter().any(|source| source.file == *file && source.lines > limits.lines) {
            found.push(format!(
                "{file}: listed as longer than {} lines, but is not: take it off the list",
                limits.lines
            ));
        }
    }
    found.extend(cycles(&sources, &map));
    found
}

/// Every breach of the rules for tests: a head, no sleeping, nothing ignored.
pub(crate) fn test_breaches(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let file = &source.file;
    head(source, &mut found);
    let has = |wanted: &[&str]| source.tokens.windows(wanted.len()).any(|tokens| tokens == wanted);
    if has(&["thread", ":", ":", "sleep"]) {
        found.push(format!("{file}: `thread::sleep` in a test: wait for the event itself (a gate, `Mock::wait_…`)"));
    }
    if file.starts_with("tests/it/") && has(&["time", ":", ":", "sleep"]) {
        found.push(format!(
            "{file}: `time::sleep` in an integration test: wait for the event itself (a gate, `Mock::wait_…`)"
        ));
    }
    if has(&["#", "[", "ignore"]) {
        found.push(format!("{file}: `#[ignore]`: repair the test or remove it; one that is not run proves nothing"));
    }
    found
}

fn head(source: &Source, found: &mut Vec<String>) {
    if !source.text.starts_with("//!") {
        found.push(format!("{}: begin it with `//!` and one sentence that says what it is for", source.file));
    }
}

fn heads_and_lengths(limits: &Limits<'_>, source: &Source, found: &mut Vec<String>) {
    head(source, found);
    let listed = limits.long.iter().any(|(file, _)| *file == source.file);
    if source.lines > limits.lines && !listed {
        found.push(format!(
            "{}: {} lines before its tests, {} are allowed: split it by purpose, or list it in `LONG` with the reason",
            source.file, source.lines, limits.lines
        ));
    }
}

fn purity(limits: &Limits<'_>, source: &Source, found: &mut Vec<String>) {
    let room = source.module.get(1).map_or("", String::as_str);
    if !limits.pure.contains(&room) || limits.impure.iter().any(|(file, _)| *file == source.file) {
        return;
    }
    for (path, line) in &source.names {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let remedy = match path.as_slice() {
            ["std", "net", value, ..] if ADDRESSES.contains(value) => continue,
            ["std" | "tokio", "fs" | "net", ..] => "do it in a crate above and hand the result in",
            ["std", "thread", ..] | ["tokio", "spawn" | "task", ..] => {
                "return what is to be done, and let a crate above run it"
            }
            [.., "Instant" | "SystemTime", "now"] => "take `now: Moment` as an argument",
            _ => continue,
        };
        found.push(format!("{}:{line}: `{}` in the pure crate `{room}`: {remedy}", source.file, path.join("::")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LIMITS, found, one};

    #[test]
    fn long_files_and_files_without_a_head_are_found() {
        let long = "fn f() {}\n".repeat(LIMITS.lines);
        one(&[("src/types/mod.rs", &long)], &["401 lines", "split"]);
        let tested = format!("{}#[cfg(test)]\nmod tests {{\n{long}}}", "fn f() {}\n".repeat(LIMITS.lines - 1));
        assert_eq!(found(&[("src/types/mod.rs", &tested)]), [""; 0]);
        let bare = Source::read("src/types/mod.rs", "pub struct Name;").unwrap();
        assert!(breaches(&LIMITS, &[&bare])[0].contains("begin it with `//!`"));
        let listed = Limits { long: &[("src/types/mod.rs", "made up")], ..LIMITS };
        let short = Source::read("src/types/mod.rs", "//! Short.").unwrap();
        assert!(breaches(&listed, &[&short])[0].contains("take it off the list"));
    }

    #[test]
    fn impure_code_in_pure_rooms_is_found() {
        let impure = |text: &str| found(&[("crates/schedule/src/choose.rs", text)]);
        for text in [
            "use std::fs;",
            "use std::{fs::File, sync::Arc};",
            "use std::net::TcpStream;",
            "fn f() { tokio::spawn(async {}); }",
            "use std::time::Instant; fn f() { Instant::now(); }",
            "fn f() { std::time::SystemTime::now(); }",
            "fn f() { println!(\"{:?}\", std::time::Instant::now()); }",
        ] {
            assert_eq!(impure(text).len(), 1, "{text}: {:?}", impure(text));
        }
        for text in [
            "use std::net::SocketAddr;",
            "//! Never calls `Instant::now`.\nfn now() {}",
            "#[cfg(test)] mod tests { fn f() { std::fs::read(\"x\"); } }",
            "fn f() -> &'static str { \"std::fs\" }",
        ] {
            assert_eq!(impure(text), [""; 0], "{text}");
        }
        let clock = "fn f() { tokio::time::Instant::now(); }";
        assert_eq!(found(&[("crates/types/src/clock.rs", clock)]), [""; 0]);
        one(&[("crates/types/src/lib.rs", clock)], &["now: Moment"]);
    }

    #[test]
    fn tests_that_sleep_or_are_skipped_are_found() {
        let breaches = |text: &str| test_breaches(&Source::read("tests/it/made_up.rs", text).unwrap());
        assert!(breaches("//! x\nfn f() { std::thread::sleep(d) }")[0].contains("wait for the event"));
        assert!(breaches("//! x\nfn f() { tokio::time::sleep(d) }")[0].contains("wait for the event"));
        assert!(breaches("//! x\n#[test]\n#[ignore]\nfn f() {}")[0].contains("repair the test"));
        assert!(breaches("fn f() {}")[0].contains("//!"));
        assert_eq!(breaches("//! No `#[ignore]` here.\nfn f() { let _ = \"thread::sleep\"; }"), [""; 0]);
    }
}
