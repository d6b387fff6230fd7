//! Reads the sources and fails where they break the rules of the code base.
//!
//! Some rules hold everywhere: cycles of files, purity, lengths of files; that crates import only downwards, Cargo sees to.
//! Others are still broken in places; how often, stands in `architecture/ratchet.txt`. A number there may only go down: the
//! test fails where the sources have more, and where they have less. `SIGNALBOX_UPDATE=1 cargo test --test architecture`
//! lowers the numbers to what is found.

#[path = "architecture/comments.rs"]
mod comments;
#[path = "architecture/cycles.rs"]
mod cycles;
#[path = "architecture/documents.rs"]
mod documents;
#[path = "architecture/exports.rs"]
mod exports;
#[path = "architecture/functions.rs"]
mod functions;
#[path = "architecture/knots.rs"]
mod knots;
#[path = "architecture/map.rs"]
mod map;
#[path = "architecture/ratchet.rs"]
mod ratchet;
#[path = "architecture/rules.rs"]
mod rules;
#[path = "architecture/source.rs"]
mod source;
#[path = "architecture/words.rs"]
mod words;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use rules::{Limits, breaches, test_breaches};
use source::{Source, production};

/// Crates that do no input or output, start no tasks, and take the time as an argument.
const PURE: [&str; 11] = [
    "types",
    "measure",
    "engines",
    "translation",
    "prompt",
    "quota",
    "policy",
    "schedule",
    "fleet",
    "cache",
    "migration",
];

/// Files in pure crates that may do otherwise, with the reason.
const IMPURE: [(&str, &str); 2] = [
    ("crates/types/src/clock.rs", "it is the one place where time is read"),
    ("crates/types/src/wall_clock.rs", "it is the one place where Unix time is read"),
];

/// The longest a file may be before its tests.
const LINES: usize = 400;

/// Files that may be longer, with the reason.
const LONG: [(&str, &str); 0] = [];

const LIMITS: Limits<'_> = Limits { pure: &PURE, impure: &IMPURE, lines: LINES, long: &LONG };

/// Folders with Rust files of the workspace.
const FOLDERS: [&str; 6] = ["src", "tests", "benches", "examples", "fuzz/fuzz_targets", "crates"];

/// Every Rust file of the workspace.
static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let read = |file: String| Source::read(&file, &text(&file)).unwrap_or_else(|problem| panic!("{problem}"));
    FOLDERS.iter().flat_map(|folder| files(folder, "rs")).map(read).collect()
});

#[test]
fn the_sources_keep_the_rules() {
    report(&breaches(&LIMITS, &production_sources()));
}

#[test]
fn the_tests_do_not_sleep_and_skip_nothing() {
    report(&of_folder("tests").into_iter().flat_map(test_breaches).collect::<Vec<_>>());
}

#[test]
fn the_numbers_of_the_ratchet_are_current() {
    let sources = production_sources();
    let production = production(&sources);
    let counts: Vec<_> = [
        knots::counts(&production),
        comments::counts(&SOURCES),
        words::counts(&sources),
        exports::counts(&production, &SOURCES),
        functions::counts(&production),
        documents::counts(&text("README.md")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut table = text(RATCHET);
    if std::env::var_os("SIGNALBOX_UPDATE").is_some() {
        table = ratchet::lowered(&table, &counts);
        fs::write(root().join(RATCHET), &table).expect("the ratchet can be written");
    }
    report(&ratchet::differences(&table, &counts));
}

#[test]
fn the_documents_name_no_path_of_a_machine() {
    let documents = files("", "md").into_iter();
    report(&documents.flat_map(|file| documents::machine_paths(&file, &text(&file))).collect::<Vec<_>>());
}

/// Prints the lines of each room before their tests (`just lines`).
#[test]
#[expect(clippy::print_stdout, reason = "the table is the purpose")]
fn lines_of_each_room() {
    let mut rooms: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for source in production(&production_sources()) {
        let (files, lines) = rooms.entry(source.room()).or_default();
        (*files, *lines) = (*files + 1, *lines + source.lines);
    }
    let (files, lines) = rooms.values().fold((0, 0), |(files, lines), room| (files + room.0, lines + room.1));
    println!("{:16} {:>6} {:>7}", "room", "files", "lines");
    for (room, (files, lines)) in rooms {
        println!("{room:16} {files:>6} {lines:>7}");
    }
    println!("{:16} {files:>6} {lines:>7}", "total");
    assert!(lines > 0, "the sources are found");
}

const RATCHET: &str = "tests/architecture/ratchet.txt";

fn report(found: &[String]) {
    assert!(found.is_empty(), "{} rules of the code base are broken:\n  {}", found.len(), found.join("\n  "));
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn of_folder(folder: &str) -> Vec<&'static Source> {
    SOURCES.iter().filter(|source| Path::new(&source.file).starts_with(folder)).collect()
}

/// The files of the command and of its crates, without the models that are built in.
fn production_sources() -> Vec<&'static Source> {
    let of_crate =
        |file: &str| file.starts_with("crates/") && file.contains("/src/") && !file.starts_with("crates/minilm");
    SOURCES.iter().filter(|source| source.file.starts_with("src/") || of_crate(&source.file)).collect()
}

/// The files below a folder of the workspace that have this extension, with `/`; build outputs left out.
fn files(folder: &str, extension: &str) -> Vec<String> {
    let (mut folders, mut files) = (vec![root().join(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder that can be listed") {
            let path = entry.expect("an entry that can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && name != "target" && name != "node_modules" && !name.starts_with('.') {
                folders.push(path);
            } else if path.extension().is_some_and(|other| other == extension) {
                let file = path.strip_prefix(root()).expect("a path below the package");
                files.push(file.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    files.sort();
    files
}

/// A made-up package.
fn made_up(files: &[(&str, &str)]) -> Vec<Source> {
    let read =
        |(file, text): &(&str, &str)| Source::read(file, &format!("//! Made up.\n{text}")).expect("made-up Rust");
    files.iter().map(read).collect()
}

/// The breaches of a made-up package.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    breaches(&LIMITS, &made_up(files).iter().collect::<Vec<_>>())
}

fn one(files: &[(&str, &str)], parts: &[&str]) {
    let found = found(files);
    assert!(found.len() == 1 && parts.iter().all(|part| found[0].contains(part)), "{parts:?} in {found:#?}");
}
