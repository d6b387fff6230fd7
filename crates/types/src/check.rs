//! The checks on an answer before it is passed on.

/// A check that recognises an unusable answer without a second model.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// The answer violates the requested format (`response_format`).
    Schema,
    /// It calls an unknown tool, or a tool with arguments that its schema rejects.
    Tools,
    /// It was cut off for its length by a limit that the client did not set.
    Length,
    /// It is a refusal.
    Refusal,
    /// It has no text and no tool calls.
    Empty,
    /// The model was uncertain, by the logprobs that the client requested.
    Logprobs,
    /// It ends in a loop.
    Repetition,
}

impl Check {
    /// All checks, in the order of the documentation.
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
    /// True if the set contains `check`.
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
    fn a_set_contains_the_checks_it_was_made_of() {
        let some = Checks::from_iter([Check::Schema, Check::Repetition, Check::Schema]);
        let has: Vec<_> = Check::ALL.into_iter().filter(|check| some.has(*check)).collect();
        assert_eq!(has, [Check::Schema, Check::Repetition]);
        assert!(Check::ALL.into_iter().all(|check| Checks::from_iter(Check::ALL).has(check)));
    }
}
