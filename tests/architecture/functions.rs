//! Finds functions that are too long or nested too deeply.
//!
//! The length of a function is its lines from `fn` to the closing brace, with blank lines and comments. Its nesting is the
//! greatest number of control-flow blocks that enclose a place of its body: `if` (a chain of `else if` is one), `match`, the
//! block of a `match` arm, `for`, `while`, `loop`, `async` blocks, and closures whose body is a block. Struct literals and plain
//! blocks add nothing. `select!` counts like `match`. Functions inside functions count by themselves. Tests are exempt.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{
    Attribute, Block, Expr, Signature,
    spanned::Spanned,
    visit::{self, Visit},
};

use super::{
    ratchet::Count,
    source::{Source, for_tests},
};

/// The longest a function may be.
const LINES: usize = 80;

/// The deepest its blocks may be nested.
const DEPTH: usize = 4;

/// A function outside the tests.
pub(crate) struct Function {
    /// `Type::name` for methods.
    name: String,
    line: usize,
    lines: usize,
    depth: usize,
}

/// The functions of a file, those of its test modules left out.
pub(crate) fn functions(file: &syn::File) -> Vec<Function> {
    let mut reader = Functions::default();
    reader.visit_file(file);
    reader.found
}

/// The functions beyond the limits, each with its length or its depth.
pub(crate) fn counts(sources: &[&Source]) -> Vec<Count> {
    let mut counts = Vec::new();
    for source in sources {
        for Function { name, line, lines, depth } in &source.functions {
            let place = format!("{}::{name}", source.room());
            let at = format!("{}:{line}", source.file);
            if *lines > LINES {
                let breaches = vec![format!("{at}: {lines} lines, {LINES} are allowed: give its parts names")];
                counts.push(Count { rule: "length", place: place.clone(), number: *lines, breaches });
            }
            if *depth > DEPTH {
                let breaches =
                    vec![format!("{at}: blocks nested {depth} deep, {DEPTH} are allowed: return early, or split it")];
                counts.push(Count { rule: "nesting", place, number: *depth, breaches });
            }
        }
    }
    counts
}

#[derive(Default)]
struct Functions {
    /// The type whose methods are read.
    owner: Option<String>,
    found: Vec<Function>,
}

impl Functions {
    fn add(&mut self, signature: &Signature, block: &Block) {
        let (line, end) = (signature.fn_token.span().start().line, block.span().end().line);
        let mut nesting = Nesting::default();
        nesting.visit_block(block);
        let name = signature.ident.to_string();
        let name = self.owner.as_ref().map_or(name.clone(), |owner| format!("{owner}::{name}"));
        self.found.push(Function { name, line, lines: end + 1 - line, depth: nesting.deepest });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !for_tests(&item.attrs) {
            let owner = self.owner.take();
            self.add(&item.sig, &item.block);
            visit::visit_item_fn(self, item);
            self.owner = owner;
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if for_tests(&item.attrs) {
            return;
        }
        let name = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        let outer = std::mem::replace(&mut self.owner, name);
        visit::visit_item_impl(self, item);
        self.owner = outer;
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let outer = self.owner.replace(item.ident.to_string());
        visit::visit_item_trait(self, item);
        self.owner = outer;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !for_tests(&item.attrs) {
            self.add(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
            visit::visit_block(self, block);
        }
    }
}

#[derive(Default)]
struct Nesting {
    depth: usize,
    deepest: usize,
}

impl Nesting {
    fn inside(&mut self, read: impl FnOnce(&mut Self)) {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        read(self);
        self.depth -= 1;
    }

    /// Reads the text of `select!`: a brace behind a keyword or an arrow is a block.
    fn text(&mut self, tokens: TokenStream) {
        let (mut opens, mut before) = (false, ' ');
        for token in tokens {
            match token {
                TokenTree::Ident(word) => {
                    opens |= ["if", "else", "match", "for", "while", "loop", "async"].iter().any(|key| word == key);
                }
                TokenTree::Punct(mark) => {
                    opens |= before == '=' && mark.as_char() == '>';
                    before = mark.as_char();
                    continue;
                }
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && opens => {
                    opens = false;
                    self.inside(|nesting| nesting.text(group.stream()));
                }
                TokenTree::Group(group) => self.text(group.stream()),
                TokenTree::Literal(_) => {}
            }
            before = ' ';
        }
    }
}

impl<'ast> Visit<'ast> for Nesting {
    /// A function inside a function counts by itself.
    fn visit_item(&mut self, _: &'ast syn::Item) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::If(chain) => {
                self.visit_expr(&chain.cond);
                self.inside(|nesting| nesting.visit_block(&chain.then_branch));
                match chain.else_branch.as_ref().map(|(_, other)| &**other) {
                    Some(other @ Expr::If(_)) => self.visit_expr(other),
                    Some(other) => self.inside(|nesting| nesting.visit_expr(other)),
                    None => {}
                }
            }
            Expr::Match(item) => {
                self.visit_expr(&item.expr);
                self.inside(|nesting| item.arms.iter().for_each(|arm| nesting.visit_arm(arm)));
            }
            Expr::Closure(item) if !matches!(&*item.body, Expr::Block(_)) => visit::visit_expr(self, expr),
            Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_) | Expr::Async(_) | Expr::Closure(_) => {
                self.inside(|nesting| visit::visit_expr(nesting, expr));
            }
            _ => visit::visit_expr(self, expr),
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Expr::Block(body) = &*arm.body {
            arm.guard.iter().for_each(|(_, guard)| self.visit_expr(guard));
            self.inside(|nesting| nesting.visit_block(&body.block));
        } else {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        if item.path.segments.last().is_some_and(|segment| segment.ident == "select") {
            self.inside(|nesting| nesting.text(item.tokens.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up;

    fn found(text: &str) -> Vec<(&'static str, String, usize)> {
        let sources = made_up(&[("src/fleet/mod.rs", text)]);
        let counts = counts(&sources.iter().collect::<Vec<_>>());
        counts.into_iter().map(|count| (count.rule, count.place, count.number)).collect()
    }

    #[test]
    fn long_functions_are_found() {
        let body = "\n    g();".repeat(79);
        assert_eq!(
            found(&format!("impl Pool {{ fn f() {{{body}\n}} }}")),
            [("length", "src/fleet::Pool::f".to_owned(), 81)]
        );
        assert_eq!(found(&format!("/// One more line.\n#[inline]\nfn f() {{{}\n}}", &body[9..])), []);
        assert_eq!(found(&format!("#[cfg(test)] mod tests {{ fn f() {{{body}\n}} }}")), []);
    }

    #[test]
    fn nested_functions_are_found() {
        let depth = |body: &str| functions(&syn::parse_file(&format!("async fn f() {{ {body} }}")).unwrap())[0].depth;
        assert_eq!(depth("let a = B { c: D { e: { 1 } } }; g(|x| x + 1);"), 0);
        assert_eq!(depth("if a { } else if b { } else if c { d }"), 1);
        assert_eq!(depth("match a { B => { if c {} } D => 1 }"), 3);
        assert_eq!(depth("match a { B => c, D if e => f(|| g) }"), 1);
        assert_eq!(depth("for a in b { while c { loop { g(|| { async { 1 } }) } } }"), 5);
        assert_eq!(depth("fn g() { if a {} } let Some(x) = y else { return };"), 0);
        assert_eq!(depth("tokio::select! { a = b => { if c { S { d } } } }"), 3);
        assert_eq!(
            found("fn g() { if a { if b { if c { if d { if e { 1 } } } } } }"),
            [("nesting", "src/fleet::g".to_owned(), 5)]
        );
    }
}
