//! A mistake in a part of a condition.

use std::{fmt::Display, ops::Range};

/// A mistake in a part of a condition, with its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The part, in bytes of the condition's text.
    pub range: Range<usize>,
    /// The mistake.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
}

impl Mistake {
    pub(super) fn new(range: Range<usize>, message: impl Into<String>) -> Self {
        Self { range, message: message.into(), help: None }
    }

    #[must_use]
    pub(super) fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// Suggests the word that was probably meant, or all possible ones.
    #[must_use]
    pub(super) fn meant(self, meant: Option<impl Display>, otherwise: impl Into<String>) -> Self {
        match meant {
            Some(meant) => self.help(format!("did you mean `{meant}`?")),
            None => self.help(otherwise),
        }
    }
}
