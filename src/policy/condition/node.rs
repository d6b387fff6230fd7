//! A condition as it is evaluated: a small tree, walked without allocating, with CEL's interpreter for what it has no form for.

use std::sync::Arc;

use cel::{Context, IdedExpr, Value, parser::PrattParser};
use regex::Regex;

use super::{
    facts::Facts,
    hours::Hours,
    lexer::RESERVED,
    value::{Arithmetic, Comparison, Failed, Outcome, Val, arithmetic, compare, count, equal},
    variables::Variable,
};

/// Part of a condition. The checker has seen to the types: where one does not fit, nothing holds.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Box<str>),
    /// A variable that needs no name.
    Fact(Variable),
    /// A measure of the pool at this place.
    Pool(Variable, usize),
    /// A measure of the route of this name.
    Route(Variable, Box<str>),
    /// The header of this name, empty where it was not sent.
    Header(Box<str>),
    /// Whether it was sent.
    Sent(Box<str>),
    Within(Box<Hours>),
    /// Whether it is among the key's tags.
    Tagged(Box<Node>),
    /// How many tags the key has.
    Tags,
    /// More prompt tokens than this.
    MoreTokens(u64),
    OneOf(Box<Node>, Box<[Node]>),
    Not(Box<Node>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    /// A condition, the value where it holds, and the one where it does not.
    Choice(Box<[Node; 3]>),
    Compare(Comparison, Box<[Node; 2]>),
    Arithmetic(Arithmetic, Box<[Node; 2]>),
    Negate(Box<Node>),
    Find(Find, Box<[Node; 2]>),
    Matches(Box<Node>, Box<Regex>),
    /// Characters of a text.
    Size(Box<Node>),
    /// Of a number, with a point.
    ToDouble(Box<Node>),
    /// What CEL's own interpreter evaluates.
    Interpreted(Arc<Interpreted>),
}

/// Where a text is looked for in another.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Find {
    Start,
    End,
    Anywhere,
}

impl Node {
    /// Its value; without facts, that of a constant.
    pub(super) fn eval<'a>(&'a self, facts: Option<&'a dyn Facts>) -> Outcome<'a> {
        Ok(match self {
            Self::Bool(value) => Val::Bool(*value),
            Self::Int(value) => Val::Int(*value),
            Self::Double(value) => Val::Double(*value),
            Self::Text(text) => Val::Text(text),
            Self::Fact(variable) => fact(*variable, facts.ok_or(Failed)?)?,
            Self::Pool(variable, pool) => measure(*variable, *pool, facts.ok_or(Failed)?)?,
            Self::Route(Variable::RouteBurn, route) => Val::Double(facts.ok_or(Failed)?.route_burn(route)),
            Self::Route(_, route) => Val::Text(facts.ok_or(Failed)?.route_slo(route)),
            Self::Header(name) => Val::Text(facts.ok_or(Failed)?.header(name).unwrap_or_default()),
            Self::Sent(name) => Val::Bool(facts.ok_or(Failed)?.sent(name)),
            Self::Within(hours) => Val::Bool(hours.hold(facts.ok_or(Failed)?.unix_time())),
            Self::Tagged(tag) => {
                let tag = tag.text(facts)?;
                Val::Bool(facts.ok_or(Failed)?.key_tags().iter().any(|has| **has == *tag))
            }
            Self::Tags => count(facts.ok_or(Failed)?.key_tags().len() as u64),
            Self::MoreTokens(n) => Val::Bool(facts.ok_or(Failed)?.more_tokens_than(*n)),
            Self::OneOf(node, list) => {
                let value = node.eval(facts)?;
                let mut found = false;
                // All of them, as CEL does: one without a value leaves the whole without one.
                for item in list {
                    found |= equal(item.eval(facts)?, value);
                }
                Val::Bool(found)
            }
            Self::Not(node) => Val::Bool(!node.holds(facts)?),
            Self::And(parts) => Val::Bool(unless(false, parts, facts)?),
            Self::Or(parts) => Val::Bool(unless(true, parts, facts)?),
            Self::Choice(parts) => {
                let [condition, yes, no] = &**parts;
                return if condition.holds(facts)? { yes.eval(facts) } else { no.eval(facts) };
            }
            Self::Compare(comparison, sides) => {
                let (left, right) = (sides[0].eval(facts)?, sides[1].eval(facts)?);
                Val::Bool(compare(*comparison, left, right)?)
            }
            Self::Arithmetic(sign, sides) => arithmetic(*sign, sides[0].eval(facts)?, sides[1].eval(facts)?)?,
            Self::Negate(node) => match node.eval(facts)? {
                Val::Int(value) => Val::Int(value.checked_neg().ok_or(Failed)?),
                Val::Double(value) => Val::Double(-value),
                _ => return Err(Failed),
            },
            Self::Find(find, texts) => {
                let (text, part) = (texts[0].text(facts)?, texts[1].text(facts)?);
                Val::Bool(match find {
                    Find::Start => text.starts_with(part),
                    Find::End => text.ends_with(part),
                    Find::Anywhere => text.contains(part),
                })
            }
            Self::Matches(text, pattern) => Val::Bool(pattern.is_match(text.text(facts)?)),
            Self::Size(text) => count(text.text(facts)?.chars().count() as u64),
            Self::ToDouble(node) => match node.eval(facts)? {
                Val::Int(value) => Val::Double(value as f64),
                Val::Double(value) => Val::Double(value),
                _ => return Err(Failed),
            },
            Self::Interpreted(part) => return part.eval(facts),
        })
    }

