//! Finds files that import each other.

use std::collections::{BTreeMap, BTreeSet};

use super::{map::Map, source::Source};

/// The shortest cycle through each file that is part of one.
pub(crate) fn cycles(sources: &[&Source], map: &Map<'_>) -> Vec<String> {
    let mut edges: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for source in sources {
        for (path, line) in source.names.iter().filter(|(path, _)| path[0] == "crate") {
            let target = map.source(&map.definition(path)).filter(|target| target.file != source.file);
            if let Some(target) = target {
                edges.entry(&source.file).or_default().entry(&target.file).or_insert(*line);
            }
        }
    }
    let mut found = BTreeMap::new();
    for start in edges.keys() {
        if let Some(cycle) = shortest(start, &edges) {
            let key: BTreeSet<&str> = cycle.iter().map(|(file, _)| *file).collect();
            found.entry(key).or_insert(cycle);
        }
    }
    let descriptions = found.into_values().map(|cycle| {
        let steps: Vec<String> = cycle.iter().map(|(file, line)| format!("{file}:{line}")).collect();
        format!(
            "files import each other in a cycle: {} -> {}: move what they share into a file below them all",
            steps.join(" -> "),
            cycle[0].0
        )
    });
    descriptions.collect()
}

/// The shortest path from `start` back to itself, each file with the line of its import of the next.
fn shortest<'a>(start: &'a str, edges: &BTreeMap<&'a str, BTreeMap<&'a str, usize>>) -> Option<Vec<(&'a str, usize)>> {
    let mut paths = std::collections::VecDeque::from([vec![(start, 0)]]);
    let mut visited = BTreeSet::new();
    while let Some(path) = paths.pop_front() {
        let (last, _) = *path.last()?;
        for (next, line) in edges.get(last).into_iter().flatten() {
            let mut longer = path.clone();
            longer.last_mut()?.1 = *line;
            if *next == start {
                return Some(longer);
            }
            if visited.insert(*next) {
                longer.push((next, 0));
                paths.push_back(longer);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::{found, one};

    #[test]
    fn files_that_import_each_other_are_found() {
        let direct = [
            ("src/fleet/mod.rs", "mod pool; mod ticket;"),
            ("src/fleet/pool.rs", "use super::ticket::Ticket; pub struct Pool;"),
            ("src/fleet/ticket.rs", "use super::pool::Pool; pub struct Ticket;"),
        ];
        one(&direct, &["cycle", "src/fleet/pool.rs:2 -> src/fleet/ticket.rs:2"]);
        // The cycle is found although both names come through the room's `mod.rs`.
        let through_the_facade = [
            ("src/fleet/mod.rs", "mod pool; mod ticket; pub use self::{pool::Pool, ticket::*};"),
            ("src/fleet/pool.rs", "use crate::fleet::Ticket; pub struct Pool;"),
            ("src/fleet/ticket.rs", "use super::Pool; pub struct Ticket;"),
        ];
        one(&through_the_facade, &["cycle"]);
        let facade = [
            ("src/fleet/mod.rs", "mod pool; pub use pool::Pool; pub struct Word;"),
            ("src/fleet/pool.rs", "use super::Word; pub struct Pool(Word);"),
        ];
        assert_eq!(found(&facade), [""; 0], "a room may re-export what uses its types");
        let entangled = [
            ("src/fleet/mod.rs", "mod pool; use self::pool::Pool; pub struct Word(Pool);"),
            ("src/fleet/pool.rs", "use super::Word; pub struct Pool;"),
        ];
        one(&entangled, &["cycle"]);
    }
}
