//! A mistake in a value, the place of a value, and the word that was likely meant: what every reader of values needs.

use std::borrow::Cow;

use serde_saphyr::{Location, Spanned};

/// Where something stands in the file, in bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Offset of its first byte.
    pub start: usize,
    /// Its length.
    pub len: usize,
}

impl<T> From<&Spanned<T>> for At {
    fn from(spanned: &Spanned<T>) -> Self {
        Self::of(&spanned.referenced)
    }
}

impl At {
    /// The place that the parser names.
    pub(super) fn of(location: &Location) -> Self {
        let span = location.span();
        let bytes = |n: Option<u64>| n.and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        Self { start: bytes(span.byte_offset()), len: bytes(span.byte_len()) }
    }
}

/// What is wrong with a value, without saying the value: it may have come from the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// What is wrong.
    pub message: Cow<'static, str>,
    /// How to mend it.
    pub help: Option<Cow<'static, str>>,
}

impl Mistake {
    /// A mistake without a mend.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), help: None }
    }

    /// With a way to mend it.
    #[must_use]
    pub fn help(self, help: impl Into<Cow<'static, str>>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// The candidate most like `word`, where one is near enough to be meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::normalized_damerau_levenshtein(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found() {
        assert_eq!(nearest("smal", ["large", "small"]), Some("small"));
        assert_eq!(nearest("xyz", ["large", "small"]), None);
    }
}
