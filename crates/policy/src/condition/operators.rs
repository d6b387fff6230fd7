//! Checks operators and builds their nodes.

use cel::{
    IdedExpr,
    common::ast::{CallExpr, Expr, operators as signs},
};

use super::{
    check::{Checker, Typed},
    mistake::Mistake,
    node::Node,
    value::{Arithmetic, Comparison},
    variables::{Item, Kind, Variable},
};

impl Checker<'_> {
    pub(super) fn call(&mut self, expr: &IdedExpr, call: &CallExpr) -> Option<Typed> {
        match (&*call.func_name, &*call.args) {
            (signs::CONDITIONAL, [condition, yes, no]) => self.choice(condition, yes, no),
            (signs::LOGICAL_AND, [left, right]) => self.logical(true, left, right),
            (signs::LOGICAL_OR, [left, right]) => self.logical(false, left, right),
            (signs::LOGICAL_NOT, [value]) => self.not(expr, value),
            (signs::NEGATE, [value]) => self.negate(expr, value),
            (signs::IN, [value, list]) => self.is_in(value, list),
            (signs::INDEX, [list, index]) => self.index(expr, list, index),
            (name, [left, right]) if call.target.is_none() => match (comparison(name), arithmetic(name)) {
                (Some((comparison, sign)), _) => self.compare(expr, comparison, sign, left, right),
                (_, Some((arithmetic, sign))) => self.arithmetic(expr, arithmetic, sign, left, right),
                _ => self.function(expr, call),
            },
            _ => self.function(expr, call),
        }
    }

    /// A part that must be a boolean and not constant.
    pub(super) fn condition(&mut self, expr: &IdedExpr) -> Option<Typed> {
        let typed = self.check(expr)?;
        if typed.kind != Kind::Bool {
            return self.not_a_condition(typed.kind, typed.span);
        }
        if let Node::Bool(value) = typed.node {
            let always = if value { "always holds" } else { "never holds" };
            let shown = self.shown(&typed.span);
            return self.report(
                Mistake::new(typed.span, format!("`{shown}` {always}"))
                    .help("leave this part out, or compare a variable"),
            );
        }
        Some(typed)
    }

    fn logical(&mut self, and: bool, left: &IdedExpr, right: &IdedExpr) -> Option<Typed> {
        let (left, right) = (self.condition(left), self.condition(right));
        let (left, right) = (left?, right?);
        let build = |parts| if and { Node::And(parts) } else { Node::Or(parts) };
        Some(pair(Kind::Bool, left, right, build))
    }

    fn not(&mut self, expr: &IdedExpr, value: &IdedExpr) -> Option<Typed> {
        let start = self.range(self.place(expr)).start;
        let typed = self.condition(value)?;
        Some(Typed {
            kind: Kind::Bool,
            node: Node::Not(Box::new(typed.node)),
            span: start..typed.span.end,
            constant: typed.constant,
        })
    }

    fn negate(&mut self, expr: &IdedExpr, value: &IdedExpr) -> Option<Typed> {
        let start = self.range(self.place(expr)).start;
        let typed = self.check(value)?;
        if !typed.kind.is_number() {
            let shown = self.shown(&typed.span);
            let message = format!("`{shown}` is {}: only numbers have a negative", typed.kind.words());
            return self.report(Mistake::new(typed.span, message).help("to say the contrary, write `!`"));
        }
        Some(Typed {
            kind: if typed.kind == Kind::Int { Kind::Int } else { Kind::Double },
            node: Node::Negate(Box::new(typed.node)),
            span: start..typed.span.end,
            constant: typed.constant,
        })
    }

    fn choice(&mut self, condition: &IdedExpr, yes: &IdedExpr, no: &IdedExpr) -> Option<Typed> {
        let (condition, yes, no) = (self.condition(condition), self.check(yes), self.check(no));
        let (condition, yes, no) = (condition?, yes?, no?);
        let kind = |kind: Kind| if kind == Kind::Seconds { Kind::Double } else { kind };
        if kind(yes.kind) != kind(no.kind) {
            let message = format!("one way is {}, the other {}", yes.kind.words(), no.kind.words());
            return self.report(
                Mistake::new(yes.span.start..no.span.end, message).help("both ways of a choice are of one kind"),
            );
        }
        Some(Typed {
            kind: kind(yes.kind),
            span: condition.span.start..no.span.end,
            constant: condition.constant && yes.constant && no.constant,
            node: Node::Choice(Box::new([condition.node, yes.node, no.node])),
        })
    }

    fn compare(
        &mut self,
        expr: &IdedExpr,
        comparison: Comparison,
        sign: &str,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Option<Typed> {
        let (left, right) = (self.check(left), self.check(right));
        let (left, right) = (left?, right?);
        let equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        let fits = match (left.kind, right.kind) {
            (Kind::Bool, Kind::Bool) | (Kind::List(_), Kind::List(_)) => equality && left.kind == right.kind,
            (Kind::Text, Kind::Text) | (Kind::Duration | Kind::Seconds, Kind::Duration | Kind::Seconds) => true,
            (one, other) => one.is_number() && other.is_number(),
        };
        if !fits {
            return self.not_comparable(expr, sign, &left, &right);
        }
        let (left_node, right_node) = (left.node.clone(), right.node.clone());
        self.compared(comparison, (&left_node, &left.span), (&right_node, &right.span))?;
        Some(pair(Kind::Bool, left, right, |sides| compare(comparison, sides)))
    }

    fn not_comparable<T>(&mut self, expr: &IdedExpr, sign: &str, left: &Typed, right: &Typed) -> Option<T> {
        let one = |typed: &Typed, shown| format!("`{shown}` is {}", typed.kind.words());
        let (left_shown, right_shown) = (self.shown(&left.span), self.shown(&right.span));
        if left.kind == right.kind {
            let range = self.range(self.place(expr));
            let message = format!("`{sign}` between {} and {}", left.kind.words(), right.kind.words());
            return self
                .report(Mistake::new(range, message).help("only numbers and texts have an order: write `==` or `!=`"));
        }
        // The constant is more likely the wrong part.
        let (span, of, value) =
            if left.constant && !right.constant { (&left.span, right, left) } else { (&right.span, left, right) };
        let number = match &value.node {
            Node::Text(text) => text.trim().parse::<f64>().ok().map(|_| text.trim().to_owned()),
            _ => None,
        };
        let help = match (of.kind, value.kind, number) {
            (Kind::Int | Kind::Double | Kind::Seconds, Kind::Text, Some(number)) => {
                format!("write {number} without quotes")
            }
            (Kind::Seconds, ..) => "write seconds, such as 0.8, or `duration(\"800ms\")`".to_owned(),
            (Kind::Int | Kind::Double, Kind::Duration, _) => "durations compare with `ttft_p95` only".to_owned(),
            (Kind::Int | Kind::Double, ..) => "compare it with a number".to_owned(),
            (Kind::Text, ..) => "compare it with a text in quotes".to_owned(),
            (Kind::Bool, ..) => "it is true or false: write it alone, or with `!` before it".to_owned(),
            (Kind::List(_), ..) => "ask for one of its values: `\"…\" in key.tags`".to_owned(),
            (Kind::Duration, ..) => "compare a measured time with it".to_owned(),
        };
        let message = format!("{}, {}: they cannot be compared", one(left, left_shown), one(right, right_shown));
        self.report(Mistake::new(span.clone(), message).help(help))
    }

    fn arithmetic(
        &mut self,
        expr: &IdedExpr,
        arithmetic: Arithmetic,
        sign: &str,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Option<Typed> {
        let place = self.place(expr);
        let left = self.check(left);
        if left.is_none() && sign == "-" && self.range(place).end == self.range(place + 1).start {
            // The mistake before the dash was reported; it is probably one name with the part after it.
            return None;
        }
        let right = self.check(right);
        let (left, right) = (left?, right?);
        let whole = |typed: &Typed| typed.kind == Kind::Int;
        let point = |typed: &Typed| matches!(typed.kind, Kind::Double | Kind::Seconds);
        match (left.kind, right.kind) {
            (Kind::Int, Kind::Int) => Some(pair(Kind::Int, left, right, |sides| Node::Arithmetic(arithmetic, sides))),
            _ if point(&left) && point(&right) && arithmetic != Arithmetic::Remainder => {
                Some(pair(Kind::Double, left, right, |sides| Node::Arithmetic(arithmetic, sides)))
            }
            (Kind::Text, Kind::Text) | (Kind::List(_), Kind::List(_))
                if arithmetic == Arithmetic::Add && left.kind == right.kind =>
            {
                let kind = left.kind;
                Some(pair(kind, left, right, |sides| Node::Arithmetic(arithmetic, sides)))
            }
            _ => {
                let message = format!("`{sign}` between {} and {}", left.kind.words(), right.kind.words());
                let (number, other) = if whole(&left) { (&left, &right) } else { (&right, &left) };
                let help = match &number.node {
                    Node::Int(value) if point(other) => format!("write {value}.0"),
                    _ if whole(number) && point(other) && arithmetic != Arithmetic::Remainder => {
                        format!("write `double({})`", self.shown(&number.span))
                    }
                    _ if arithmetic == Arithmetic::Subtract && left.kind == Kind::Text => {
                        "a name with dashes stands in brackets: `headers[\"x-tier\"]`".to_owned()
                    }
                    _ if arithmetic == Arithmetic::Remainder => "`%` takes two whole numbers".to_owned(),
                    _ => format!("`{sign}` takes two whole numbers, or two numbers with a point"),
                };
                let range = self.range(self.place(expr));
                self.report(Mistake::new(range, message).help(help))
            }
        }
    }

    fn is_in(&mut self, value: &IdedExpr, list: &IdedExpr) -> Option<Typed> {
        if matches!(&list.expr, Expr::Ident(name) if name == "headers") {
            return self.sent(value, list);
        }
        let typed = self.check(value);
        if let Expr::List(elements) = &list.expr {
            let elements = self.elements(list, elements);
            let (typed, (item, elements, span)) = (typed?, elements?);
            self.same_kind(&typed, item)?;
            let node = typed.node.clone();
            for element in &elements {
                let element_node = element.node.clone();
                self.compared(Comparison::Equal, (&node, &typed.span), (&element_node, &element.span))?;
            }
            let constant = typed.constant && elements.iter().all(|element| element.constant);
            let nodes = elements.into_iter().map(|element| element.node).collect();
            return Some(Typed {
                kind: Kind::Bool,
                node: Node::OneOf(Box::new(node), nodes),
                span: typed.span.start..span.end,
                constant,
            });
        }
        let list = self.check(list);
        let (typed, list) = (typed?, list?);
        let Kind::List(item) = list.kind else {
            let shown = self.shown(&list.span);
            let help = match (typed.kind, list.kind) {
                (Kind::Text, Kind::Text) => format!("write `{shown}.contains({})`", self.shown(&typed.span)),
                _ => "after `in` stands a list: `[\"a\", \"b\"]`, `key.tags` or `headers`".to_owned(),
            };
            return self
                .report(Mistake::new(list.span, format!("`{shown}` is {}, not a list", list.kind.words())).help(help));
        };
        self.same_kind(&typed, item)?;
        let node = match list.node {
            Node::Fact(Variable::KeyTags) => Node::Tagged(Box::new(typed.node)),
            list => Node::In(Box::new([typed.node, list])),
        };
        Some(Typed {
            kind: Kind::Bool,
            node,
            span: typed.span.start..list.span.end,
            constant: typed.constant && list.constant,
        })
    }

    fn same_kind(&mut self, value: &Typed, item: Item) -> Option<()> {
        let numbers = value.kind.is_number() && Kind::from(item).is_number();
        if value.kind.item() == Some(item) || numbers {
            return Some(());
        }
        let shown = self.shown(&value.span);
        let message = format!("`{shown}` is {}: it is never in a list of other values", value.kind.words());
        self.report(Mistake::new(value.span.clone(), message).help("both sides of `in` are of one kind"))
    }

    /// `"name" in headers`.
    fn sent(&mut self, value: &IdedExpr, headers: &IdedExpr) -> Option<Typed> {
        let typed = self.check(value)?;
        let Node::Text(name) = &typed.node else {
            return self.report(
                Mistake::new(typed.span, "the name of a header must be a literal")
                    .help("write it in quotes: `\"x-tier\" in headers`"),
            );
        };
        let name = self.header_name(name, self.place(value))?;
        let span = typed.span.start..self.range(self.place(headers)).end;
        Some(self.leaf(Variable::Headers, Kind::Bool, Node::Sent(name), span))
    }

    fn index(&mut self, expr: &IdedExpr, list: &IdedExpr, index: &IdedExpr) -> Option<Typed> {
        if self.segments(expr).is_some_and(|path| path[0].is_group()) {
            return self.path(expr);
        }
        let (list, index) = (self.check(list), self.check(index));
        let (list, index) = (list?, index?);
        let Kind::List(item) = list.kind else {
            let shown = self.shown(&list.span);
            return self.report(
                Mistake::new(list.span, format!("`{shown}` is {}: it has no parts", list.kind.words()))
                    .help("brackets stand after `headers`, `pool` and lists"),
            );
        };
        if index.kind != Kind::Int {
            return self.report(
                Mistake::new(index.span, "a place in a list is a whole number")
                    .help("count from 0, as in `key.tags[0]`"),
            );
        }
        let end = self.range(self.partners[self.place(expr)]).end;
        Some(Typed {
            kind: item.into(),
            node: Node::Index(Box::new([list.node, index.node])),
            span: list.span.start..end,
            constant: list.constant && index.constant,
        })
    }
}

/// Combines two sides.
fn pair(kind: Kind, left: Typed, right: Typed, build: impl FnOnce(Box<[Node; 2]>) -> Node) -> Typed {
    Typed {
        kind,
        span: left.span.start..right.span.end,
        constant: left.constant && right.constant,
        node: build(Box::new([left.node, right.node])),
    }
}

/// Builds a comparison. One of the prompt's length with a literal does not need a full count.
fn compare(comparison: Comparison, sides: Box<[Node; 2]>) -> Node {
    let (n, turned) = match *sides {
        [Node::Fact(Variable::PromptTokens), Node::Int(n @ 0..)] => (n.unsigned_abs(), comparison),
        [Node::Int(n @ 0..), Node::Fact(Variable::PromptTokens)] => (n.unsigned_abs(), comparison.turned()),
        _ => return Node::Compare(comparison, sides),
    };
    let not_more = |n| Node::Not(Box::new(Node::MoreTokens(n)));
    match (turned, n) {
        (Comparison::More, n) => Node::MoreTokens(n),
        (Comparison::AtMost, n) => not_more(n),
        (Comparison::AtLeast, 1..) => Node::MoreTokens(n - 1),
        (Comparison::Less, 1..) => not_more(n - 1),
        _ => Node::Compare(comparison, sides),
    }
}

fn comparison(name: &str) -> Option<(Comparison, &'static str)> {
    Some(match name {
        signs::EQUALS => (Comparison::Equal, "=="),
        signs::NOT_EQUALS => (Comparison::NotEqual, "!="),
        signs::LESS => (Comparison::Less, "<"),
        signs::LESS_EQUALS => (Comparison::AtMost, "<="),
        signs::GREATER => (Comparison::More, ">"),
        signs::GREATER_EQUALS => (Comparison::AtLeast, ">="),
        _ => return None,
    })
}

fn arithmetic(name: &str) -> Option<(Arithmetic, &'static str)> {
    Some(match name {
        signs::ADD => (Arithmetic::Add, "+"),
        signs::SUBSTRACT => (Arithmetic::Subtract, "-"),
        signs::MULTIPLY => (Arithmetic::Multiply, "*"),
        signs::DIVIDE => (Arithmetic::Divide, "/"),
        signs::MODULO => (Arithmetic::Remainder, "%"),
        _ => return None,
    })
}
