//! Normalised spelling: equal for texts that differ only in spaces, punctuation at the ends of words, and case.

use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

/// Punctuation at the ends of words that does not change the question. All other characters count: `#` is not `##`.
const SIGNS: [char; 14] = ['.', ',', ';', ':', '!', '?', '\'', '"', '’', '‘', '“', '”', '…', '¿'];

/// Letters of the shortest word that may be misspelt, and the most misspelt words of a text.
const LONG: usize = 5;
const MISSPELT: usize = 2;

/// The normalised spelling: words in lower case, each ended by a line break. Words in capitals keep their case, "US" is not
/// "us", unless all are.
pub(super) fn spelling(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    let shouted = text.split_whitespace().nth(2).is_some() && !text.chars().any(char::is_lowercase);
    for word in text.split_whitespace().map(|word| word.trim_matches(SIGNS)).filter(|word| !word.is_empty()) {
        let capitals = word.chars().filter(|c| c.is_uppercase()).count() > 1 && !word.chars().any(char::is_lowercase);
        if capitals && !shouted {
            normal.push_str(word);
        } else {
            normal.extend(word.chars().flat_map(char::to_lowercase));
        }
        normal.push('\n');
    }
    normal
}

/// True if two spellings differ in misspelt words alone: a slip of one letter that makes a word which nobody `knows` of
/// one that is known. "Desert" is no slip of "dessert".
pub(super) fn is_misspelt(one: &str, other: &str, knows: &dyn Fn(&str) -> bool) -> bool {
    let (mut ones, mut others, mut slips) = (one.lines(), other.lines(), 0);
    loop {
        match (ones.next(), others.next()) {
            (None, None) => return slips > 0,
            (Some(one), Some(other)) if one == other => {}
            (Some(one), Some(other)) if slips < MISSPELT && is_slip(one, other) && knows(one) != knows(other) => {
                slips += 1;
            }
            _ => return false,
        }
    }
}

/// True if one letter is missing, doubled, replaced, or exchanged with the next.
fn is_slip(one: &str, other: &str) -> bool {
    let letters = |word: &str| word.len() >= LONG && word.bytes().all(|byte| byte.is_ascii_lowercase());
    if !letters(one) || !letters(other) || one.len().abs_diff(other.len()) > 1 {
        return false;
    }
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    let (short, long) = (short.as_bytes(), long.as_bytes());
    let start = short.iter().zip(long).take_while(|(short, long)| short == long).count();
    let end = short.iter().rev().zip(long.iter().rev()).take_while(|(short, long)| short == long).count();
    let end = end.min(short.len() - start);
    match (short.len() - start - end, long.len() - start - end) {
        (0 | 1, 1) => true,
        (2, 2) => short[start] == long[start + 1] && short[start + 1] == long[start],
        _ => false,
    }
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
        assert!(alike("WHERE IS THE US?", "where is the us"));
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

    #[test]
    fn slips_of_one_letter_are_misspelt_words() {
        let known = ["password", "where", "dessert", "desert", "change", "the", "from", "form", "united", "untied"];
        let found = |one: &str, other: &str| {
            let is_known = |word: &str| known.contains(&word);
            let found = is_misspelt(&spelling(one), &spelling(other), &is_known);
            assert_eq!(found, is_misspelt(&spelling(other), &spelling(one), &is_known), "{one} | {other}");
            found
        };
        for slip in ["pasword", "passsword", "passwrod", "passwprd", "passwor"] {
            assert!(found("change the password", &format!("change the {slip}")), "{slip}");
        }
        assert!(found("change the password", "chnage the pasword"));
        for (one, other) in [
            ("the desert", "the dessert"),
            ("the password", "the pword"),
            ("password 14", "password 15"),
            ("change the password", "change the passwords twice"),
            ("united", "untied"),
            ("from", "form"),
            ("change the password", "change the password"),
            ("xylitol", "xilitol"),
        ] {
            assert!(!found(one, other), "{one} | {other}");
        }
    }
}
