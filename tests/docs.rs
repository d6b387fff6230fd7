//! Reads the documents and fails on a link or an anchor that leads nowhere, on a page that the table of contents does not list, and on a
//! file or a symbol that the architecture page names and the sources do not have.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::{Component, Path, PathBuf},
};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A document, as far as links are concerned.
struct Page {
    /// Targets of links and images.
    links: Vec<String>,
    /// Anchors of its headings.
    anchors: BTreeSet<String>,
}

impl Page {
    fn read(text: &str) -> Self {
        let (mut links, mut anchors, mut times) = (Vec::new(), BTreeSet::new(), HashMap::new());
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let slug = slug(&heading.take().unwrap_or_default());
                    let before = times.entry(slug.clone()).or_insert(0);
                    anchors.insert(if *before == 0 { slug } else { format!("{slug}-{before}") });
                    *before += 1;
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        Self { links, anchors }
    }
}

/// The anchor of a heading, as GitHub and mdBook make it.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// The Markdown files at the root and below `docs`, by their paths from the root.
fn pages() -> BTreeMap<PathBuf, Page> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<PathBuf> = markdown(root);
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        files.extend(markdown(&folder));
        let below = fs::read_dir(folder).expect("a folder that can be listed").filter_map(Result::ok);
        folders.extend(below.map(|entry| entry.path()).filter(|path| path.is_dir()));
    }
    let page = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a document is text");
        (path.strip_prefix(root).expect("a path below the root").to_owned(), Page::read(&text))
    };
    files.into_iter().map(page).collect()
}

fn markdown(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder that can be listed").filter_map(Result::ok);
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.is_file() && path.extension().is_some_and(|it| it == "md")).collect()
}

/// `target` as seen from `page`, without `.` and `..`.
fn resolved(page: &Path, target: &str) -> PathBuf {
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => assert!(path.pop(), "{target} in {} leads out of the repository", page.display()),
            Component::Normal(part) => path.push(part),
            _ => {}
        }
    }
    path
}

