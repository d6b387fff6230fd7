//! Values and operators with the semantics of CEL.

use std::cmp::Ordering;

/// A value; texts are borrowed.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum Val<'a> {
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(&'a str),
}

/// Evaluation failed: a division by zero, an overflow, or a comparison with NaN.
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

pub(super) fn equal(left: Val<'_>, right: Val<'_>) -> bool {
    order(left, right) == Some(Ordering::Equal)
}

pub(super) fn compare(comparison: Comparison, left: Val<'_>, right: Val<'_>) -> Result<bool, Failed> {
    let order = order(left, right);
    Ok(match comparison {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
        Comparison::Less => order.ok_or(Failed)?.is_lt(),
        Comparison::AtMost => order.ok_or(Failed)?.is_le(),
        Comparison::More => order.ok_or(Failed)?.is_gt(),
        Comparison::AtLeast => order.ok_or(Failed)?.is_ge(),
    })
}

pub(super) fn arithmetic(sign: Arithmetic, left: Val<'_>, right: Val<'_>) -> Outcome<'static> {
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
        _ => Err(Failed),
    }
}
