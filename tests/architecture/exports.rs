//! Finds `pub` items and methods that nothing outside their crate uses.
//!
//! `src/cli` counts as a crate. An item counts as used outside where its name occurs as an identifier in another crate,
//! in `main.rs`, `lib.rs`, the tests, the benches, the examples or the fuzz targets, their test code included; so an item
//! that shares its name with another is not found. What stands in the public signature of a used item is used as well: its
//! argument types, its public fields, its variants. Fields, variants and trait methods are not looked at by themselves.

use std::collections::{BTreeMap, BTreeSet};

use quote::ToTokens;
use syn::{
    Fields, Ident, Item, Visibility,
    visit::{self, Visit},
};

use super::{
    ratchet::{self, Count},
    source::{Source, for_tests, identifiers},
};

/// A `pub` item or method outside the tests.
pub(crate) struct Export {
    name: String,
    line: usize,
    /// Identifiers of its public signature.
    signature: BTreeSet<String>,
}

/// The `pub` items of a file; those that `impl` blocks of traits name are listed under no name.
pub(crate) fn exports(file: &syn::File) -> Vec<Export> {
    let mut reader = Exports::default();
    reader.visit_file(file);
    reader.found
}

/// The exports of each room that are not used outside it; `sources` is every file that may use them.
pub(crate) fn counts(production: &[&Source], sources: &[Source]) -> Vec<Count> {
    let mut users: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for source in sources {
        for identifier in &source.identifiers {
            users.entry(identifier).or_default().insert(source.room());
        }
    }
    let mut rooms: BTreeMap<String, Vec<(&Source, &Export)>> = BTreeMap::new();
    for source in production.iter().filter(|source| source.module.len() > 1) {
        rooms.entry(source.room()).or_default().extend(source.exports.iter().map(|export| (*source, export)));
    }
    let mut found = Vec::new();
    for (room, exports) in rooms {
        let used = |name: &str| users.get(name).is_some_and(|rooms| rooms.iter().any(|other| *other != room));
        for (source, export) in unused(&exports, used) {
            let Export { name, line, .. } = export;
            let breach = format!("{}:{line}: `{name}`: make it `pub(crate)` or private, or delete it", source.file);
            found.push((room.clone(), breach));
        }
    }
    ratchet::count("exports", found)
}

/// The exports that are neither used outside nor part of the signature of one that is.
fn unused<'a>(exports: &[(&'a Source, &'a Export)], used: impl Fn(&str) -> bool) -> Vec<(&'a Source, &'a Export)> {
    let (mut named, mut open): (BTreeSet<&str>, Vec<_>) = (BTreeSet::new(), exports.to_vec());
    loop {
        let before = open.len();
        open.retain(|(_, export)| {
            let reached = export.name.is_empty() || used(&export.name) || named.contains(export.name.as_str());
            if reached {
                named.extend(export.signature.iter().map(String::as_str));
            }
            !reached
        });
        if open.len() == before {
            return open;
        }
    }
}

#[derive(Default)]
struct Exports {
    found: Vec<Export>,
}

impl Exports {
    fn add(&mut self, vis: &Visibility, ident: &Ident, signature: &[&dyn ToTokens]) {
        if matches!(vis, Visibility::Public(_)) {
            let line = ident.span().start().line;
            self.found.push(Export { name: ident.to_string(), line, signature: named(signature) });
        }
    }
}

fn named(parts: &[&dyn ToTokens]) -> BTreeSet<String> {
    parts.iter().flat_map(|part| identifiers(part.to_token_stream())).collect()
}

fn public(fields: &Fields) -> Vec<&dyn ToTokens> {
    let fields = fields.iter().filter(|field| matches!(field.vis, Visibility::Public(_)));
    fields.map(|field| &field.ty as &dyn ToTokens).collect()
}

impl<'ast> Visit<'ast> for Exports {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Mod(item) if for_tests(&item.attrs) => return,
            Item::Fn(item) if for_tests(&item.attrs) => return,
            Item::Impl(item) if for_tests(&item.attrs) => return,
            Item::Fn(item) => self.add(&item.vis, &item.sig.ident, &[&item.sig]),
            Item::Const(item) => self.add(&item.vis, &item.ident, &[&item.ty]),
            Item::Static(item) => self.add(&item.vis, &item.ident, &[&item.ty]),
            Item::Type(item) => self.add(&item.vis, &item.ident, &[&item.ty]),
            Item::Trait(item) => self.add(&item.vis, &item.ident, &[item]),
            Item::Enum(item) => self.add(&item.vis, &item.ident, &[&item.generics, &item.variants]),
            Item::Struct(item) => {
                let mut signature = public(&item.fields);
                signature.push(&item.generics);
                self.add(&item.vis, &item.ident, &signature);
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !for_tests(&item.attrs) {
            self.add(&item.vis, &item.sig.ident, &[&item.sig]);
        }
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.add(&item.vis, &item.ident, &[&item.ty]);
    }

    /// `type Error = Problem;`: users of the trait reach `Problem` without its name.
    fn visit_impl_item_type(&mut self, item: &'ast syn::ImplItemType) {
        let line = item.ident.span().start().line;
        self.found.push(Export { name: String::new(), line, signature: named(&[&item.ty]) });
    }
}

#[test]
fn exports_that_nothing_outside_uses_are_found() {
    let found = |files: &[(&str, &str)]| {
        let sources = crate::made_up(files);
        let counts = counts(&sources.iter().collect::<Vec<_>>(), &sources);
        counts.into_iter().flat_map(|count| count.breaches).collect::<Vec<_>>()
    };
    let room = (
        "src/fleet/mod.rs",
        "pub struct Pool { pub size: Size, secret: Secret } pub struct Size; pub struct Secret; pub(crate) struct Own;
         impl Pool { pub fn grow(&self) -> Grown { Grown } pub fn shrink(&self) {} fn own() {} }
         pub struct Grown; impl Iterator for Pool { type Item = Step; } pub struct Step;
         #[cfg(test)] mod tests { pub fn helper() {} }",
    );
    let names = |found: &[String]| found.iter().map(|breach| breach.split('`').nth(1).unwrap().to_owned()).collect();
    let alone: Vec<String> = names(&found(&[room]));
    assert_eq!(alone, ["Pool", "Size", "Secret", "grow", "shrink", "Grown"]);
    let used = [room, ("tests/it/main.rs", "fn f(pool: signalbox::fleet::Pool) { vec![pool.grow()]; }")];
    assert_eq!(names(&found(&used)) as Vec<String>, ["Secret", "shrink"]);
    let inside = [room, ("src/fleet/other.rs", "fn f(pool: super::Pool) { pool.grow() }")];
    assert_eq!(names(&found(&inside)) as Vec<String>, alone, "its own room does not need `pub`");
}
