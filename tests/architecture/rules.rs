//! Rules without exceptions by number: floors, cycles, lengths of files, heads, purity, and tests that do not sleep.

use std::collections::BTreeSet;

use super::{
    cycles::cycles,
    map::Map,
    source::{Source, production},
};

/// Limits of the rules, and the exceptions from them.
pub(crate) struct Limits<'a> {
    /// Each room with its floor.
    pub(crate) floors: &'a [(&'a str, u32)],
    /// Rooms without input, output, tasks and clocks.
    pub(crate) pure: &'a [&'a str],
    /// Files in pure rooms that may read a clock, with the reason.
    pub(crate) impure: &'a [(&'a str, &'a str)],
    /// The longest a file may be before its tests.
    pub(crate) lines: usize,
    /// Files that may be longer, with the reason.
    pub(crate) long: &'a [(&'a str, &'a str)],
}

/// Values of `std::net`, which open no connection.
const ADDRESSES: [&str; 7] =
    ["SocketAddr", "SocketAddrV4", "SocketAddrV6", "IpAddr", "Ipv4Addr", "Ipv6Addr", "AddrParseError"];

/// Every breach of the rules by the files under `src`, with what to do about it.
pub(crate) fn breaches(limits: &Limits<'_>, sources: &[&Source]) -> Vec<String> {
    let sources = production(sources);
    let map = Map::of(&sources);
    let mut found = Vec::new();
    for source in &sources {
        heads_and_lengths(limits, source, &mut found);
        floors(limits, source, &map, &mut found);
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

fn floors(limits: &Limits<'_>, source: &Source, map: &Map<'_>, found: &mut Vec<String>) {
    let Some(room) = source.module.get(1) else { return };
    let floor = |room: &str| limits.floors.iter().find(|(name, _)| *name == room).map(|(_, floor)| *floor);
    let Some(own) = floor(room) else {
        found.push(format!(
            "{}: the room `{room}` has no floor: enter it in `FLOORS` (and in docs/dev/architecture.md)",
            source.file
        ));
        return;
    };
    let mut reported = BTreeSet::new();
    for (path, line) in source.names.iter().filter(|(path, _)| path[0] == "crate") {
        let target = map.definition(path);
        let place = format!("{}:{line}", source.file);
        let Some(other) = target.get(1) else {
            if path.len() > 1 && reported.insert(String::new()) {
                found.push(format!(
                    "{place}: names `{}`, which is part of lib.rs or main.rs: move it down into a room",
                    path.join("::")
                ));
            }
            continue;
        };
        if other == room || floor(other).is_some_and(|floor| floor < own) || !reported.insert(other.clone()) {
            continue;
        }
        found.push(match floor(other) {
            Some(floor) => format!(
                "{place}: `{room}` (floor {own}) imports `{}` from `{other}` (floor {floor}): only lower floors may be \
                 imported; pass it in as an argument or a trait, or move what is shared further down",
                path.join("::")
            ),
            None => format!("{place}: `{}` is in no room that `FLOORS` knows", path.join("::")),
        });
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
            ["std" | "tokio", "fs" | "net", ..] => "do it on a higher floor and hand the result in",
            ["std", "thread", ..] | ["tokio", "spawn" | "task", ..] => {
                "return what is to be done, and let a higher floor run it"
            }
            [.., "Instant" | "SystemTime", "now"] => "take `now: Moment` as an argument",
            _ => continue,
        };
        found.push(format!("{}:{line}: `{}` in the pure room `{room}`: {remedy}", source.file, path.join("::")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LIMITS, found, one};

    #[test]
    fn imports_go_down_only() {
        let types = ("src/types/mod.rs", "pub struct Name;");
        assert_eq!(found(&[types, ("src/fleet/mod.rs", "use crate::types::Name; fn f(_: Name) {}")]), [""; 0]);
        let config = ("src/config/mod.rs", "pub fn load() {}");
        assert_eq!(found(&[config, ("src/policy/mod.rs", "fn f() { crate::config::load() }")]), [""; 0]);
        one(
            &[config, ("src/types/mod.rs", "use crate::config::load;")],
            &["src/types/mod.rs:2", "floor 0", "`config` (floor 3)"],
        );
        one(&[config, ("src/redis/mod.rs", "use crate::{config::load};")], &["`redis` (floor 3)", "(floor 3)"]);
        // Inline paths, macros, aliases of modules and re-exports through other rooms count too.
        one(&[config, ("src/types/mod.rs", "fn f() { crate::config::load() }")], &["crate::config::load"]);
        one(&[config, ("src/types/mod.rs", "fn f() { vec![super::config::load()]; }")], &["crate::config::load"]);
        let cli = ("src/cli/mod.rs", "pub use crate::config::load;");
        assert_eq!(found(&[config, cli, ("src/server/mod.rs", "use crate::cli::load;")]), [""; 0]);
        one(&[("src/lib.rs", "pub struct Top;"), ("src/types/mod.rs", "use crate::Top;")], &["lib.rs"]);
        one(&[("src/attic/mod.rs", "")], &["`attic` has no floor"]);
    }

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
        let impure = |text: &str| found(&[("src/schedule/mod.rs", text)]);
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
        assert_eq!(found(&[("src/types/clock.rs", clock)]), [""; 0]);
        one(&[("src/types/mod.rs", clock)], &["now: Moment"]);
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
