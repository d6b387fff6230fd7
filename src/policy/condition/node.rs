//! The evaluated form of a condition: a small tree, walked without allocating, with CEL's interpreter for parts that it
//! cannot express.

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

/// A part of a condition. The checker guarantees the types; a mismatch fails to evaluate.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Box<str>),
    /// A variable without a name argument.
    Fact(Variable),
    /// A measure of the pool with this index.
    Pool(Variable, usize),
    /// A measure of the route with this name.
    Route(Variable, Box<str>),
    /// The value of this header, empty if it was not sent.
    Header(Box<str>),
    /// True if the header was sent.
    Sent(Box<str>),
    Within(Box<Hours>),
    /// True if the text is among the key's tags.
    Tagged(Box<Node>),
    /// Number of the key's tags.
    Tags,
    /// True if the prompt has more tokens than this.
    MoreTokens(u64),
    OneOf(Box<Node>, Box<[Node]>),
    Not(Box<Node>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    /// A condition, the value if it is true, and the value if it is false.
    Choice(Box<[Node; 3]>),
    Compare(Comparison, Box<[Node; 2]>),
    Arithmetic(Arithmetic, Box<[Node; 2]>),
    Negate(Box<Node>),
    Find(Find, Box<[Node; 2]>),
    Matches(Box<Node>, Box<Regex>),
    /// Number of characters of a text.
    Size(Box<Node>),
    /// Converts a number to a double.
    ToDouble(Box<Node>),
    /// A part for CEL's interpreter.
    Interpreted(Arc<Interpreted>),
}

/// The position at which one text is searched in another.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Find {
    Start,
    End,
    Anywhere,
}

impl Node {
    /// Evaluates the node; without facts it must be a constant.
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
            Self::Within(hours) => Val::Bool(hours.contains(facts.ok_or(Failed)?.unix_time())),
            Self::Tagged(tag) => {
                let tag = tag.text(facts)?;
                Val::Bool(facts.ok_or(Failed)?.key_tags().iter().any(|has| **has == *tag))
            }
            Self::Tags => count(facts.ok_or(Failed)?.key_tags().len() as u64),
            Self::MoreTokens(n) => Val::Bool(facts.ok_or(Failed)?.more_tokens_than(*n)),
            Self::OneOf(node, list) => {
                let value = node.eval(facts)?;
                let mut found = false;
                // Evaluates all of them, as CEL does: if one fails, the whole fails.
                for item in list {
                    found |= equal(item.eval(facts)?, value);
                }
                Val::Bool(found)
            }
            Self::Not(node) => Val::Bool(!node.holds(facts)?),
            Self::And(parts) => Val::Bool(logical(false, parts, facts)?),
            Self::Or(parts) => Val::Bool(logical(true, parts, facts)?),
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

    /// True if it is a literal.
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

/// Evaluates `&&` or `||` by CEL's rule: if either part equals `decides`, so does the result, even if the other part
/// fails.
fn logical(decides: bool, parts: &[Node; 2], facts: Option<&dyn Facts>) -> Result<bool, Failed> {
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

/// A part evaluated by CEL's interpreter, in which every fact is replaced by a name.
#[derive(Debug)]
pub(super) struct Interpreted {
    expr: IdedExpr,
    /// The names and the facts that they stand for.
    leaves: Vec<(String, Node)>,
}

thread_local! {
    /// CEL's functions. Setting them up takes far longer than an evaluation, and they cannot be shared between threads.
    static FUNCTIONS: Context<'static, 'static> = Context::default();
}

impl Interpreted {
    /// Parses `source`, keeping the `leaves` that it refers to; `None` if CEL cannot parse it.
    pub(super) fn new(source: &str, leaves: &[Node]) -> Option<Self> {
        // Every part of the text is in brackets, each of which takes 150 KB of stack in CEL's other parser (in
        // unoptimised builds). Only that parser records positions, which are not needed here.
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

/// The name for a fact in the text for CEL's interpreter.
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
