//! The evaluated form of a condition: a small tree with the semantics of CEL. Only lists, joined texts and conversions
//! to text allocate.

use regex::Regex;

use super::{
    facts::Facts,
    hours::Hours,
    value::{
        Arithmetic, Comparison, Failed, Memory, Outcome, Val, arithmetic, compare, count, equal, to_double, to_int,
        to_text,
    },
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
    /// Number of characters of a text, or of elements of a list.
    Size(Box<Node>),
    Convert(Convert, Box<Node>),
    /// A list literal.
    List(Box<[Node]>),
    /// A list, and the index of one of its elements.
    Index(Box<[Node; 2]>),
    /// A value, and the list that is searched for it.
    In(Box<[Node; 2]>),
    /// The variable of the enclosing loop.
    Local,
    Each(Loop, Box<Each>),
}

/// The type that a value is converted to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Convert {
    Int,
    Double,
    Text,
}

/// The result of a loop over a list.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Loop {
    /// True if the body is true for some element.
    Exists,
    /// True if the body is true for every element.
    All,
    /// True if the body is true for exactly one element.
    ExistsOne,
    /// The elements for which the body is true.
    Filter,
    /// The values of the body.
    Map,
}

/// The parts of a loop.
#[derive(Clone, Debug)]
pub(super) struct Each {
    pub(super) list: Node,
    /// Skips the elements for which it is false.
    pub(super) filter: Option<Node>,
    pub(super) body: Node,
}

/// The values that a node may read.
pub(super) struct Scope<'a> {
    /// `None` while a constant is evaluated.
    facts: Option<&'a dyn Facts>,
    /// The current element of the enclosing loop. Loops do not nest.
    local: Option<Val<'a>>,
    memory: &'a Memory<'a>,
}

impl<'a> Scope<'a> {
    /// The scope of a whole condition; of a constant without `facts`.
    pub(super) fn new(facts: Option<&'a dyn Facts>, memory: &'a Memory<'a>) -> Self {
        Self { facts, local: None, memory }
    }

    fn facts(&self) -> Result<&'a dyn Facts, Failed> {
        self.facts.ok_or(Failed)
    }
}

/// The position at which one text is searched in another.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Find {
    Start,
    End,
    Anywhere,
}

impl Node {
    /// Evaluates the node.
    pub(super) fn eval<'a>(&'a self, scope: &Scope<'a>) -> Outcome<'a> {
        Ok(match self {
            Self::Bool(value) => Val::Bool(*value),
            Self::Int(value) => Val::Int(*value),
            Self::Double(value) => Val::Double(*value),
            Self::Text(text) => Val::Text(text),
            Self::Fact(variable) if *variable != Variable::KeyTags => fact(*variable, scope.facts()?)?,
            Self::Pool(variable, pool) => measure(*variable, *pool, scope.facts()?)?,
            Self::Route(Variable::RouteBurn, route) => Val::Double(scope.facts()?.route_burn(route)),
            Self::Route(_, route) => Val::Text(scope.facts()?.route_slo(route)),
            Self::Header(name) => Val::Text(scope.facts()?.header(name).unwrap_or_default()),
            Self::Sent(name) => Val::Bool(scope.facts()?.sent(name)),
            Self::Within(hours) => Val::Bool(hours.contains(scope.facts()?.unix_time())),
            Self::Tagged(tag) => {
                let tag = tag.text(scope)?;
                Val::Bool(scope.facts()?.key_tags().iter().any(|has| **has == *tag))
            }
            Self::Tags => count(scope.facts()?.key_tags().len() as u64),
            Self::MoreTokens(n) => Val::Bool(scope.facts()?.more_tokens_than(*n)),
            Self::OneOf(node, list) => {
                let value = node.eval(scope)?;
                let mut found = false;
                // Evaluates all of them, as CEL does: if one fails, the whole fails.
                for item in list {
                    found |= equal(item.eval(scope)?, value);
                }
                Val::Bool(found)
            }
            Self::Not(node) => Val::Bool(!node.holds(scope)?),
            Self::And(parts) => Val::Bool(logical(false, parts, scope)?),
            Self::Or(parts) => Val::Bool(logical(true, parts, scope)?),
            Self::Choice(parts) => {
                let [condition, yes, no] = &**parts;
                return if condition.holds(scope)? { yes.eval(scope) } else { no.eval(scope) };
            }
            Self::Compare(comparison, sides) => {
                Val::Bool(compare(*comparison, sides[0].eval(scope)?, sides[1].eval(scope)?)?)
            }
            Self::Arithmetic(sign, sides) => {
                arithmetic(*sign, sides[0].eval(scope)?, sides[1].eval(scope)?, scope.memory)?
            }
            Self::Negate(node) => match node.eval(scope)? {
                Val::Int(value) => Val::Int(value.checked_neg().ok_or(Failed)?),
                Val::Double(value) => Val::Double(-value),
                _ => return Err(Failed),
            },
            Self::Find(find, texts) => {
                let (text, part) = (texts[0].text(scope)?, texts[1].text(scope)?);
                Val::Bool(match find {
                    Find::Start => text.starts_with(part),
                    Find::End => text.ends_with(part),
                    Find::Anywhere => text.contains(part),
                })
            }
            Self::Matches(text, pattern) => Val::Bool(pattern.is_match(text.text(scope)?)),
            Self::Local => scope.local.ok_or(Failed)?,
            _ => return self.eval_rare(scope),
        })
    }

