//! Recognises a refusal by the beginning of a text: a short list of phrases in eight languages.
//!
//! Does not judge whether the refusal was justified. A phrase further on, or one that is not listed, is not recognised.

/// The longest beginning that is checked, in bytes.
const BEGINNING: usize = 400;

/// Openers that may precede the phrase, in any number; one per line.
const OPENERS: &str = include_str!("refusal/openers.txt");

/// Phrases of refusal, one per line.
const PHRASES: &str = include_str!("refusal/phrases.txt");

/// True if `text` begins with a refusal. An incomplete phrase does not count.
pub(super) fn declines(text: &str) -> bool {
    let text = normalised(text);
    let mut rest = skip_punctuation(&text);
    while let Some(after) =
        OPENERS.lines().find_map(|opener| rest.strip_prefix(opener)).filter(|after| at_word_end(after))
    {
        rest = skip_punctuation(after);
    }
    PHRASES.lines().any(|phrase| rest.starts_with(phrase))
}

/// The beginning of the text without hidden reasoning, in lower case, with plain apostrophes.
fn normalised(text: &str) -> String {
    let text = text.trim_start();
    let spoken =
        text.strip_prefix("<think>").map_or(text, |thought| thought.split_once("</think>").map_or("", |it| it.1));
    let mut end = spoken.len().min(BEGINNING);
    while !spoken.is_char_boundary(end) {
        end -= 1;
    }
    spoken[..end].to_lowercase().replace('\u{2019}', "'")
}

/// The text after leading spaces and punctuation.
fn skip_punctuation(text: &str) -> &str {
    text.trim_start_matches(|c: char| !c.is_alphanumeric())
}

/// True if a word ended here. Chinese and Japanese do not separate words.
fn at_word_end(rest: &str) -> bool {
    rest.chars().next().is_none_or(|c| !c.is_alphanumeric() || !c.is_ascii() && c > '\u{2e80}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_recognised_by_their_beginning() {
        for text in [
            "I'm sorry, but I can't help with that.",
            "  **Sorry**, I cannot assist with this request.",
            "I\u{2019}m sorry, but I\u{2019}m unable to do so",
            "As an AI language model, I do not have opinions.",
            "Unfortunately, I am not able to open links.",
            "<think>\nHe wants the key.\n</think>\n\nI can't provide that.",
            "Es tut mir leid, aber ich kann dabei nicht helfen.",
            "Désolé, mais je ne peux pas répondre à cette question.",
            "Lo siento, pero no puedo ayudarte con eso.",
            "很抱歉，我无法回答这个问题。",
        ] {
            assert!(declines(text), "{text}");
        }
    }

    #[test]
    fn other_answers_are_not() {
        for text in [
            "",
            "I'm sorry to hear that. Have you tried turning it off?",
            "Sorry",
            "Sorryful is not a word.",
            "I can help with that!",
            "The phrase \"I can't help with that\" is common.",
            "You can't assist them from here, but",
            "<think>I can't help with that",
            "Leider regnet es morgen.",
            "\u{e4}\u{20ac}",
        ] {
            assert!(!declines(text), "{text}");
        }
        assert!(!declines(&"\u{20ac}".repeat(1_000)), "cut between characters");
    }
}
