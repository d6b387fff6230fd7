//! Reads one source file into what the rules need to know of it.

use std::collections::{BTreeSet, HashMap};

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute, Item, ItemMod, ItemUse, UseTree, Visibility,
    spanned::Spanned,
    visit::{self, Visit},
};

use super::{
    comments::{Comment, comments},
    exports::{Export, exports},
    functions::{Function, functions},
};

/// The names of the workspace's crates begin with it.
const OURS: &str = "signalbox_";

/// A path as segments; paths into the workspace begin with `crate` and the name of a crate or room.
pub(crate) type Path = Vec<String>;

/// A source file, as the rules see it.
pub(crate) struct Source {
    /// Below the workspace's folder, with `/`: `crates/policy/src/lib.rs`.
    pub(crate) file: String,
    /// Its module: `["crate", "policy"]`, with the crate's name as if it were a module.
    pub(crate) module: Path,
    pub(crate) text: String,
    /// Lines before the first inline test module.
    pub(crate) lines: usize,
    /// The paths it names outside its tests, and the line of each.
    pub(crate) names: Vec<(Path, usize)>,
    /// Names it imports or re-exports, and the paths they stand for.
    pub(crate) aliases: HashMap<String, Path>,
    /// Modules whose names it re-exports all.
    pub(crate) globs: Vec<Path>,
    /// Items it defines itself.
    pub(crate) items: BTreeSet<String>,
    /// Files that are test modules as a whole: `#[cfg(test)] mod tests;`.
    pub(crate) test_modules: Vec<Path>,
    /// All its tokens, tests included, as text.
    pub(crate) tokens: Vec<String>,
    /// All its identifiers, tests included.
    pub(crate) identifiers: BTreeSet<String>,
    /// Its doc comments, tests included.
    pub(crate) comments: Vec<Comment>,
    pub(crate) functions: Vec<Function>,
    pub(crate) exports: Vec<Export>,
}

impl Source {
    /// Reads a file; its place under `src` says which module it is.
    pub(crate) fn read(file: &str, text: &str) -> Result<Self, String> {
        let ast = syn::parse_file(text).map_err(|error| format!("{file}: cannot be parsed: {error}"))?;
        let (member, inside) = member(file);
        let inner = inside.trim_end_matches(".rs").trim_end_matches("/mod");
        let segments = inner.split('/').filter(|segment| !matches!(*segment, "lib" | "main")).map(str::to_owned);
        let top: Path = std::iter::once("crate".to_owned()).chain(member).collect();
        let module: Path = top.iter().cloned().chain(segments).collect();
        let tests_at = ast.items.iter().find_map(|item| match item {
            Item::Mod(inner) if inner.content.is_some() && for_tests(&inner.attrs) => {
                Some(item.span().start().line - 1)
            }
            _ => None,
        });
        let mut reader = Reader { here: module.clone(), root: module.clone(), top: top.len(), ..Reader::default() };
        for aliases in [true, true, false] {
            // Names come into scope wherever in the file they are imported: so imports are read first, twice as they build on each other.
            reader.aliases_only = aliases;
            reader.visit_file(&ast);
        }
        let stream = text.parse::<TokenStream>().unwrap_or_default();
        let mut tokens = Vec::new();
        flatten(stream.clone(), &mut |token, line| tokens.push((token, line)));
        Ok(Self {
            file: file.to_owned(),
            module,
            text: text.to_owned(),
            lines: tests_at.unwrap_or_else(|| text.lines().count()),
            names: reader.names,
            aliases: reader.aliases,
            globs: reader.globs,
            items: reader.items,
            test_modules: reader.test_modules,
            comments: comments(&tokens),
            tokens: tokens.into_iter().map(|(token, _)| token).collect(),
            identifiers: identifiers(stream),
            functions: functions(&ast),
            exports: exports(&ast),
        })
    }

    /// The crate, room or folder that its numbers belong to: `crates/policy`, `src/cli`, `src` for `main.rs` and `lib.rs`, `tests`.
    pub(crate) fn room(&self) -> String {
        let folders: Vec<&str> = self.file.split('/').collect();
        let depth = if matches!(folders[0], "src" | "crates") { 2 } else { 1 };
        folders[..folders.len() - 1].iter().take(depth).copied().collect::<Vec<_>>().join("/")
    }
}

/// The crate of the workspace that a file belongs to, as the name of its room, and the file's place in it.
fn member(file: &str) -> (Option<String>, &str) {
    let inside = file.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/"));
    match inside {
        Some((name, inside)) => (Some(name.replace('-', "_")), inside),
        None => (None, file.strip_prefix("src/").unwrap_or(file)),
    }
}

/// The files that are not part of a test module.
pub(crate) fn production<'a>(sources: &[&'a Source]) -> Vec<&'a Source> {
    let tests: BTreeSet<&Path> = sources.iter().flat_map(|source| &source.test_modules).collect();
    let part_of_tests = |module: &Path| (1..=module.len()).any(|length| tests.contains(&module[..length].to_vec()));
    sources.iter().filter(|source| !part_of_tests(&source.module)).copied().collect()
}

#[derive(Default)]
struct Reader {
    aliases_only: bool,
    /// The file's module, and the module being read, which may be an inline one.
    root: Path,
    here: Path,
    /// Segments of the path of its crate.
    top: usize,
    modules: BTreeSet<Path>,
    names: Vec<(Path, usize)>,
    aliases: HashMap<String, Path>,
    globs: Vec<Path>,
    items: BTreeSet<String>,
    test_modules: Vec<Path>,
}

