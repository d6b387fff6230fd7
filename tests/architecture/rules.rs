//! The rules themselves: floors, cycles, lengths, heads, purity, and tests that wait for nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::source::{Path, Source};

/// What the house allows.
pub(crate) struct House<'a> {
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

/// Every breach of the rules by the files under `src`, in words that say what to do.
pub(crate) fn breaches(house: &House<'_>, sources: &[Source]) -> Vec<String> {
    let tests: BTreeSet<&Path> = sources.iter().flat_map(|source| &source.test_modules).collect();
    let sources: Vec<&Source> = sources.iter().filter(|source| !tests.contains(&source.module)).collect();
    let map = Map::of(&sources);
    let mut found = Vec::new();
    for source in &sources {
        heads_and_lengths(house, source, &mut found);
        floors(house, source, &map, &mut found);
        purity(house, source, &mut found);
    }
    for (file, _) in house.long {
        if !sources.iter().any(|source| source.file == *file && source.lines > house.lines) {
            found
                .push(format!("{file}: listed as longer than {} lines, but is not: take it off the list", house.lines));
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
        found.push(format!("{file}: `#[ignore]`: mend the test or remove it; one that is not run proves nothing"));
    }
    found
}

fn head(source: &Source, found: &mut Vec<String>) {
    if !source.text.starts_with("//!") {
        found.push(format!("{}: begin it with `//!` and one sentence that says what it is for", source.file));
    }
}

fn heads_and_lengths(house: &House<'_>, source: &Source, found: &mut Vec<String>) {
    head(source, found);
    let listed = house.long.iter().any(|(file, _)| *file == source.file);
    if source.lines > house.lines && !listed {
        found.push(format!(
            "{}: {} lines before its tests, {} are allowed: split it by purpose, or list it in `LONG` with the reason",
            source.file, source.lines, house.lines
        ));
    }
}

fn floors(house: &House<'_>, source: &Source, map: &Map<'_>, found: &mut Vec<String>) {
    let Some(room) = source.module.get(1) else { return };
    let floor = |room: &str| house.floors.iter().find(|(name, _)| *name == room).map(|(_, floor)| *floor);
    let Some(own) = floor(room) else {
        found.push(format!(
            "{}: the room `{room}` has no floor: enter it in `FLOORS` (and in docs/dev/architecture.md)",
            source.file
        ));
        return;
    };
    let mut told = BTreeSet::new();
    for (path, line) in source.names.iter().filter(|(path, _)| path[0] == "crate") {
        let target = map.definition(path);
        let place = format!("{}:{line}", source.file);
        let Some(other) = target.get(1) else {
            if path.len() > 1 && told.insert(String::new()) {
                found.push(format!(
                    "{place}: names `{}`, which the roof (lib.rs) holds: move it down into a room",
                    path.join("::")
                ));
            }
            continue;
        };
        if other == room || floor(other).is_some_and(|floor| floor < own) || !told.insert(other.clone()) {
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

fn purity(house: &House<'_>, source: &Source, found: &mut Vec<String>) {
    let room = source.module.get(1).map_or("", String::as_str);
    if !house.pure.contains(&room) || house.impure.iter().any(|(file, _)| *file == source.file) {
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

/// Where things are defined.
struct Map<'a>(HashMap<&'a [String], &'a Source>);

impl<'a> Map<'a> {
    fn of(sources: &[&'a Source]) -> Self {
        let modules = sources.iter().filter(|source| source.file != "src/main.rs");
        Self(modules.map(|source| (source.module.as_slice(), *source)).collect())
    }

    /// The module (with a file of its own) in which the thing at `path` is defined, re-exports followed.
    fn definition(&self, path: &[String]) -> Path {
        self.follow(path, 8)
    }

    fn follow(&self, path: &[String], depth: u32) -> Path {
        let known = (1..=path.len()).rev().find(|length| self.0.contains_key(&path[..*length])).unwrap_or(1);
        let module = path[..known].to_vec();
        let (Some(source), Some(name)) = (self.0.get(module.as_slice()), path.get(known)) else { return module };
        if depth == 0 || source.items.contains(name) {
            return module;
        }
        if let Some(target) = source.aliases.get(name).filter(|target| target[0] == "crate") {
            return self.follow(&[target, &path[known + 1..]].concat(), depth - 1);
        }
        let globs = source.globs.iter().filter(|glob| glob[0] == "crate" && **glob != module);
        let through = globs.map(|glob| self.follow(&[glob, &path[known..]].concat(), depth - 1));
        through
            .into_iter()
            .find(|at| self.0.get(at.as_slice()).is_some_and(|source| source.items.contains(name)))
            .unwrap_or(module)
    }
}

/// Every knot of files that import each other, in a circle.
fn cycles(sources: &[&Source], map: &Map<'_>) -> Vec<String> {
    let mut edges: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for source in sources {
        for (path, line) in source.names.iter().filter(|(path, _)| path[0] == "crate") {
            let target = map.0.get(map.definition(path).as_slice()).filter(|target| target.file != source.file);
            if let Some(target) = target {
                edges.entry(&source.file).or_default().entry(&target.file).or_insert(*line);
            }
        }
    }
    let mut found = BTreeMap::new();
    for start in edges.keys() {
        if let Some(circle) = circle(start, &edges) {
            let key: BTreeSet<&str> = circle.iter().map(|(file, _)| *file).collect();
            found.entry(key).or_insert(circle);
        }
    }
    let told = found.into_values().map(|circle| {
        let steps: Vec<String> = circle.iter().map(|(file, line)| format!("{file}:{line}")).collect();
        format!(
            "files import each other in a circle: {} -> {}: move what they share into a file below them all",
            steps.join(" -> "),
            circle[0].0
        )
    });
    told.collect()
}

/// The shortest way from `start` back to itself, each file with the line of the import that leads on.
fn circle<'a>(start: &'a str, edges: &BTreeMap<&'a str, BTreeMap<&'a str, usize>>) -> Option<Vec<(&'a str, usize)>> {
    let mut ways = std::collections::VecDeque::from([vec![(start, 0)]]);
    let mut visited = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        let (last, _) = *way.last()?;
        for (next, line) in edges.get(last).into_iter().flatten() {
            let mut longer = way.clone();
            longer.last_mut()?.1 = *line;
            if *next == start {
                return Some(longer);
            }
            if visited.insert(*next) {
                longer.push((next, 0));
                ways.push_back(longer);
            }
        }
    }
    None
}