    pub(super) fn holds(&self, facts: Option<&dyn Facts>) -> Result<bool, Failed> {
        match self.eval(facts)? {
            Val::Bool(value) => Ok(value),
            _ => Err(Failed),
        }
    }

    fn text<'a>(&'a self, facts: Option<&'a dyn Facts>) -> Result<&'a str, Failed> {
        match self.eval(facts)? {
            Val::Text(text) => Ok(text),
            _ => Err(Failed),
        }
    }

    /// Whether it is written out, not looked up.
    pub(super) fn is_constant(&self) -> bool {
        matches!(self, Self::Bool(_) | Self::Int(_) | Self::Double(_) | Self::Text(_))
    }
}

impl From<Val<'_>> for Node {
    fn from(value: Val<'_>) -> Self {
        match value {
            Val::Bool(value) => Self::Bool(value),
            Val::Int(value) => Self::Int(value),
            Val::Double(value) => Self::Double(value),
            Val::Text(text) => Self::Text(text.into()),
        }
    }
}

/// `decides` where either part is so, even if the other has no value: the rule of CEL for `&&` and `||`.
fn unless(decides: bool, parts: &[Node; 2], facts: Option<&dyn Facts>) -> Result<bool, Failed> {
    let left = parts[0].holds(facts);
    if left == Ok(decides) {
        return left;
    }
    let right = parts[1].holds(facts)?;
    if right == decides { Ok(right) } else { left }
}

fn fact(variable: Variable, facts: &dyn Facts) -> Outcome<'_> {
    Ok(match variable {
        Variable::PromptTokens => count(facts.tokens()),
        Variable::PromptComplexity => Val::Double(facts.complexity()),
        Variable::PromptLanguage => Val::Text(facts.language()),
        Variable::RequestModel => Val::Text(facts.model()),
        Variable::RequestClass => Val::Text(facts.class()),
        Variable::RequestStream => Val::Bool(facts.stream()),
        Variable::RequestTools => count(facts.tools()),
        Variable::RequestImages => count(facts.images()),
        Variable::RequestSchema => Val::Bool(facts.schema()),
        Variable::RequestMaxTokens => count(facts.max_tokens()),
        Variable::RequestTurns => count(facts.turns()),
        Variable::KeyId => Val::Text(facts.key_id()),
        Variable::KeyTeam => Val::Text(facts.key_team()),
        _ => return Err(Failed),
    })
}

fn measure(variable: Variable, pool: usize, facts: &dyn Facts) -> Outcome<'_> {
    Ok(match variable {
        Variable::PoolTtftP95 => Val::Double(facts.ttft_p95(pool)),
        Variable::PoolQueue => count(facts.queue(pool)),
        Variable::PoolAttainment => Val::Double(facts.attainment(pool)),
        Variable::PoolBurn => Val::Double(facts.burn(pool)),
        Variable::PoolSlo => Val::Text(facts.slo(pool)),
        _ => return Err(Failed),
    })
}

/// A part that CEL's interpreter evaluates, in which every fact has been replaced by a name.
#[derive(Debug)]
pub(super) struct Interpreted {
    expr: IdedExpr,
    /// The names, and what is looked up for them.
    leaves: Vec<(String, Node)>,
}

thread_local! {
    /// CEL's functions. To set them up takes far longer than an evaluation, and they cannot be shared between threads.
    static FUNCTIONS: Context<'static, 'static> = Context::default();
}

impl Interpreted {
    /// `source` with the `leaves` that it refers to; `None` where CEL cannot read it.
    pub(super) fn new(source: &str, leaves: &[Node]) -> Option<Self> {
        // Every part of the text stands in brackets, and each of them takes 150 KB of stack in the other parser of CEL
        // (an unoptimised build); only that other one tells places, which nobody asks for here.
        let expr = PrattParser::default().parse(source).ok()?;
        let references = expr.references();
        let named = leaves.iter().enumerate().map(|(at, leaf)| (leaf_name(at), leaf));
        let leaves =
            named.filter(|(name, _)| references.has_variable(name)).map(|(name, leaf)| (name, leaf.clone())).collect();
        drop(references);
        Some(Self { expr, leaves })
    }

    pub(super) fn eval(&self, facts: Option<&dyn Facts>) -> Result<Val<'static>, Failed> {
        FUNCTIONS.with(|functions| {
            let mut scope = functions.new_inner_scope();
            for (name, leaf) in &self.leaves {
                scope.add_variable_from_value(name.as_str(), value(leaf, facts)?);
            }
            match Value::resolve(&self.expr, &scope) {
                Ok(Value::Bool(value)) => Ok(Val::Bool(value)),
                Ok(Value::Int(value)) => Ok(Val::Int(value)),
                Ok(Value::Float(value)) => Ok(Val::Double(value)),
                _ => Err(Failed),
            }
        })
    }
}

/// What stands for a fact in the text that CEL reads.
pub(super) fn leaf_name(at: usize) -> String {
    format!("{RESERVED}{at}")
}

fn value(leaf: &Node, facts: Option<&dyn Facts>) -> Result<Value, Failed> {
    if matches!(leaf, Node::Fact(Variable::KeyTags)) {
        let tags: Vec<String> = facts.ok_or(Failed)?.key_tags().iter().map(ToString::to_string).collect();
        return Ok(tags.into());
    }
    Ok(match leaf.eval(facts)? {
        Val::Bool(value) => value.into(),
        Val::Int(value) => value.into(),
        Val::Double(value) => value.into(),
        Val::Text(text) => text.into(),
    })
}