impl Reader {
    /// A path as written here, made absolute; `None` for plain local names.
    fn absolute(&self, written: &[String]) -> Option<Path> {
        let mut here = self.here.clone();
        let first = written.first()?.as_str();
        let rest = match first {
            "signalbox" => {
                here.truncate(1);
                &written[1..]
            }
            "crate" => {
                here.truncate(self.top);
                &written[1..]
            }
            other if other.starts_with(OURS) => {
                here.truncate(1);
                here.push(other[OURS.len()..].to_owned());
                &written[1..]
            }
            "self" => &written[1..],
            "super" => {
                let ups = written.iter().take_while(|segment| *segment == "super").count();
                here.truncate(here.len().saturating_sub(ups).max(self.top));
                &written[ups..]
            }
            _ => {
                here.push(first.to_owned());
                if !self.modules.contains(&here) {
                    return self.aliases.get(first).map(|target| [target, &written[1..]].concat());
                }
                &written[1..]
            }
        };
        here.extend_from_slice(rest);
        Some(here)
    }

    fn name(&mut self, written: &[String], line: usize) {
        if !self.aliases_only {
            match self.absolute(written) {
                Some(path) => self.names.push((path, line)),
                None if written.len() > 1 => self.names.push((written.to_vec(), line)),
                None => {}
            }
        }
    }

    fn import(&mut self, prefix: &[String], tree: &UseTree, facade: bool) {
        let (ident, alias) = match tree {
            UseTree::Path(path) => {
                return self.import(&[prefix, &[path.ident.to_string()]].concat(), &path.tree, facade);
            }
            UseTree::Group(group) => return group.items.iter().for_each(|tree| self.import(prefix, tree, facade)),
            UseTree::Glob(_) => ("*".to_owned(), None),
            UseTree::Name(name) => (name.ident.to_string(), Some(name.ident.to_string())),
            UseTree::Rename(rename) => (rename.ident.to_string(), Some(rename.rename.to_string())),
        };
        let (written, alias) = match ident.as_str() {
            "*" => (prefix.to_vec(), None),
            "self" => (prefix.to_vec(), prefix.last().cloned()),
            _ => ([prefix, &[ident]].concat(), alias),
        };
        let target = self.absolute(&written).unwrap_or_else(|| written.clone());
        // A folder re-exports what its own files define: that is no dependency on them.
        let shows_own = facade && target.len() > self.root.len() && target.starts_with(&self.root);
        if self.aliases_only {
            match alias {
                Some(alias) => drop(self.aliases.insert(alias, target)),
                None => self.globs.push(target),
            }
        } else if !shows_own {
            self.names.push((target, tree.span().start().line));
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attrs, ident) = match item {
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Impl(item) => (&item.attrs, None),
            Item::Use(item) => (&item.attrs, None),
            _ => return visit::visit_item(self, item),
        };
        if !for_tests(attrs) {
            self.items.extend(ident.map(ToString::to_string));
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.here.push(item.ident.to_string());
        if !for_tests(&item.attrs) {
            self.modules.insert(self.here.clone());
            visit::visit_item_mod(self, item);
        } else if item.content.is_none() && self.aliases_only {
            self.test_modules.push(self.here.clone());
        }
        self.here.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.import(&[], &item.tree, !matches!(item.vis, Visibility::Inherited));
    }

    /// `pub(in crate::room)` limits who sees an item; it imports nothing.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let written: Path = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        // A single name was already counted where it was imported.
        if written.len() > 1 {
            self.name(&written, path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.visit_path(&item.path);
        let (mut run, mut line, mut colons) = (Path::new(), 0, 0);
        let mut found = Vec::new();
        flatten(item.tokens.clone(), &mut |token, at| {
            let word = token.starts_with(|first: char| first.is_alphabetic() || first == '_');
            if token == ":" {
                colons += 1;
            } else {
                if !(word && colons == 2) {
                    found.push((std::mem::take(&mut run), line));
                    line = at;
                }
                if word {
                    run.push(token);
                }
                colons = 0;
            }
        });
        found.push((run, line));
        for (written, line) in found.into_iter().filter(|(written, _)| written.len() > 1) {
            self.name(&written, line);
        }
    }
}

pub(crate) fn for_tests(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| {
        attr.path().is_ident("test")
            || attr.path().is_ident("cfg") && attr.parse_args::<syn::Ident>().is_ok_and(|ident| ident == "test")
    })
}

/// Every identifier, keywords included.
pub(crate) fn identifiers(tokens: TokenStream) -> BTreeSet<String> {
    let (mut found, mut open) = (BTreeSet::new(), vec![tokens]);
    while let Some(tokens) = open.pop() {
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => drop(found.insert(ident.to_string())),
                TokenTree::Group(group) => open.push(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
    found
}

/// Every token with its line, brackets included.
fn flatten(tokens: TokenStream, each: &mut impl FnMut(String, usize)) {
    for token in tokens {
        let line = token.span().start().line;
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    proc_macro2::Delimiter::Parenthesis => ("(", ")"),
                    proc_macro2::Delimiter::Brace => ("{", "}"),
                    proc_macro2::Delimiter::Bracket => ("[", "]"),
                    proc_macro2::Delimiter::None => ("", ""),
                };
                each(open.to_owned(), line);
                flatten(group.stream(), each);
                each(close.to_owned(), line);
            }
            other => each(other.to_string(), line),
        }
    }
}
