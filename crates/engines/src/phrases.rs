//! Phrases in the text of an error, compared without case, punctuation and numbers.

use memchr::memmem;

/// Longest part of a text that is compared, in bytes. Engines say what is wrong first; some quote the request after it.
const LONGEST: usize = 2_000;

/// Text of an error as lower-case words with one space around each.
///
/// Numbers become `#`, `<=` becomes `le` and `>` becomes `gt`. Apostrophes within a word are dropped, and all other
/// punctuation separates words. Han characters stay next to each other.
#[derive(Debug, Default)]
pub(crate) struct Phrases(String);

/// Appends a digit. One within a name is part of it: `utf8`, but not `4096` and `5000.0`.
fn push_digit(words: &mut String, digit: char, before: char) {
    match (words.ends_with('#'), before.is_alphabetic()) {
        (true, _) => {}
        (false, true) => words.push(digit),
        (false, false) => words.push('#'),
    }
}

impl Phrases {
    /// Normalizes `text`.
    pub(crate) fn of(text: &str) -> Self {
        let end = text.floor_char_boundary(LONGEST.min(text.len()));
        let mut words = String::with_capacity(end + 2);
        words.push(' ');
        let mut before = ' ';
        let mut characters = text[..end].chars().peekable();
        while let Some(character) = characters.next() {
            let next = characters.peek().copied().unwrap_or(' ');
            match character {
                '\'' | '\u{2019}' if before.is_alphabetic() && next.is_alphabetic() => {}
                '0'..='9' => {
                    push_digit(&mut words, character, before);
                }
                '.' | ',' if words.ends_with('#') && next.is_ascii_digit() => {}
                '<' if next == '=' => words.push_str(" le "),
                '\u{2264}' => words.push_str(" le "),
                '>' => words.push_str(" gt "),
                _ if character.is_alphanumeric() => {
                    words.push_str(if words.ends_with('#') { " " } else { "" });
                    words.extend(character.to_lowercase());
                }
                _ => words.push(' '),
            }
            before = character;
        }
        words.push(' ');
        let mut spaced = String::with_capacity(words.len());
        for character in words.chars() {
            if character != ' ' || !spaced.ends_with(' ') {
                spaced.push(character);
            }
        }
        Self(spaced)
    }

    /// True if the text has each group of `pattern`. Groups are separated by `&`, the alternatives within one by `|`. An
    /// alternative is a sequence of whole words; a `*` at its end stands for the rest of the last word.
    pub(crate) fn say(&self, pattern: &str) -> bool {
        pattern.split('&').all(|group| group.split('|').any(|alternative| self.has(alternative.trim())))
    }

    fn has(&self, phrase: &str) -> bool {
        let (phrase, is_open) = phrase.strip_suffix('*').map_or((phrase, false), |start| (start, true));
        let text = self.0.as_bytes();
        // Han characters are not separated by spaces.
        let is_word = phrase.is_ascii();
        memmem::find_iter(text, phrase.as_bytes()).any(|at| {
            let is_start = !is_word || text[at - 1] == b' ';
            is_start && (!is_word || is_open || text.get(at + phrase.len()) == Some(&b' '))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_compared_by_its_words() {
        let text = Phrases::of("The model's `max_model_len` (4,096.0) is <= 5000: 99tokens,utf8 \u{2019}");
        assert_eq!(text.0, " the models max model len # is le # # tokens utf8 ");
        assert!(text.say("max model len & models") && text.say("nothing|max mod*") && !text.say("max mod"));
        assert!(!text.say("he model*") && !text.say("models & nothing"));
        assert!(Phrases::of("您的账户已欠费，请充值").say("欠费"));
        assert!(!Phrases::of("").say("a") && !Phrases::of("\u{20ac}").say("a"));
    }
}
