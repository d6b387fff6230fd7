//! Reads `src/` and `tests/` and fails where they leave the house's plan: floors, cycles, lengths, heads, purity.

#[path = "architecture/rules.rs"]
mod rules;
#[path = "architecture/source.rs"]
mod source;

use std::{fs, path::Path};

use rules::{House, breaches, test_breaches};
use source::Source;

/// A room may import only from rooms on lower floors. `lib.rs` and `main.rs` are the roof.
const FLOORS: [(&str, u32); 23] = [
    ("types", 0),
    ("measure", 1),
    ("protocol", 2),
    ("prompt", 2),
    ("quota", 2),
    ("config", 3),
    ("redis", 3),
    ("telemetry", 3),
    ("policy", 4),
    ("schedule", 4),
    ("cache", 5),
    ("fleet", 5),
    ("sim", 6),
    ("embed", 6),
    ("store", 6),
    ("otel", 6),
    ("journal_replay", 7),
    ("lab", 7),
    ("upstream", 7),
    ("gateway", 8),
    ("loadgen", 8),
    ("server", 9),
    ("cli", 10),
];

/// Rooms that do no input or output, start no tasks, and are handed the time.
const PURE: [&str; 8] = ["types", "measure", "prompt", "quota", "policy", "schedule", "fleet", "cache"];

/// Files in pure rooms that may do otherwise, with the reason.
const IMPURE: [(&str, &str); 1] = [("src/types/clock.rs", "it is the one place where time is read")];

/// The longest a file may be before its tests.
const LINES: usize = 400;

/// Files that may be longer, with the reason.
const LONG: [(&str, &str); 0] = [];

const HOUSE: House<'_> = House { floors: &FLOORS, pure: &PURE, impure: &IMPURE, lines: LINES, long: &LONG };

#[test]
fn the_sources_keep_to_the_plan() {
    tell(&breaches(&HOUSE, &read("src")));
}

#[test]
fn the_tests_wait_for_nothing_and_skip_nothing() {
    tell(&read("tests").iter().flat_map(test_breaches).collect::<Vec<_>>());
}

fn tell(found: &[String]) {
    assert!(found.is_empty(), "{} breaches of the house's plan:\n  {}", found.len(), found.join("\n  "));
}

/// All Rust files of a folder of the package.
fn read(folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut folders, mut sources) = (vec![root.join(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder that can be listed") {
            let path = entry.expect("an entry that can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let file =
                    path.strip_prefix(root).expect("a path below the package").to_string_lossy().replace('\\', "/");
                let text = fs::read_to_string(&path).expect("a source file is text");
                sources.push(Source::read(&file, &text).unwrap_or_else(|problem| panic!("{problem}")));
            }
        }
    }
    sources.sort_by(|one, other| one.file.cmp(&other.file));
    sources
}

/// The breaches of a made-up package.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let read =
        |(file, text): &(&str, &str)| Source::read(file, &format!("//! Made up.\n{text}")).expect("made-up Rust");
    breaches(&HOUSE, &files.iter().map(read).collect::<Vec<_>>())
}

fn one(files: &[(&str, &str)], parts: &[&str]) {
    let found = found(files);
    assert!(found.len() == 1 && parts.iter().all(|part| found[0].contains(part)), "{parts:?} in {found:#?}");
}

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
    one(&[("src/lib.rs", "pub struct Top;"), ("src/types/mod.rs", "use crate::Top;")], &["roof"]);
    one(&[("src/attic/mod.rs", "")], &["`attic` has no floor"]);
}

#[test]
fn files_do_not_go_in_circles() {
    let circle = [
        ("src/fleet/mod.rs", "mod pool; mod ticket;"),
        ("src/fleet/pool.rs", "use super::ticket::Ticket; pub struct Pool;"),
        ("src/fleet/ticket.rs", "use super::pool::Pool; pub struct Ticket;"),
    ];
    one(&circle, &["circle", "src/fleet/pool.rs:2 -> src/fleet/ticket.rs:2"]);
    // The circle is found although both names come through the room's door.
    let through_the_door = [
        ("src/fleet/mod.rs", "mod pool; mod ticket; pub use self::{pool::Pool, ticket::*};"),
        ("src/fleet/pool.rs", "use crate::fleet::Ticket; pub struct Pool;"),
        ("src/fleet/ticket.rs", "use super::Pool; pub struct Ticket;"),
    ];
    one(&through_the_door, &["circle"]);
    let door = [
        ("src/fleet/mod.rs", "mod pool; pub use pool::Pool; pub struct Word;"),
        ("src/fleet/pool.rs", "use super::Word; pub struct Pool(Word);"),
    ];
    assert_eq!(found(&door), [""; 0], "a door may show what uses its vocabulary");
    let entangled = [
        ("src/fleet/mod.rs", "mod pool; use self::pool::Pool; pub struct Word(Pool);"),
        ("src/fleet/pool.rs", "use super::Word; pub struct Pool;"),
    ];
    one(&entangled, &["circle"]);
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    let long = "fn f() {}\n".repeat(LINES);
    one(&[("src/types/mod.rs", &long)], &["401 lines", "split"]);
    let tested = format!("{}#[cfg(test)]\nmod tests {{\n{long}}}", "fn f() {}\n".repeat(LINES - 1));
    assert_eq!(found(&[("src/types/mod.rs", &tested)]), [""; 0]);
    let bare = Source::read("src/types/mod.rs", "pub struct Name;").unwrap();
    assert!(breaches(&HOUSE, &[bare])[0].contains("begin it with `//!`"));
    let listed = House { long: &[("src/types/mod.rs", "made up")], ..HOUSE };
    let short = Source::read("src/types/mod.rs", "//! Short.").unwrap();
    assert!(breaches(&listed, &[short])[0].contains("take it off the list"));
}

#[test]
fn pure_rooms_stay_pure() {
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
    assert!(breaches("//! x\n#[test]\n#[ignore]\nfn f() {}")[0].contains("mend the test"));
    assert!(breaches("fn f() {}")[0].contains("//!"));
    assert_eq!(breaches("//! No `#[ignore]` here.\nfn f() { let _ = \"thread::sleep\"; }"), [""; 0]);
}
