//! Checks a parsed condition in one walk over CEL's tree: types every part, reports mistakes, and builds the tree that
//! is evaluated.

use std::{collections::BTreeSet, ops::Range};

use cel::{
    IdedExpr,
    common::ast::{Expr, ListExpr, LiteralValue, SourceInfo},
};

use super::{
    facts::Names,
    lexer::Token,
    mistake::Mistake,
    node::{Node, Scope},
    syntax::Partners,
    value::Memory,
    variables::{Item, Kind, Variable},
};

/// A checked part of a condition.
pub(super) struct Typed {
    pub(super) kind: Kind,
    pub(super) node: Node,
    /// Its range in the text.
    pub(super) span: Range<usize>,
    /// True if the part does not depend on facts.
    pub(super) constant: bool,
}

/// The state of the walk.
pub(super) struct Checker<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: &'a [Token],
    pub(super) partners: Partners,
    pub(super) places: &'a SourceInfo,
    pub(super) names: &'a Names,
    pub(super) mistakes: Vec<Mistake>,
    pub(super) variables: BTreeSet<Variable>,
    /// The variable of the enclosing loop.
    pub(super) local: Option<(String, Kind)>,
}

impl Checker<'_> {
    /// The whole condition; `None` after reporting a mistake.
    pub(super) fn whole(&mut self, expr: &IdedExpr) -> Option<Node> {
        let typed = self.check(expr)?;
        if typed.kind != Kind::Bool {
            return self.not_a_condition(typed.kind, typed.span);
        }
        let range = 0..self.text.len();
        match typed.node {
            Node::Bool(true) => self.report(
                Mistake::new(range, "always holds").help("leave `when` out: a route without it always matches"),
            ),
            Node::Bool(false) => {
                self.report(Mistake::new(range, "never holds").help("remove the route, or change what it asks for"))
            }
            node => Some(node),
        }
    }

    /// Checks a part; `None` after reporting a mistake in it.
    pub(super) fn check(&mut self, expr: &IdedExpr) -> Option<Typed> {
        let typed = match &expr.expr {
            Expr::Literal(value) => self.literal(expr, value),
            Expr::Ident(_) | Expr::Select(_) => self.path(expr),
            Expr::Call(call) => self.call(expr, call),
            Expr::List(list) => self.list(expr, list),
            _ => {
                let range = self.range(self.place(expr));
                self.report(Mistake::new(range, "not used in conditions").help("compare variables with values"))
            }
        }?;
        self.settle(typed)
    }

    /// Evaluates plain constants now.
    fn settle(&mut self, mut typed: Typed) -> Option<Typed> {
        let plain = matches!(typed.kind, Kind::Bool | Kind::Int | Kind::Double);
        if plain && typed.constant && !typed.node.is_constant() {
            let memory = Memory::default();
            let value = typed.node.eval(&Scope::new(None, &memory)).ok().map(Node::from);
            let Some(value) = value.filter(is_finite) else {
                return self.report(
                    Mistake::new(typed.span, "has no value: a division by zero, or a number beyond all bounds")
                        .help("a condition with such a part would never hold"),
                );
            };
            typed.node = value;
        }
        Some(typed)
    }

    fn literal(&mut self, expr: &IdedExpr, value: &LiteralValue) -> Option<Typed> {
        let place = self.place(expr);
        let mut span = self.range(place);
        let (kind, node) = match value {
            LiteralValue::Boolean(value) => (Kind::Bool, Node::Bool(*value.inner())),
            LiteralValue::Int(value) => (Kind::Int, Node::Int(*value.inner())),
            LiteralValue::Double(value) => (Kind::Double, Node::Double(*value.inner())),
            LiteralValue::String(text) => (Kind::Text, Node::Text(text.inner().into())),
            LiteralValue::Null => {
                return self.report(
                    Mistake::new(span, "`null` is never the value of a variable")
                        .help("a missing value is \"\", 0 or false; `\"name\" in headers` asks whether a header was"),
                );
            }
            LiteralValue::Bytes(_) | LiteralValue::UInt(_) => {
                return self.report(
                    Mistake::new(span, "a kind of value that no variable has").help("write a number or a text"),
                );
            }
        };
        if matches!(node, Node::Int(..0)) || matches!(node, Node::Double(value) if value.is_sign_negative()) {
            span.start = self.range(place.saturating_sub(1)).start;
        }
        Some(Typed { kind, node, span, constant: true })
    }

    fn list(&mut self, expr: &IdedExpr, list: &ListExpr) -> Option<Typed> {
        let (item, elements, span) = self.elements(expr, list)?;
        let constant = elements.iter().all(|element| element.constant);
        let node = Node::List(elements.into_iter().map(|element| element.node).collect());
        Some(Typed { kind: Kind::List(item), node, span, constant })
    }

    /// The elements of a list literal.
    pub(super) fn elements(&mut self, expr: &IdedExpr, list: &ListExpr) -> Option<(Item, Vec<Typed>, Range<usize>)> {
        let place = self.place(expr);
        let span = self.range(place).start..self.range(self.partners[place]).end;
        let elements: Vec<_> = list.elements.iter().map(|element| self.check(element)).collect();
        let elements: Vec<Typed> = elements.into_iter().collect::<Option<_>>()?;
        let Some(first) = elements.first() else {
            return self
                .report(Mistake::new(span, "a list with nothing in it").help("write its values: `[\"a\", \"b\"]`"));
        };
        let Some(item) = first.kind.item() else {
            let range = first.span.clone();
            return self.report(
                Mistake::new(range, format!("{} in a list", first.kind.words())).help("list numbers or texts"),
            );
        };
        if let Some(other) = elements.iter().find(|element| element.kind.item() != Some(item)) {
            let message = format!("{} in a list that begins with {}", other.kind.words(), first.kind.words());
            let range = other.span.clone();
            return self.report(Mistake::new(range, message).help("all values of a list are of one kind"));
        }
        Some((item, elements, span))
    }

    // Positions.

    /// The token that the parser records for a part: its operator, its bracket, or itself.
    pub(super) fn place(&self, expr: &IdedExpr) -> usize {
        let start = self.places.offset_for(expr.id).map_or(0, |(start, _)| start as usize);
        self.tokens.partition_point(|token| token.range.end <= start).min(self.tokens.len() - 1)
    }

    /// The range of the token at index `place`.
    pub(super) fn range(&self, place: usize) -> Range<usize> {
        self.tokens[place.min(self.tokens.len() - 1)].range.clone()
    }

    /// The text of a range for a message, shortened if it is long.
    pub(super) fn shown(&self, span: &Range<usize>) -> String {
        let text = &self.text[span.clone()];
        match text.char_indices().nth(40) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        }
    }

    // Mistakes.

    pub(super) fn report<T>(&mut self, mistake: Mistake) -> Option<T> {
        self.mistakes.push(mistake);
        None
    }

    /// Reports a part that is not a boolean where one is required.
    pub(super) fn not_a_condition<T>(&mut self, kind: Kind, span: Range<usize>) -> Option<T> {
        let shown = self.shown(&span);
        let help = match kind {
            Kind::Int | Kind::Double | Kind::Seconds => format!("compare it, as in `{shown} > 0`"),
            Kind::Text => format!("compare it, as in `{shown} == \"…\"`"),
            Kind::List(_) => format!("ask for one of its values, as in `\"…\" in {shown}`"),
            Kind::Bool | Kind::Duration => "compare a measured time with it".to_owned(),
        };
        self.report(
            Mistake::new(span, format!("`{shown}` is {}, not something that holds or does not", kind.words()))
                .help(help),
        )
    }

    /// A part that reads facts of the request.
    pub(super) fn leaf(&mut self, variable: Variable, kind: Kind, node: Node, span: Range<usize>) -> Typed {
        self.variables.insert(variable);
        Typed { kind, node, span, constant: false }
    }
}

fn is_finite(node: &Node) -> bool {
    !matches!(node, Node::Double(value) if !value.is_finite())
}