#[test]
fn every_link_leads_somewhere() {
    let (root, pages) = (Path::new(env!("CARGO_MANIFEST_DIR")), pages());
    let mut broken = Vec::new();
    for (path, page) in &pages {
        let own = page.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:"));
        for link in own {
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if target.is_empty() { path.clone() } else { resolved(path, target) };
            if !root.join(&target).exists() {
                broken.push(format!("{}: {link}: there is no {}", path.display(), target.display()));
            } else if !anchor.is_empty() && !pages.get(&target).is_some_and(|page| page.anchors.contains(anchor)) {
                broken.push(format!("{}: {link}: {} has no such heading", path.display(), target.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{} broken links:\n  {}", broken.len(), broken.join("\n  "));
}

#[test]
fn the_summary_lists_every_page_once() {
    let pages = pages();
    let summary = Path::new("docs/SUMMARY.md");
    let listed: Vec<_> = pages[summary].links.iter().map(|link| resolved(summary, link)).collect();
    let wanted: BTreeSet<_> = pages.keys().filter(|path| path.starts_with("docs") && *path != summary).collect();
    for page in &wanted {
        let times = listed.iter().filter(|path| path == page).count();
        assert!(times == 1, "docs/SUMMARY.md lists {} {times} times", page.display());
    }
    assert_eq!(listed.len(), wanted.len(), "docs/SUMMARY.md lists what is no page");
}

/// The code spans of a Markdown text, row by row of its tables and line by line elsewhere.
fn code_spans(text: &str) -> Vec<Vec<String>> {
    let mut rows = vec![Vec::new()];
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Code(code) => rows.last_mut().expect("at least one row").push(code.into_string()),
            Event::End(
                TagEnd::TableRow | TagEnd::TableHead | TagEnd::Paragraph | TagEnd::Item | TagEnd::Heading(_),
            ) => {
                rows.push(Vec::new());
            }
            _ => {}
        }
    }
    rows
}

/// The file or folder that a code span names: from the root, or as `CRATE/FILE` without `crates` and `src`. `None` if the span is
/// no path.
fn source(span: &str) -> Option<Result<PathBuf, &str>> {
    let is_path = span.contains('/') && !span.starts_with('/') && !span.contains(char::is_whitespace);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (name, inside) = span.split_once('/')?;
    let places = [root.join(span), root.join("crates").join(name).join("src").join(inside)];
    is_path.then(|| places.into_iter().find(|path| path.exists()).ok_or(span))
}

/// The text of a file, or of all Rust files directly in a folder.
fn text_of(path: &Path) -> String {
    if path.is_file() {
        return fs::read_to_string(path).expect("a source is text");
    }
    let entries = fs::read_dir(path).expect("a folder that can be listed").filter_map(Result::ok);
    let files = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "rs"));
    files.map(|file| text_of(&file)).collect()
}

#[test]
fn the_architecture_page_names_what_the_sources_have() {
    let page = include_str!("../docs/dev/architecture.md");
    let (_, rest) = page.split_once("## Where to look").expect("a heading");
    let (table, _) = rest.split_once("\n## ").expect("a heading after it");
    let mut wrong = Vec::new();
    for span in code_spans(page).iter().flatten() {
        if let Some(Err(path)) = source(span) {
            wrong.push(format!("there is no {path}"));
        }
    }
    for row in code_spans(table) {
        let named = row.iter().filter_map(|span| source(span)?.ok()).map(|path| text_of(&path)).collect::<String>();
        let words: BTreeSet<&str> = named.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let symbols = row.iter().filter(|span| span.starts_with(|c: char| c.is_ascii_uppercase()));
        let parts = symbols.flat_map(|span| span.split(|c: char| !c.is_alphanumeric() && c != '_'));
        let missing = parts.filter(|part| !part.is_empty() && !words.contains(part));
        wrong.extend(missing.map(|part| format!("no file of the row has `{part}`: {row:?}")));
    }
    assert!(wrong.is_empty(), "docs/dev/architecture.md:\n  {}", wrong.join("\n  "));
}

/// The crates of this workspace that each of its crates uses, tests apart, by their folders below `crates`; without the built-in model
/// and the tasks of contributors.
fn uses() -> BTreeMap<String, BTreeSet<String>> {
    let folders = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates")).expect("a folder of crates");
    let names = folders.map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"));
    let crates = names.filter(|name| name != "xtask" && !name.starts_with("minilm")).map(|name| {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(&name).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).expect("each crate has a manifest");
        let (_, rest) = manifest.split_once("[dependencies]\n").expect("dependencies");
        let section = rest.split("\n[").next().unwrap_or_default();
        let ours = section.lines().filter_map(|line| line.strip_prefix("signalbox-")?.split(['.', ' ']).next());
        let ours = ours.filter(|other| !other.starts_with("minilm")).map(|other| other.trim_end_matches("-core"));
        (name, ours.map(str::to_owned).collect())
    });
    crates.collect()
}

#[test]
fn the_map_of_crates_is_what_their_manifests_say() {
    let page = include_str!("../docs/dev/architecture.md");
    let (_, rest) = page.split_once("| crate | owns | uses |\n").expect("the map");
    let rows = rest.split("\n\n").next().unwrap_or_default().lines().skip(1);
    let mapped: BTreeMap<String, BTreeSet<String>> = rows
        .map(|row| {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let uses = cells[3].split(", ").filter(|name| *name != "–").map(str::to_owned);
            (cells[1].trim_matches('`').to_owned(), uses.collect())
        })
        .collect();
    assert_eq!(mapped, uses(), "left the map of docs/dev/architecture.md, right the manifests");
}

#[test]
fn nothing_that_serves_depends_on_research_and_tools() {
    const TOOLS: [&str; 5] = ["sim", "journal-replay", "lab", "loadgen", "migration"];
    for (name, uses) in uses().iter().filter(|(name, _)| !TOOLS.contains(&name.as_str())) {
        let tools: Vec<_> = uses.iter().filter(|other| TOOLS.contains(&other.as_str())).collect();
        assert!(tools.is_empty(), "crates/{name} depends on {tools:?}");
    }
}

#[test]
fn anchors_are_those_of_githubs_headings() {
    let page = Page::read("# `GET` /admin/decisions/{id}\n\n## By length\n\n## By length\n\n[a](b.md#c) ![d](e.png)\n");
    let anchors: Vec<_> = page.anchors.iter().map(String::as_str).collect();
    assert_eq!(anchors, ["by-length", "by-length-1", "get-admindecisionsid"]);
    assert_eq!(page.links, ["b.md#c", "e.png"]);
}