    /// Evaluates the forms that make texts or lists, apart from the others to keep the stack frame of those small.
    #[inline(never)]
    fn eval_rare<'a>(&'a self, scope: &Scope<'a>) -> Outcome<'a> {
        Ok(match self {
            Self::Fact(Variable::KeyTags) => {
                scope.memory.list(scope.facts()?.key_tags().iter().map(|tag| Val::Text(tag)).collect())
            }
            Self::Size(of) => count(match of.eval(scope)? {
                Val::Text(text) => text.chars().count() as u64,
                Val::List(list) => list.len() as u64,
                _ => return Err(Failed),
            }),
            Self::Convert(Convert::Int, node) => to_int(node.eval(scope)?)?,
            Self::Convert(Convert::Double, node) => to_double(node.eval(scope)?)?,
            Self::Convert(Convert::Text, node) => to_text(node.eval(scope)?, scope.memory)?,
            Self::List(nodes) => {
                scope.memory.list(nodes.iter().map(|node| node.eval(scope)).collect::<Result<_, _>>()?)
            }
            Self::Index(parts) => {
                let (list, Val::Int(index)) = (parts[0].list(scope)?, parts[1].eval(scope)?) else {
                    return Err(Failed);
                };
                *usize::try_from(index).ok().and_then(|index| list.get(index)).ok_or(Failed)?
            }
            Self::In(parts) => {
                let (value, list) = (parts[0].eval(scope)?, parts[1].list(scope)?);
                Val::Bool(list.iter().any(|item| equal(*item, value)))
            }
            Self::Each(kind, each) => return each.eval(*kind, scope),
            _ => return Err(Failed),
        })
    }

    pub(super) fn holds<'a>(&'a self, scope: &Scope<'a>) -> Result<bool, Failed> {
        match self.eval(scope)? {
            Val::Bool(value) => Ok(value),
            _ => Err(Failed),
        }
    }

    fn text<'a>(&'a self, scope: &Scope<'a>) -> Result<&'a str, Failed> {
        match self.eval(scope)? {
            Val::Text(text) => Ok(text),
            _ => Err(Failed),
        }
    }

    fn list<'a>(&'a self, scope: &Scope<'a>) -> Result<&'a [Val<'a>], Failed> {
        match self.eval(scope)? {
            Val::List(list) => Ok(list),
            _ => Err(Failed),
        }
    }

    /// True if it is a literal number, text, `true` or `false`.
    pub(super) fn is_constant(&self) -> bool {
        matches!(self, Self::Bool(_) | Self::Int(_) | Self::Double(_) | Self::Text(_))
    }
}

impl Each {
    /// Runs the loop. As CEL has it, a failing element does not matter to `exists` and `all` if another one decides.
    fn eval<'a>(&'a self, kind: Loop, scope: &Scope<'a>) -> Outcome<'a> {
        let list = self.list.list(scope)?;
        let (mut found, mut failed, mut results) = (0, false, Vec::new());
        for item in list {
            let scope = &Scope { local: Some(*item), ..*scope };
            if let Some(filter) = &self.filter
                && !filter.holds(scope)?
            {
                continue;
            }
            match kind {
                Loop::Exists | Loop::All => match self.body.holds(scope) {
                    Ok(value) if value == (kind == Loop::Exists) => return Ok(Val::Bool(value)),
                    Ok(_) => {}
                    Err(Failed) => failed = true,
                },
                Loop::ExistsOne => found += u32::from(self.body.holds(scope)?),
                Loop::Filter => {
                    if self.body.holds(scope)? {
                        results.push(*item);
                    }
                }
                Loop::Map => results.push(self.body.eval(scope)?),
            }
        }
        match kind {
            Loop::Exists | Loop::All if failed => Err(Failed),
            Loop::Exists => Ok(Val::Bool(false)),
            Loop::All => Ok(Val::Bool(true)),
            Loop::ExistsOne => Ok(Val::Bool(found == 1)),
            Loop::Filter | Loop::Map => Ok(scope.memory.list(results)),
        }
    }
}

impl From<Val<'_>> for Node {
    fn from(value: Val<'_>) -> Self {
        match value {
            Val::Bool(value) => Self::Bool(value),
            Val::Int(value) => Self::Int(value),
            Val::Double(value) => Self::Double(value),
            Val::Text(text) => Self::Text(text.into()),
            Val::List(list) => Self::List(list.iter().copied().map(Self::from).collect()),
        }
    }
}

/// Evaluates `&&` or `||` by CEL's rule: if either part equals `decides`, so does the result, even if the other part
/// fails.
fn logical<'a>(decides: bool, parts: &'a [Node; 2], scope: &Scope<'a>) -> Result<bool, Failed> {
    let left = parts[0].holds(scope);
    if left == Ok(decides) {
        return left;
    }
    let right = parts[1].holds(scope)?;
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
        Variable::RequestAudio => count(facts.audio()),
        Variable::RequestVideo => count(facts.video()),
        Variable::RequestFiles => count(facts.files()),
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
