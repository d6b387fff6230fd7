//! A refusal as the rules see it.

use super::{Refusal, error_words::ErrorWords, phrases::Phrases};

/// An error as the rules see it.
pub(crate) struct Error<'a> {
    /// Its status: of the answer, else the one that the body gives.
    pub(crate) status: Option<u16>,
    /// Its texts.
    texts: Vec<Phrases>,
    codes: &'a [String],
}

impl<'a> Error<'a> {
    pub(crate) fn of(status: Option<u16>, words: &'a ErrorWords) -> Self {
        let texts = words.texts.iter().map(|text| Phrases::of(text)).collect();
        Self { status, texts, codes: &words.codes }
    }

    pub(crate) fn is(&self, refusal: &Refusal) -> bool {
        let is_status = refusal.statuses.is_empty() || self.status.is_some_and(|it| refusal.statuses.contains(&it));
        is_status
            && (refusal.codes.is_empty() || self.has_code(refusal.codes))
            && (refusal.words.is_empty() || self.says(refusal.words))
    }

    /// True if one of its texts has `pattern`.
    pub(crate) fn says(&self, pattern: &str) -> bool {
        self.texts.iter().any(|text| text.say(pattern))
    }

    /// True if one of its texts has `pattern` and nothing of `but`.
    pub(crate) fn says_without(&self, pattern: &str, but: &str) -> bool {
        self.texts.iter().any(|text| text.say(pattern) && !text.say(but))
    }

    /// True if it has one of `codes`, which `|` separates.
    pub(crate) fn has_code(&self, codes: &str) -> bool {
        codes.split('|').any(|code| self.codes.iter().any(|own| own == code))
    }

    /// True if its status is one of `statuses`, or none is known.
    pub(crate) fn may_be(&self, statuses: &[u16]) -> bool {
        self.status.is_none_or(|status| statuses.contains(&status))
    }
}
