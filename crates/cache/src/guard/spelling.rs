//! Normalised spelling: equal for texts that differ only in spaces, punctuation at the ends of words, and case.

use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};
use xxhash_rust::xxh3::Xxh3;

/// Punctuation at the ends of words that does not change the question. All other characters count: `#` is not `##`.
const SIGNS: [char; 14] = ['.', ',', ';', ':', '!', '?', '\'', '"', '’', '‘', '“', '”', '…', '¿'];

/// Hash of the normalised spelling. Words in capitals keep their case: "US" is not "us".
pub(super) fn spelling(text: &str) -> u64 {
    let mut hash = Xxh3::new();
    for word in text.split_whitespace().map(|word| word.trim_matches(SIGNS)).filter(|word| !word.is_empty()) {
        let capitals = word.chars().filter(|c| c.is_uppercase()).count() > 1 && !word.chars().any(char::is_lowercase);
        if capitals {
            hash.update(word.as_bytes());
        } else {
            word.chars().flat_map(char::to_lowercase).for_each(|c| hash.update(c.encode_utf8(&mut [0; 4]).as_bytes()));
        }
        hash.update(b"\n");
    }
    hash.digest()
}

/// A word without its accents; `None` where it has none. Embedders drop accents, so that "schon" and "schön" look the
/// same to them.
pub(super) fn folded(word: &str) -> Option<String> {
    (!word.is_ascii()).then(|| word.nfd().filter(|c| !is_combining_mark(*c)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_insignificant_differences_are_ignored() {
        let alike = |one: &str, other: &str| spelling(one) == spelling(other);
        assert!(alike("What is the capital of France?", "what is  the capital of france"));
        assert!(alike("Hello, world!", "“hello world”"));
        for (one, other) in [
            ("Is it in the US?", "is it in the us?"),
            ("What is # in Python?", "What is ## in Python?"),
            ("What is ~?", "What is ✢?"),
            ("a b", "ab"),
            ("3.5", "35"),
            ("x", "x y"),
        ] {
            assert!(!alike(one, other), "{one} | {other}");
        }
    }
}
