//! Splits texts into the pieces that OpenAI's encodings encode apart, as tiktoken's patterns do.

use regex::Regex;

/// A pattern of tiktoken, without its last alternatives for white space, `\s+(?!\S)|\s+`, which need to look ahead.
#[derive(Debug)]
pub(super) struct Splitter(Regex);

impl Splitter {
    pub(super) fn cl100k() -> Self {
        Self::new(&[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
            r"[^\r\n\p{L}\p{N}]?\p{L}+",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n]*",
            r"\s*[\r\n]+",
        ])
    }

    pub(super) fn o200k() -> Self {
        Self::new(&[
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
        ])
    }

    fn new(alternatives: &[&str]) -> Self {
        // At the end of a text, all of its white space is one piece.
        Self(Regex::new(&format!(r"\A(?:{}|\s+$)", alternatives.join("|"))).expect("a pattern that tests use"))
    }

    /// The pieces of a text, in order; joined, they are the text.
    pub(super) fn pieces<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a str> {
        let mut rest = text;
        std::iter::from_fn(move || {
            let first = rest.chars().next()?;
            let end = self.0.find(rest).map_or_else(|| space(rest, first), |found| found.end());
            let (piece, after) = rest.split_at(end);
            rest = after;
            Some(piece)
        })
    }
}

/// The length of a piece of white space before other text. The last character belongs to that text, where there are
/// others before it.
fn space(text: &str, first: char) -> usize {
    let run = &text[..text.len() - text.trim_start().len()];
    match run.char_indices().next_back() {
        Some((last, _)) if last > 0 => last,
        _ => first.len_utf8(),
    }
}
