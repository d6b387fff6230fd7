//! What can be looked at in an answer before it is passed on.

/// A way to see that an answer is of no use, without a second model.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// It does not have the form that was asked for (`response_format`).
    Schema,
    /// It calls a tool that there is not, or with arguments that the tool does not take.
    Tools,
    /// It was cut for its length, by no limit of the client's.
    Length,
    /// It declines.
    Refusal,
    /// It says nothing, and calls nothing.
    Empty,
    /// The model was not sure of its words, by the logprobs that the client asked for.
    Logprobs,
    /// It ends in a loop.
    Repetition,
}

impl Check {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 7] =
        [Self::Schema, Self::Tools, Self::Length, Self::Refusal, Self::Empty, Self::Logprobs, Self::Repetition];

    /// The name used in policies, headers and the journal.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Schema => "schema",
            Self::Tools => "tools",
            Self::Length => "length",
            Self::Refusal => "refusal",
            Self::Empty => "empty",
            Self::Logprobs => "logprobs",
            Self::Repetition => "repetition",
        }
    }
}

/// A set of checks.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Checks(u8);

impl Checks {
    /// Whether `check` is one of them.
    pub const fn has(self, check: Check) -> bool {
        self.0 & (1 << check as u8) != 0
    }
}

impl FromIterator<Check> for Checks {
    fn from_iter<I: IntoIterator<Item = Check>>(checks: I) -> Self {
        Self(checks.into_iter().fold(0, |set, check| set | 1 << check as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in() {
        let some = Checks::from_iter([Check::Schema, Check::Repetition, Check::Schema]);
        let has: Vec<_> = Check::ALL.into_iter().filter(|check| some.has(*check)).collect();
        assert_eq!(has, [Check::Schema, Check::Repetition]);
        assert!(Check::ALL.into_iter().all(|check| Checks::from_iter(Check::ALL).has(check)));
    }
}
