//! The values of a cascade: the checks that an answer has to pass, and the least confidence of its tokens.

use schemars::{Schema, json_schema};

use super::{
    mistake::Mistake,
    patterns::whole,
    scalar::{Scalar, choice, choice_schema},
};
use signalbox_types::Check;

impl Scalar for Check {
    fn read(text: &str) -> Result<Self, Mistake> {
        choice(text, &Self::ALL.map(|check| (check.name(), check)))
    }

    fn schema() -> Schema {
        choice_schema(&Self::ALL.map(|check| (check.name(), check)))
    }
}

/// The natural logarithm of a token's probability: at most zero.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Logprob(pub f64);

impl Scalar for Logprob {
    fn read(text: &str) -> Result<Self, Mistake> {
        let plain = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '-'));
        match text.parse::<f64>().ok().filter(|_| plain) {
            Some(logprob) if logprob <= 0.0 => Ok(Self(logprob)),
            Some(_) => Err(Mistake::new("a logprob above zero")
                .help("it is the logarithm of a probability, which is 1 at most: write it like `-1.2`")),
            None => Err(Mistake::new("not a number").help("write nats a token, such as `-1.2`")),
        }
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["number", "string"], "maximum": 0, "pattern": whole(r"-?[0-9]+(?:\.[0-9]*)?|-?\.[0-9]+"), "examples": [-1.2] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logprobs_are_zero_or_less() {
        assert_eq!(Logprob::read("-1.2"), Ok(Logprob(-1.2)));
        assert_eq!(Logprob::read("0"), Ok(Logprob(0.0)));
        for bad in ["1.2", "", "-", "nan", "-inf", "1e-3", "-1.2.3"] {
            assert!(Logprob::read(bad).is_err(), "{bad}");
        }
    }
}
