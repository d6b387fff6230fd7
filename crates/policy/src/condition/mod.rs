//! Conditions of routes: CEL text, checked against a closed set of variables and evaluated for each request. Pure.
//!
//! CEL's own parser reads the text after a pass over its tokens that reports misplaced ones in clearer words. A walk
//! over the parser's tree checks names, types and values against the table in `variables`, and builds the tree that is
//! evaluated (`node`). Its semantics are those of CEL; a property test compares it with CEL's interpreter.
//!
//! A condition that fails to evaluate for a request (a division by zero, an overflow, an index beyond the end of a
//! list) is false, unless `&&` or `||` is decided without the failing part.

mod check;
mod facts;
mod functions;
mod hours;
mod lexer;
mod mistake;
mod node;
mod operators;
mod paths;
mod rules;
mod syntax;
mod value;
mod variables;

#[cfg(test)]
mod fixed;

use std::{fmt, sync::Arc};

use cel::{Env, common::ast::SourceInfo};

use self::{
    check::Checker,
    lexer::Token,
    node::{Node, Scope},
    value::Memory,
};
pub use self::{
    facts::{Facts, Names},
    mistake::Mistake,
    variables::{Entry, FUNCTIONS, Item, Kind, VARIABLES, Variable},
};

/// The longest condition, in bytes.
const LENGTH: usize = 4096;

/// A compiled condition.
#[derive(Clone)]
pub struct Condition {
    text: Arc<str>,
    root: Arc<Node>,
    variables: Arc<[Variable]>,
}

impl Condition {
    /// Compiles `text`.
    ///
    /// # Errors
    /// At least one mistake.
    pub fn compile(text: &str, names: &Names) -> Result<Self, Vec<Mistake>> {
        if text.len() > LENGTH {
            let range = 0..text.len();
            return Err(vec![
                Mistake::new(range, format!("longer than {LENGTH} bytes")).help("make several routes of it"),
            ]);
        }
        let tokens = lexer::tokens(text).map_err(|mistake| vec![mistake])?;
        let partners = syntax::check(text, &tokens).map_err(|mistake| vec![mistake])?;
        let (expr, places) = parse(text, &tokens).map_err(|mistake| vec![mistake])?;
        let mut checker = Checker {
            text,
            tokens: &tokens,
            partners,
            places: &places,
            names,
            mistakes: Vec::new(),
            variables: std::collections::BTreeSet::new(),
            local: None,
        };
        match checker.whole(&expr) {
            Some(root) => {
                Ok(Self { text: text.into(), root: Arc::new(root), variables: checker.variables.into_iter().collect() })
            }
            None => Err(checker.mistakes),
        }
    }

    /// True if the condition is true; false if it fails to evaluate.
    pub fn holds(&self, facts: &dyn Facts) -> bool {
        let memory = Memory::default();
        self.root.holds(&Scope::new(Some(facts), &memory)).unwrap_or(false)
    }

    /// The variables that it refers to, without duplicates.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// The original text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Condition {}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Condition").field(&self.text).finish()
    }
}

/// Parses `text` with CEL's parser; returns the tree and the positions of its parts.
fn parse(text: &str, tokens: &[Token]) -> Result<(cel::IdedExpr, SourceInfo), Mistake> {
    // `in` is a keyword of CEL, so `time.in(…)` is given another name of the same length for the parser.
    let mut source = text.to_owned();
    for three in tokens.windows(3) {
        let at = three[1].range.clone();
        if &text[three[0].range.clone()] == "." && &text[at.clone()] == "in" && &text[three[2].range.clone()] == "(" {
            source.replace_range(at, lexer::RESERVED);
        }
    }
    // Without macros: loops are checked as written, not in their expanded form.
    Env::default().with_optional_support(false).parser().parse_with_source_info(&source).map_err(|errors| {
        let place = errors.errors.first().map_or(0, |error| offset(text, error.pos));
        let token = tokens.iter().find(|token| token.range.end > place).or(tokens.last());
        let range = token.map_or(0..text.len(), |token| token.range.clone());
        let word = &text[range.clone()];
        Mistake::new(range, format!("`{word}` does not belong here"))
            .help("a condition compares variables with values: `prompt.tokens > 8000 && !request.stream`")
    })
}

/// The byte offset of a line and a column in characters, both counted from 1.
fn offset(text: &str, (line, column): (isize, isize)) -> usize {
    let (line, column) = (usize::try_from(line).unwrap_or(1), usize::try_from(column).unwrap_or(1));
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let rest = &text[start..];
    start + rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |(at, _)| at)
}

/// Fuzz target: reads arbitrary bytes as a condition, which may be rejected.
///
/// # Panics
/// If it is rejected without a mistake, or with one outside of the text.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_condition(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let names =
        Names { pools: vec!["small".into(), "with-dash".into()], routes: vec!["home".into()], keys: Vec::new() };
    if let Err(mistakes) = Condition::compile(&text, &names) {
        assert!(!mistakes.is_empty(), "refused without a word");
        for mistake in mistakes {
            assert!(text.get(mistake.range.clone()).is_some(), "{mistake:?} lies outside of the text");
        }
    }
}

#[cfg(test)]
mod tests;
