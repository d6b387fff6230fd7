//! Finds knots of modules: files and folders of one folder that need each other, directly or through others.
//!
//! The nodes are the direct children of a crate or of a folder in it (a file `name.rs` and its folder `name/` are one node) and the
//! folder's own file (`mod.rs`, or `folder.rs` beside it). There is an edge from one node to another where code outside the
//! tests names something that is defined in the other, re-exports followed. `mod` and `pub use` of a child in the folder's
//! own file are no edges: the folder shows its children. What its own code uses of a child is an edge, and so is what a child
//! uses that the folder's own file defines. A knot is a strongly connected component of more than one node. The rule applies
//! to each folder by itself, nested ones too; between crates Cargo does the same.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    map::Map,
    ratchet::Count,
    source::{Path, Source},
};

/// The folder's own file among its children.
const OWN: &str = "(itself)";

/// Edges between the nodes of one folder, each with the first import that makes it.
type Edges = BTreeMap<String, BTreeMap<String, String>>;

/// The children of each folder that are part of a knot.
pub(crate) fn counts(sources: &[&Source]) -> Vec<Count> {
    let map = Map::of(sources);
    let folders: BTreeSet<&[String]> =
        sources.iter().flat_map(|source| (2..source.module.len()).map(|length| &source.module[..length])).collect();
    let mut counts = Vec::new();
    for folder in folders {
        let edges = edges(folder, sources, &map);
        let knots = knots(&edges);
        let number = knots.iter().map(BTreeSet::len).sum();
        if number > 0 {
            let breaches = knots.iter().flat_map(|knot| describe(knot, &edges)).collect();
            counts.push(Count { rule: "knots", place: place(folder), number, breaches });
        }
    }
    counts
}

fn place(folder: &[String]) -> String {
    folder[1..].join("/")
}

fn edges(folder: &[String], sources: &[&Source], map: &Map<'_>) -> Edges {
    let mut edges = Edges::new();
    for source in sources {
        let Some(from) = node(folder, &source.module) else { continue };
        for (path, line) in source.names.iter().filter(|(path, _)| path[0] == "crate") {
            if let Some(to) = node(folder, &map.definition(path)).filter(|to| *to != from) {
                let import = || format!("{}:{line} names `{}`", source.file, path[1..].join("::"));
                edges.entry(from.clone()).or_default().entry(to).or_insert_with(import);
            }
        }
    }
    edges
}

/// The child of the folder that holds the module; `None` for modules outside it.
fn node(folder: &[String], module: &Path) -> Option<String> {
    let inner = module.strip_prefix(folder)?;
    Some(inner.first().map_or_else(|| OWN.to_owned(), Clone::clone))
}

/// Strongly connected components of more than one node.
fn knots(edges: &Edges) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        edges.keys().map(|start| (start, reachable(start, edges))).collect();
    let mut knots = BTreeSet::new();
    for (start, others) in &reached {
        let back = others.iter().filter(|other| reached.get(**other).is_some_and(|from| from.contains(start)));
        let knot: BTreeSet<String> = back.map(|other| (*other).clone()).collect();
        if knot.len() > 1 {
            knots.insert(knot);
        }
    }
    knots.into_iter().collect()
}

fn reachable<'a>(start: &'a String, edges: &'a Edges) -> BTreeSet<&'a String> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![start]);
    while let Some(node) = open.pop() {
        open.extend(edges.get(node).into_iter().flat_map(BTreeMap::keys).filter(|next| reached.insert(*next)));
    }
    reached
}

/// The knot's nodes, and one import for each of its edges.
fn describe(knot: &BTreeSet<String>, edges: &Edges) -> Vec<String> {
    let names: Vec<&str> = knot.iter().map(String::as_str).collect();
    let mut lines = vec![format!("a knot of {}: {}", knot.len(), names.join(" "))];
    for (from, targets) in edges.iter().filter(|(from, _)| knot.contains(*from)) {
        let inside = targets.iter().filter(|(to, _)| knot.contains(*to));
        lines.extend(inside.map(|(to, import)| format!("  {from} -> {to}: {import}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up;

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let sources = made_up(files);
        let counts = counts(&sources.iter().collect::<Vec<_>>());
        counts.into_iter().map(|count| (count.place, count.number)).collect()
    }

    #[test]
    fn folders_that_need_each_other_are_found_although_no_files_do() {
        let files = [
            ("src/fleet/mod.rs", "mod pool; mod ticket; pub use self::{pool::Pool, ticket::Guard};"),
            ("src/fleet/pool/mod.rs", "mod size; pub struct Pool;"),
            ("src/fleet/pool/size.rs", "use crate::fleet::Guard; fn f(_: Guard) {}"),
            ("src/fleet/ticket.rs", "mod guard; pub use guard::Guard; fn f(_: super::Pool) {}"),
            ("src/fleet/ticket/guard.rs", "pub struct Guard;"),
        ];
        assert_eq!(found(&files), [("fleet".to_owned(), 2)]);
        let untied = ("src/fleet/pool/size.rs", "pub struct Size;");
        assert_eq!(found(&[files[0], files[1], untied, files[3], files[4]]), []);
    }

    #[test]
    fn a_folder_shows_its_children_and_is_a_node_where_it_uses_them() {
        let child = ("src/fleet/pool.rs", "use super::Word; pub struct Pool(Word);");
        let shows = ("src/fleet/mod.rs", "mod pool; pub use self::pool::Pool; pub struct Word;");
        assert_eq!(found(&[shows, child]), []);
        let uses = ("src/fleet/mod.rs", "mod pool; use self::pool::Pool; pub struct Word; fn f(_: Pool) {}");
        assert_eq!(found(&[uses, child]), [("fleet".to_owned(), 2)]);
    }

    #[test]
    fn nested_folders_are_looked_at_by_themselves() {
        let files = [
            ("src/fleet/mod.rs", "mod pool;"),
            ("src/fleet/pool/mod.rs", "mod one; mod two; mod three;"),
            ("src/fleet/pool/one.rs", "use super::two::Two; pub struct One(Two);"),
            ("src/fleet/pool/two.rs", "use super::three::Three; pub struct Two(Three);"),
            ("src/fleet/pool/three.rs", "use super::one::One; pub struct Three(Box<One>);"),
        ];
        assert_eq!(found(&files), [("fleet/pool".to_owned(), 3)]);
    }
}
