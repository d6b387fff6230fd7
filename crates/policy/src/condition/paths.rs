//! Checks variables by name: `prompt.tokens`, `headers["x-tier"]`, `pool.small.queue`.

use cel::{
    IdedExpr,
    common::ast::{Expr, LiteralValue, operators},
};

use super::{
    check::{Checker, Typed},
    mistake::Mistake,
    node::Node,
    variables::{CLASSES, Entry, GROUPS, Kind, STATES, VARIABLES, Variable},
};
use signalbox_config::nearest;
use signalbox_types::Name;

/// A name in a path, and the index of its token.
pub(super) struct Segment<'a> {
    name: &'a str,
    place: usize,
}

impl Segment<'_> {
    /// True if it names a group of variables rather than a loop variable.
    pub(super) fn is_group(&self) -> bool {
        GROUPS.contains(&self.name)
    }
}

impl Checker<'_> {
    /// A variable, a header, a measure of a pool or route, or a loop variable.
    pub(super) fn path(&mut self, expr: &IdedExpr) -> Option<Typed> {
        let Some(path) = self.segments(expr) else { return self.field_of_value(expr) };
        let (first, last) = (&path[0], &path[path.len() - 1]);
        let span = self.range(first.place).start..self.range(last.place).end;
        if let Some((_, kind)) = self.local.as_ref().filter(|(local, _)| *local == first.name) {
            let kind = *kind;
            if let Some(field) = path.get(1) {
                return self.no_field(kind, first.name, field);
            }
            return Some(Typed { kind, node: Node::Local, span, constant: false });
        }
        match (first.name, &path[1..]) {
            ("headers", [name]) => self.header(name, span),
            ("headers", [_, field, ..]) => self.no_field(Kind::Text, "headers[…]", field),
            ("pool", [pool, measure, rest @ ..]) => self.pool(pool, measure, rest, span),
            ("route", [route, measure, rest @ ..]) => self.route(route, measure, rest, span),
            ("pool", [pool]) => {
                self.place_of("pool", &self.names.pools, pool)?;
                let name = pool.name;
                self.report(
                    Mistake::new(span, format!("`{name}` is a pool, not a value"))
                        .help("name one of its measures: `ttft_p95`, `queue`, `attainment`, `burn` or `slo`"),
                )
            }
            ("route", [route]) => {
                self.place_of("route", &self.names.routes, route)?;
                let name = route.name;
                self.report(
                    Mistake::new(span, format!("`{name}` is a route, not a value"))
                        .help("name one of its measures: `burn` or `slo`"),
                )
            }
            (group, []) if GROUPS.contains(&group) => {
                let indexed = self.text[span.end..].trim_start().starts_with('[');
                if indexed && matches!(group, "headers" | "pool" | "route") {
                    let mistake = Mistake::new(span, format!("the name in `{group}[…]` must be a literal"));
                    return self.report(mistake.help(format!("write a name in quotes: `{group}[\"…\"]`")));
                }
                let help = match group {
                    "time" => "write `time.in(\"22:00-06:00\", \"Europe/Berlin\")`".to_owned(),
                    _ => format!("name one of its values: {}", of_group(group)),
                };
                self.report(Mistake::new(span, format!("`{group}` is a group of values, not one")).help(help))
            }
            ("prompt" | "request" | "key", [field, rest @ ..]) => {
                let full = format!("{}.{}", first.name, field.name);
                let Some(entry) = VARIABLES.iter().find(|entry| entry.name == full) else {
                    return self.unknown(&path);
                };
                if let Some(field) = rest.first() {
                    return self.no_field(entry.kind, entry.name, field);
                }
                Some(self.leaf(entry.variable, entry.kind, Node::Fact(entry.variable), span))
            }
            _ => self.unknown(&path),
        }
    }

    /// The names of a path, if it is one; a name in brackets is equivalent to one after a dot.
    pub(super) fn segments<'e>(&self, expr: &'e IdedExpr) -> Option<Vec<Segment<'e>>> {
        let (operand, name, place) = match &expr.expr {
            Expr::Ident(name) => return Some(vec![Segment { name, place: self.place(expr) }]),
            Expr::Select(select) if !select.test => (&*select.operand, &*select.field, self.place(expr) + 1),
            Expr::Call(call) if call.func_name == operators::INDEX => match &*call.args {
                [operand, IdedExpr { expr: Expr::Literal(LiteralValue::String(name)), .. }] => {
                    (operand, name.inner(), self.place(expr) + 1)
                }
                _ => return None,
            },
            _ => return None,
        };
        let mut path = self.segments(operand)?;
        path.push(Segment { name, place });
        Some(path)
    }

    fn header(&mut self, name: &Segment<'_>, span: std::ops::Range<usize>) -> Option<Typed> {
        let name = self.header_name(name.name, name.place)?;
        Some(self.leaf(Variable::Headers, Kind::Text, Node::Header(name), span))
    }

    /// The name of a header, in lower case.
    pub(super) fn header_name(&mut self, name: &str, place: usize) -> Option<Box<str>> {
        if let Ok(name) = http::HeaderName::from_bytes(name.as_bytes()) {
            return Some(name.as_str().into());
        }
        let range = self.range(place);
        self.report(
            Mistake::new(range, "not a valid name of a header")
                .help("names of headers are letters, digits and `-`, such as \"x-tier\""),
        )
    }

    /// The index of a pool or route among the `known` ones.
    fn place_of(&mut self, kind: &str, known: &[Name], asked: &Segment<'_>) -> Option<usize> {
        if let Some(place) = known.iter().position(|name| **name == *asked.name) {
            return Some(place);
        }
        let mistake = Mistake::new(self.range(asked.place), format!("there is no {kind} `{}`", asked.name));
        // `pool.with-dash.queue` parses as a subtraction.
        let dashed = known.iter().find(|name| {
            name.strip_prefix(asked.name)
                .is_some_and(|rest| !rest.is_empty() && self.text[self.range(asked.place).end..].starts_with(rest))
        });
        if let Some(name) = dashed {
            return self.report(mistake.help(format!("write `{kind}[\"{name}\"]`: its name is more than a word")));
        }
        let known: Vec<_> = known.iter().map(|name| &**name).collect();
        let all = format!("the {kind}s are `{}`", known.join("`, `"));
        self.report(mistake.meant(nearest(asked.name, known), all))
    }

    fn pool(
        &mut self,
        pool: &Segment<'_>,
        measure: &Segment<'_>,
        rest: &[Segment<'_>],
        span: std::ops::Range<usize>,
    ) -> Option<Typed> {
        let place = self.place_of("pool", &self.names.pools, pool)?;
        let entry = self.measure("pool", measure, rest)?;
        Some(self.leaf(entry.variable, entry.kind, Node::Pool(entry.variable, place), span))
    }

    fn route(
        &mut self,
        route: &Segment<'_>,
        measure: &Segment<'_>,
        rest: &[Segment<'_>],
        span: std::ops::Range<usize>,
    ) -> Option<Typed> {
        self.place_of("route", &self.names.routes, route)?;
        let entry = self.measure("route", measure, rest)?;
        Some(self.leaf(entry.variable, entry.kind, Node::Route(entry.variable, route.name.into()), span))
    }

    /// The table entry of a measure.
    fn measure(&mut self, kind: &str, measure: &Segment<'_>, rest: &[Segment<'_>]) -> Option<&'static Entry> {
        let prefix = format!("{kind}.<name>.");
        let measures = || VARIABLES.iter().filter_map(|entry| Some((entry.name.strip_prefix(&*prefix)?, entry)));
        let Some((_, entry)) = measures().find(|(name, _)| *name == measure.name) else {
            let mistake = Mistake::new(self.range(measure.place), format!("a {kind} has no `{}`", measure.name));
            let names = measures().map(|(name, _)| name);
            let all = format!("it has `{}`", names.clone().collect::<Vec<_>>().join("`, `"));
            return self.report(mistake.meant(nearest(measure.name, names), all));
        };
        match rest.first() {
            Some(field) => self.no_field(entry.kind, entry.name, field),
            None => Some(entry),
        }
    }

    fn no_field<T>(&mut self, kind: Kind, of: &str, field: &Segment<'_>) -> Option<T> {
        let range = self.range(field.place);
        self.report(
            Mistake::new(range, format!("`{of}` is {}: it has no `{}`", kind.words(), field.name)).help("remove it"),
        )
    }

    /// A field of something other than a variable.
    fn field_of_value(&mut self, expr: &IdedExpr) -> Option<Typed> {
        let Expr::Select(select) = &expr.expr else { return None };
        let place = self.place(expr) + 1;
        // The operand's own mistakes are more informative.
        if matches!(&select.operand.expr, Expr::Call(call) if call.func_name == operators::INDEX) {
            self.check(&select.operand)?;
        }
        let range = self.range(place);
        self.report(
            Mistake::new(range, format!("a value has no `{}`", select.field))
                .help("only variables have names with points in them, such as `prompt.tokens`"),
        )
    }

    fn unknown(&mut self, path: &[Segment<'_>]) -> Option<Typed> {
        let full = path.iter().map(|segment| segment.name).collect::<Vec<_>>().join(".");
        let (first, last) = (&path[0], &path[path.len() - 1]);
        let span = self.range(first.place).start..self.range(last.place).end;
        let mistake = Mistake::new(span, format!("there is no variable `{full}`"));
        if let Some(name) = self.dashed(first.place) {
            return self.report(mistake.help(format!("a name with dashes stands in brackets: `headers[\"{name}\"]`")));
        }
        let lone = path.len() == 1;
        let short = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
        // In a known group only the rest of the name is wrong.
        let group = GROUPS.iter().find(|group| !lone && **group == first.name);
        let known = || {
            let all = VARIABLES.iter().map(|entry| entry.name).filter(|name| !name.contains(['<', '[', '(']));
            all.filter(|name| group.is_none_or(|group| name.starts_with(group)))
        };
        let alike = || {
            let name = nearest(last.name, known().map(short))?;
            known().find(|known| short(known) == name)
        };
        let whole = || nearest(&full, known()).filter(|_| group.is_none());
        let meant = known().find(|name| lone && short(name) == full).or_else(whole).or_else(alike);
        self.report(match meant {
            _ if lone && (CLASSES.contains(&&*full) || STATES.contains(&&*full)) => {
                mistake.help(format!("a text stands in quotes: \"{full}\""))
            }
            Some(name) => mistake.help(format!("did you mean `{name}`?")),
            None if GROUPS.contains(&first.name) => mistake.help(format!("there are {}", of_group(first.name))),
            None => match nearest(first.name, GROUPS) {
                Some(group) => mistake.help(format!("did you mean `{group}`?")),
                None if lone => {
                    mistake.help(format!("a text stands in quotes: \"{full}\"; variables begin with {}", groups()))
                }
                None => mistake.help(format!("variables begin with {}", groups())),
            },
        })
    }
}

impl Checker<'_> {
    /// The name with dashes that contains the token at `place`, if no spaces surround the dashes.
    fn dashed(&self, place: usize) -> Option<&str> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let range = self.range(place);
        let before = self.text[..range.start].strip_suffix('-')?;
        let start = before.rfind(|c| !is_part(c)).map_or(0, |at| at + 1);
        let end = self.text[range.start..].find(|c| !is_part(c)).map_or(self.text.len(), |len| range.start + len);
        (start < before.len()).then(|| &self.text[start..end])
    }
}

fn groups() -> String {
    GROUPS.map(|group| format!("`{group}`")).join(", ")
}

/// Lists the variables of a group, for an error message.
fn of_group(group: &str) -> String {
    let names = VARIABLES.iter().filter(|entry| entry.name.starts_with(group)).map(|entry| format!("`{}`", entry.name));
    names.collect::<Vec<_>>().join(", ")
}
