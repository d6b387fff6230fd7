//! The form of a profile: everything that is peculiar to one engine or provider.

use super::Verdict;

/// Facts about one engine or provider.
#[derive(Copy, Clone, Debug)]
pub struct Profile {
    /// Its name in documents.
    pub name: &'static str,
    /// Wordings and codes of its refusals that the general rules do not cover, or would read otherwise.
    pub refusals: &'static [Refusal],
}

/// A kind of refusal, recognised by its code or its words.
#[derive(Copy, Clone, Debug)]
pub struct Refusal {
    /// Verdict on it.
    pub verdict: Verdict,
    /// Statuses it comes with; empty for any.
    pub statuses: &'static [u16],
    /// Codes, of which the error has one, in lower-case letters and digits, separated by `|`; empty for any.
    pub codes: &'static str,
    /// Words of its text: groups separated by `&`, all of which it has; alternatives within one by `|`. Empty for any.
    pub words: &'static str,
}

impl Refusal {
    /// A refusal with one of `codes`.
    pub(crate) const fn coded(verdict: Verdict, codes: &'static str) -> Self {
        Self { verdict, statuses: &[], codes, words: "" }
    }

    /// A refusal with `words`.
    pub(crate) const fn said(verdict: Verdict, words: &'static str) -> Self {
        Self { verdict, statuses: &[], codes: "", words }
    }

    /// The same, with one of `statuses` only.
    pub(crate) const fn at(self, statuses: &'static [u16]) -> Self {
        Self { statuses, ..self }
    }
}
