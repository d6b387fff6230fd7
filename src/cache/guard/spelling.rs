//! Texts that are spelled alike: equal but for spaces, the signs at the ends of words, and case.

use xxhash_rust::xxh3::Xxh3;

/// Signs at the ends of words that change nothing about what is asked. All others count: `#` is not `##`.
const SIGNS: [char; 14] = ['.', ',', ';', ':', '!', '?', '\'', '"', '’', '‘', '“', '”', '…', '¿'];

/// A hash that is equal for texts that are spelled alike. Words in capitals keep their case: "US" is not "us".
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_means_nothing_is_overlooked() {
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
