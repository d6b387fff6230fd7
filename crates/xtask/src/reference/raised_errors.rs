//! A check over the sources that no kind and no code of an error is missing from the table.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use syn::visit::{self, Visit};

use super::errors::{CLIENT, GATEWAY, UPSTREAM};
use crate::workspace::root;

#[test]
fn every_kind_and_code_in_the_sources_is_in_the_table() {
    let mut found = Found::default();
    for folder in ["src", "crates"] {
        read(&root().join(folder), &mut found);
    }
    found.kinds.extend(found.named.iter().map(|name| found.constants[name].clone()));
    let all = || CLIENT.iter().chain(&UPSTREAM).chain(&GATEWAY);
    let kinds: BTreeSet<_> = all().map(|it| it.kind.split(' ').next().unwrap().to_owned()).collect();
    let codes: BTreeSet<_> = all().flat_map(|it| it.codes).map(|code| (*code).to_owned()).collect();
    assert_eq!(found.kinds, kinds, "kinds in the sources, and in the table of crates/xtask/src/reference/errors.rs");
    let missing: Vec<_> = found.codes.symmetric_difference(&codes).collect();
    assert!(
        missing.is_empty(),
        "codes only in the sources or only in the table of crates/xtask/src/reference/errors.rs: {missing:?}"
    );
}

/// Reads every file of the sources but tests.
fn read(folder: &Path, found: &mut Found) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("crates/xtask") {
            read(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("tests.rs") {
            let file = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap();
            found.is_of_faults = path.ends_with("types/src/fault.rs");
            found.visit_file(&file);
        }
    }
}

/// The kinds and codes that the sources raise.
#[derive(Default)]
struct Found {
    kinds: BTreeSet<String>,
    codes: BTreeSet<String>,
    /// Texts of constants, by name, and the names of those that are raised.
    constants: BTreeMap<String, String>,
    named: BTreeSet<String>,
    /// True if the constants of this file are kinds.
    is_of_faults: bool,
    /// Words in the present function that look like kinds, and whether the function raises a fault of a computed kind.
    words: BTreeSet<String>,
    is_computed: bool,
}

impl Found {
    fn function(&mut self, walk: impl FnOnce(&mut Self)) {
        let outer = (std::mem::take(&mut self.words), std::mem::take(&mut self.is_computed));
        walk(self);
        let words = std::mem::replace(&mut self.words, outer.0);
        if std::mem::replace(&mut self.is_computed, outer.1) {
            self.kinds.extend(words);
        }
    }
}

fn text(expression: &syn::Expr) -> Option<String> {
    match expression {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// The name of a constant.
fn constant(expression: &syn::Expr) -> Option<String> {
    let syn::Expr::Path(path) = expression else { return None };
    let name = path.path.segments.last()?.ident.to_string();
    name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_').then_some(name)
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|it| {
        it.path().is_ident("test")
            || it.path().is_ident("cfg") && it.parse_args::<syn::Ident>().is_ok_and(|name| name == "test")
    })
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_mod(&mut self, it: &'ast syn::ItemMod) {
        if !is_test(&it.attrs) {
            visit::visit_item_mod(self, it);
        }
    }

    fn visit_item_const(&mut self, it: &'ast syn::ItemConst) {
        let Some(text) = text(&it.expr) else { return };
        if self.is_of_faults {
            self.kinds.insert(text.clone());
        }
        self.constants.insert(it.ident.to_string(), text);
    }

    fn visit_item_fn(&mut self, it: &'ast syn::ItemFn) {
        self.function(|found| visit::visit_item_fn(found, it));
    }

    fn visit_impl_item_fn(&mut self, it: &'ast syn::ImplItemFn) {
        self.function(|found| visit::visit_impl_item_fn(found, it));
    }

    fn visit_expr_call(&mut self, it: &'ast syn::ExprCall) {
        if let syn::Expr::Path(path) = &*it.func
            && let [.., of, raise] = &path.path.segments.iter().map(|it| it.ident.to_string()).collect::<Vec<_>>()[..]
            && of == "Fault"
        {
            match (raise.as_str(), it.args.get(1)) {
                ("field", _) => drop(self.kinds.insert("invalid_request".to_owned())),
                ("client" | "upstream" | "gateway", Some(kind)) => match text(kind) {
                    Some(kind) => drop(self.kinds.insert(kind)),
                    None => match constant(kind) {
                        Some(name) => drop(self.named.insert(name)),
                        None => self.is_computed = true,
                    },
                },
                _ => {}
            }
        }
        visit::visit_expr_call(self, it);
    }

    fn visit_expr_method_call(&mut self, it: &'ast syn::ExprMethodCall) {
        if it.method == "with_code" {
            self.codes.extend(it.args.first().and_then(text));
        }
        visit::visit_expr_method_call(self, it);
    }

    fn visit_expr_struct(&mut self, it: &'ast syn::ExprStruct) {
        if it.path.is_ident("Fault") {
            let kind =
                it.fields.iter().find(|field| matches!(&field.member, syn::Member::Named(name) if name == "kind"));
            self.kinds.extend(kind.and_then(|field| text(&field.expr)));
        }
        visit::visit_expr_struct(self, it);
    }

    fn visit_lit_str(&mut self, it: &'ast syn::LitStr) {
        let word = it.value();
        if word.contains('_') && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
            self.words.insert(word);
        }
    }
}
