//! Checks functions and loops, and builds their nodes.

use std::ops::Range;

use cel::{
    IdedExpr,
    common::ast::{CallExpr, Expr},
};
use regex::RegexBuilder;

use super::{
    check::{Checker, Typed},
    hours::{Hours, zone},
    mistake::Mistake,
    node::{Convert, Each, Find, Loop, Node},
    variables::{FUNCTIONS, GROUPS, Kind, Variable},
};
use signalbox_config as config;

/// The most memory of one compiled pattern, in bytes.
const PATTERN: usize = 1 << 20;

impl Checker<'_> {
    pub(super) fn function(&mut self, expr: &IdedExpr, call: &CallExpr) -> Option<Typed> {
        let open = self.place(expr);
        let name = self.range(open.saturating_sub(1));
        let start = call.target.as_ref().map_or(name.start, |target| self.start(target));
        let span = start..self.range(self.partners[open]).end;
        let target = call.target.as_deref();
        // Matched by the name in the text: the parser was given another one for `in`.
        let text = self.text;
        match (&text[name.clone()], target, &*call.args) {
            ("in", Some(IdedExpr { expr: Expr::Ident(time), .. }), args) if time == "time" => {
                self.time(args, name, span)
            }
            ("size", None, [value]) | ("size", Some(value), []) => self.size(value, span),
            ("startsWith", Some(text), [part]) => self.find(Find::Start, "startsWith", text, part, span),
            ("endsWith", Some(text), [part]) => self.find(Find::End, "endsWith", text, part, span),
            ("contains", Some(text), [part]) => self.find(Find::Anywhere, "contains", text, part, span),
            ("matches", Some(text), [pattern]) => self.matches(text, pattern, span),
            ("duration", None, [text]) => self.duration(text, span),
            (to @ ("double" | "int" | "string"), None, [value]) => self.convert(to, value, span),
            (
                method @ ("exists" | "all" | "exists_one" | "existsOne" | "filter" | "map"),
                Some(list),
                [variable, body],
            ) => self.each(method, list, variable, None, body, span),
            ("map", Some(list), [variable, filter, body]) => self.each("map", list, variable, Some(filter), body, span),
            (unknown, ..) => self.no_function(unknown, name),
        }
    }

    fn no_function<T>(&mut self, called: &str, name: Range<usize>) -> Option<T> {
        let shown = self.shown(&name);
        if called == "has" {
            return self.report(
                Mistake::new(name, "`has` is not needed: every variable has a value")
                    .help("to know whether a header was sent, write `\"x-tier\" in headers`"),
            );
        }
        if let Some((_, example)) = FUNCTIONS.iter().find(|(known, _)| *known == called) {
            return self.report(
                Mistake::new(name, format!("`{shown}` is called in another way"))
                    .help(format!("write it like `{example}`")),
            );
        }
        let mistake = Mistake::new(name, format!("there is no function `{shown}`"));
        let known = || FUNCTIONS.iter().map(|(known, _)| *known).filter(|known| *known != "has");
        let alike = known().find(|known| known.replace('_', "").eq_ignore_ascii_case(&called.replace('_', "")));
        let all = format!("there are `{}`", known().collect::<Vec<_>>().join("`, `"));
        self.report(mistake.meant(alike.or_else(|| config::nearest(called, known())), all))
    }

    /// A text literal.
    fn written(&mut self, expr: &IdedExpr, what: &str) -> Option<(String, Range<usize>)> {
        let typed = self.check(expr)?;
        match typed.node {
            Node::Text(text) => Some((text.into(), typed.span)),
            _ => self.report(
                Mistake::new(typed.span, format!("{what} must be a literal")).help("write it as a text in quotes"),
            ),
        }
    }

    fn time(&mut self, args: &[IdedExpr], name: Range<usize>, span: Range<usize>) -> Option<Typed> {
        let [range, place] = args else {
            return self.report(
                Mistake::new(name, "`time.in` takes a range of time and a time zone")
                    .help("write it like `time.in(\"22:00-06:00\", \"Europe/Berlin\")`"),
            );
        };
        let (range, place) = (self.written(range, "a range of time"), self.written(place, "a time zone"));
        let ((range, range_span), (place, place_span)) = (range?, place?);
        let converted = |mistake: config::Mistake, span| Mistake {
            range: span,
            message: mistake.message.into_owned(),
            help: mistake.help.map(Into::into),
        };
        let zone = zone(&place).map_err(|mistake| self.mistakes.push(converted(mistake, place_span))).ok();
        let hours = Hours::read(&range, zone.clone().unwrap_or(jiff::tz::TimeZone::UTC));
        let hours = hours.map_err(|mistake| self.mistakes.push(converted(mistake, range_span))).ok();
        zone?;
        Some(self.leaf(Variable::Time, Kind::Bool, Node::Within(Box::new(hours?)), span))
    }

    fn size(&mut self, value: &IdedExpr, span: Range<usize>) -> Option<Typed> {
        let typed = self.check(value)?;
        let node = match (typed.kind, typed.node) {
            (Kind::List(_), Node::Fact(Variable::KeyTags)) => Node::Tags,
            (Kind::Text | Kind::List(_), node) => Node::Size(Box::new(node)),
            (kind, _) => {
                let shown = self.shown(&typed.span);
                return self.report(
                    Mistake::new(typed.span, format!("`{shown}` is {}: it has no size", kind.words()))
                        .help("only texts and lists have one"),
                );
            }
        };
        Some(Typed { kind: Kind::Int, node, span, constant: typed.constant })
    }

    /// Checks that `expr` is a text, for a function called `name`.
    fn text_for(&mut self, name: &str, expr: &IdedExpr) -> Option<Typed> {
        let typed = self.check(expr)?;
        if typed.kind == Kind::Text {
            return Some(typed);
        }
        let shown = self.shown(&typed.span);
        let help = match typed.kind {
            Kind::List(_) => {
                "to look into a list, write `\"…\" in key.tags`, or `key.tags.exists(tag, tag.startsWith(\"…\"))`"
            }
            _ => "write a text in quotes, or a variable that is one",
        };
        self.report(
            Mistake::new(typed.span, format!("`{name}` takes texts: `{shown}` is {}", typed.kind.words())).help(help),
        )
    }

    fn find(&mut self, find: Find, name: &str, text: &IdedExpr, part: &IdedExpr, span: Range<usize>) -> Option<Typed> {
        let (text, part) = (self.text_for(name, text), self.text_for(name, part));
        let (text, part) = (text?, part?);
        Some(Typed {
            kind: Kind::Bool,
            span,
            constant: text.constant && part.constant,
            node: Node::Find(find, Box::new([text.node, part.node])),
        })
    }

    fn matches(&mut self, text: &IdedExpr, pattern: &IdedExpr, span: Range<usize>) -> Option<Typed> {
        let (text, pattern) = (self.text_for("matches", text), self.written(pattern, "a pattern"));
        let (text, (pattern, pattern_span)) = (text?, pattern?);
        let regex = match RegexBuilder::new(&pattern).size_limit(PATTERN).build() {
            Ok(regex) => regex,
            Err(error) => {
                let why = error.to_string();
                let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                return self
                    .report(Mistake::new(pattern_span, "not a regular expression").help(format!("the reason: {why}")));
            }
        };
        Some(Typed {
            kind: Kind::Bool,
            span,
            constant: text.constant,
            node: Node::Matches(Box::new(text.node), Box::new(regex)),
        })
    }

    fn duration(&mut self, text: &IdedExpr, span: Range<usize>) -> Option<Typed> {
        let (text, text_span) = self.written(text, "a duration")?;
        let Some(seconds) = seconds(&text) else {
            return self.report(
                Mistake::new(text_span, format!("\"{text}\" is no duration"))
                    .help("write a number and a unit: \"800ms\", \"1.5s\", \"2m\""),
            );
        };
        Some(Typed { kind: Kind::Duration, node: Node::Double(seconds), span, constant: true })
    }

    fn convert(&mut self, to: &str, value: &IdedExpr, span: Range<usize>) -> Option<Typed> {
        let typed = self.check(value)?;
        let (kind, fits) = match to {
            "double" => (Kind::Double, typed.kind.is_number() || typed.kind == Kind::Text),
            "int" => (Kind::Int, typed.kind.is_number() || typed.kind == Kind::Text),
            _ => (Kind::Text, typed.kind.item().is_some()),
        };
        if !fits {
            let shown = self.shown(&typed.span);
            let message = format!("`{shown}` is {}: `{to}` cannot convert it", typed.kind.words());
            return self
                .report(Mistake::new(typed.span, message).help("numbers and texts can be converted into each other"));
        }
        let node = match (to, typed.kind) {
            ("int", Kind::Int) | ("string", Kind::Text) => typed.node,
            ("double", _) => Node::Convert(Convert::Double, Box::new(typed.node)),
            ("int", _) => Node::Convert(Convert::Int, Box::new(typed.node)),
            _ => Node::Convert(Convert::Text, Box::new(typed.node)),
        };
        Some(Typed { kind, node, span, constant: typed.constant })
    }

    /// A loop over a list: `key.tags.exists(tag, tag.startsWith("eu-"))`.
    fn each(
        &mut self,
        method: &str,
        list: &IdedExpr,
        variable: &IdedExpr,
        filter: Option<&IdedExpr>,
        body: &IdedExpr,
        span: Range<usize>,
    ) -> Option<Typed> {
        let variable_span = self.range(self.place(variable));
        if self.local.is_some() {
            // The running time of nested loops would be unbounded.
            return self
                .report(Mistake::new(span, "a loop within a loop").help("write the condition without nesting loops"));
        }
        let list = self.check(list)?;
        let Kind::List(item) = list.kind else {
            let shown = self.shown(&list.span);
            return self.report(
                Mistake::new(list.span, format!("`{method}` takes a list: `{shown}` is {}", list.kind.words()))
                    .help("the variable that is a list is `key.tags`"),
            );
        };
        let Expr::Ident(name) = &variable.expr else { return self.no_function(method, variable_span) };
        if GROUPS.contains(&&**name) || name.starts_with('.') {
            return self.report(
                Mistake::new(variable_span, format!("`{name}` is taken"))
                    .help("choose another name for the loop variable, such as `tag`"),
            );
        }
        self.local = Some((name.clone(), item.into()));
        let filter = filter.map(|filter| self.condition(filter));
        let body = if method == "map" { self.check(body) } else { self.condition(body) };
        self.local = None;
        let filter = match filter {
            Some(filter) => Some(filter?.node),
            None => None,
        };
        let body = body?;
        let (result, kind) = match method {
            "exists" => (Loop::Exists, Kind::Bool),
            "all" => (Loop::All, Kind::Bool),
            "filter" => (Loop::Filter, list.kind),
            "map" => match body.kind.item() {
                Some(item) => (Loop::Map, Kind::List(item)),
                None => {
                    return self.report(
                        Mistake::new(body.span, "lists hold numbers or texts").help("write one for each value"),
                    );
                }
            },
            _ => (Loop::ExistsOne, Kind::Bool),
        };
        let constant = list.constant && body.constant;
        let each = Each { list: list.node, filter, body: body.node };
        Some(Typed { kind, node: Node::Each(result, Box::new(each)), span, constant })
    }

    /// The start of a part.
    fn start(&self, expr: &IdedExpr) -> usize {
        let own = self.range(self.place(expr)).start;
        match &expr.expr {
            Expr::Select(select) => self.start(&select.operand),
            Expr::Call(call) => {
                call.target.as_deref().or(call.args.first()).map_or(own, |first| self.start(first).min(own))
            }
            _ => own,
        }
    }
}

/// A CEL duration, which is one or several numbers with units, in seconds.
fn seconds(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    let mut sum = 0.0;
    while !rest.is_empty() {
        let unit = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let end = rest[unit..].find(|c: char| !c.is_ascii_alphabetic()).map_or(rest.len(), |len| unit + len);
        sum += config::duration(&rest[..end]).ok()?.as_secs_f64();
        rest = &rest[end..];
    }
    (!text.trim().is_empty()).then_some(sum)
}
