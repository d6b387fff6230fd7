//! An error in a value, its position, and suggestions for misspelt words.

use std::borrow::Cow;

use serde_saphyr::{Location, Spanned};

/// A position in the file, in bytes.
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
    /// The position reported by the parser.
    pub(super) fn of(location: &Location) -> Self {
        let span = location.span();
        let bytes = |n: Option<u64>| n.and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        Self { start: bytes(span.byte_offset()), len: bytes(span.byte_len()) }
    }
}

/// An error in a value. Does not repeat the value, which may come from the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The error.
    pub message: Cow<'static, str>,
    /// The remedy.
    pub help: Option<Cow<'static, str>>,
    /// The variables that are not set, if that is the error.
    pub unset: Vec<String>,
}

impl Mistake {
    /// An error without a remedy.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), help: None, unset: Vec::new() }
    }

    /// Adds the remedy.
    #[must_use]
    pub fn help(self, help: impl Into<Cow<'static, str>>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// The candidate most similar to `word`, if one is similar enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    // Each missing character is one edit. The comparison costs the product of both lengths, so hopeless ones are skipped.
    let is_possible = |candidate: &&str| {
        let other = candidate.chars().count();
        length.min(other) * 10 >= length.max(other) * 6
    };
    candidates
        .into_iter()
        .filter(is_possible)
        .map(|candidate| (strsim::normalized_damerau_levenshtein(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_found() {
        assert_eq!(nearest("smal", ["large", "small"]), Some("small"));
        assert_eq!(nearest("xyz", ["large", "small"]), None);
        assert_eq!((nearest("lar", ["large"]), nearest("la", ["large"])), (Some("large"), None), "0.6 is enough");
    }
}
