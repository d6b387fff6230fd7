//! Values and operators with the semantics of CEL.

use std::{cell::OnceCell, cmp::Ordering};

use typed_arena::Arena;

/// A value. Texts and lists are borrowed from the condition, the facts or the [`Memory`] of the evaluation, so that
/// plain conditions evaluate without allocating.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum Val<'a> {
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(&'a str),
    List(&'a [Self]),
}

/// The texts and lists that operators make during one evaluation; allocated with the first one.
#[derive(Default)]
pub(super) struct Memory<'a> {
    texts: OnceCell<Arena<String>>,
    lists: OnceCell<Arena<Vec<Val<'a>>>>,
}

impl<'a> Memory<'a> {
    #[inline(never)]
    pub(super) fn text(&'a self, text: String) -> Val<'a> {
        Val::Text(self.texts.get_or_init(Arena::new).alloc(text))
    }

    #[inline(never)]
    pub(super) fn list(&'a self, list: Vec<Val<'a>>) -> Val<'a> {
        Val::List(self.lists.get_or_init(Arena::new).alloc(list))
    }
}

/// Evaluation failed: a division by zero, an overflow, a comparison with NaN, or an index outside of a list.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Failed;

pub(super) type Outcome<'a> = Result<Val<'a>, Failed>;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Comparison {
    /// The same comparison with its sides exchanged.
    pub(super) fn turned(self) -> Self {
        match self {
            Self::Less => Self::More,
            Self::AtMost => Self::AtLeast,
            Self::More => Self::Less,
            Self::AtLeast => Self::AtMost,
            same => same,
        }
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

pub(super) fn count(n: u64) -> Val<'static> {
    Val::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

/// Compares integers with doubles as doubles; NaN is not comparable.
fn order(left: Val<'_>, right: Val<'_>) -> Option<Ordering> {
    match (left, right) {
        (Val::Bool(left), Val::Bool(right)) => Some(left.cmp(&right)),
        (Val::Int(left), Val::Int(right)) => Some(left.cmp(&right)),
        (Val::Double(left), Val::Double(right)) => left.partial_cmp(&right),
        (Val::Int(left), Val::Double(right)) => (left as f64).partial_cmp(&right),
        (Val::Double(left), Val::Int(right)) => left.partial_cmp(&(right as f64)),
        (Val::Text(left), Val::Text(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

/// Lists are equal if their elements are, in order.
pub(super) fn equal(left: Val<'_>, right: Val<'_>) -> bool {
    match (left, right) {
        (Val::List(left), Val::List(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(*left, *right))
        }
        _ => order(left, right) == Some(Ordering::Equal),
    }
}

pub(super) fn compare(comparison: Comparison, left: Val<'_>, right: Val<'_>) -> Result<bool, Failed> {
    Ok(match comparison {
        Comparison::Equal => equal(left, right),
        Comparison::NotEqual => !equal(left, right),
        Comparison::Less => order(left, right).ok_or(Failed)?.is_lt(),
        Comparison::AtMost => order(left, right).ok_or(Failed)?.is_le(),
        Comparison::More => order(left, right).ok_or(Failed)?.is_gt(),
        Comparison::AtLeast => order(left, right).ok_or(Failed)?.is_ge(),
    })
}

/// Numbers of one type take all operators; texts and lists can be joined.
pub(super) fn arithmetic<'a>(sign: Arithmetic, left: Val<'a>, right: Val<'a>, memory: &'a Memory<'a>) -> Outcome<'a> {
    match (left, right) {
        (Val::Int(left), Val::Int(right)) => match sign {
            Arithmetic::Add => left.checked_add(right),
            Arithmetic::Subtract => left.checked_sub(right),
            Arithmetic::Multiply => left.checked_mul(right),
            Arithmetic::Divide => left.checked_div(right),
            Arithmetic::Remainder => left.checked_rem(right),
        }
        .map(Val::Int)
        .ok_or(Failed),
        (Val::Double(left), Val::Double(right)) => match sign {
            Arithmetic::Add => Ok(Val::Double(left + right)),
            Arithmetic::Subtract => Ok(Val::Double(left - right)),
            Arithmetic::Multiply => Ok(Val::Double(left * right)),
            Arithmetic::Divide => Ok(Val::Double(left / right)),
            Arithmetic::Remainder => Err(Failed),
        },
        (Val::Text(left), Val::Text(right)) if sign == Arithmetic::Add => Ok(memory.text([left, right].concat())),
        (Val::List(left), Val::List(right)) if sign == Arithmetic::Add => Ok(memory.list([left, right].concat())),
        _ => Err(Failed),
    }
}

/// Converts a number, or the digits of a text, to a whole number; fractions are cut off.
pub(super) fn to_int(value: Val<'_>) -> Outcome<'static> {
    match value {
        Val::Int(value) => Ok(Val::Int(value)),
        // CEL excludes both ends of the range, and with them every double that `as` would saturate.
        Val::Double(value) if value > i64::MIN as f64 && value < i64::MAX as f64 => Ok(Val::Int(value as i64)),
        Val::Text(text) => text.parse().map(Val::Int).map_err(|_| Failed),
        _ => Err(Failed),
    }
}

/// Converts a number, or the digits of a text, to a double.
pub(super) fn to_double(value: Val<'_>) -> Outcome<'static> {
    match value {
        Val::Int(value) => Ok(Val::Double(value as f64)),
        Val::Double(value) => Ok(Val::Double(value)),
        Val::Text(text) => text.parse().map(Val::Double).map_err(|_| Failed),
        _ => Err(Failed),
    }
}

/// Writes a value as text.
pub(super) fn to_text<'a>(value: Val<'a>, memory: &'a Memory<'a>) -> Outcome<'a> {
    Ok(memory.text(match value {
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Double(value) => value.to_string(),
        text @ Val::Text(_) => return Ok(text),
        Val::List(_) => return Err(Failed),
    }))
}
