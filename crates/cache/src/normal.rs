//! The part of a text that asks: without greetings, thanks and words that only open a question. Texts that differ in
//! nothing else are one question, so they are compared and embedded without them.
//!
//! Only what stands apart is left out: "Hi, …", "… Thanks!", "Can you tell me how …". In "How do I say thanks" and
//! "Print hello world" nothing does.

/// Greetings and other openings that end with a mark, or stand before a question.
const GREETINGS: [&str; 30] = [
    "hi there",
    "hi all",
    "hi team",
    "hello there",
    "hey there",
    "good morning",
    "good afternoon",
    "good evening",
    "good day",
    "dear sir or madam",
    "dear team",
    "quick question",
    "i have a question",
    "i have a quick question",
    "one question",
    "sorry to bother you",
    "excuse me",
    "hi",
    "hello",
    "hey",
    "greetings",
    "please",
    "guten tag",
    "guten morgen",
    "hallo",
    "moin",
    "bonjour",
    "salut",
    "hola",
    "ciao",
];
/// Words before a question that only open it.
const OPENINGS: [&str; 22] = [
    "can you please tell me",
    "could you please tell me",
    "can you tell me",
    "could you tell me",
    "would you tell me",
    "can anyone tell me",
    "please tell me",
    "tell me",
    "please let me know",
    "let me know",
    "i would like to know",
    "i'd like to know",
    "i want to know",
    "i need to know",
    "i was wondering",
    "i am wondering",
    "i'm wondering",
    "i wonder",
    "just wondering",
    "do you know",
    "does anyone know",
    "may i ask",
];
/// Thanks and the like behind a question.
const ENDINGS: [&str; 21] = [
    "thank you very much",
    "thank you so much",
    "thank you in advance",
    "thanks in advance",
    "thanks a lot",
    "many thanks",
    "thank you",
    "thanks",
    "thx",
    "ty",
    "cheers",
    "please",
    "pls",
    "plz",
    "danke",
    "vielen dank",
    "bitte",
    "merci",
    "gracias",
    "por favor",
    "grazie",
];
/// Endings that no one asks about, so that they need no mark before them.
const SHORT: [&str; 3] = ["thx", "pls", "plz"];
/// First words of questions.
const ASKING: &str = "what which how why when where who whose whom is are was were am do does did can could should would \
    will has have may if whether my i what's where's who's how's when's i'm i've wie was wo wann warum wer comment où quand pourquoi \
    quel quelle cómo qué dónde cuándo";

/// The part of `text` that asks; all of it where nothing else would be left.
pub fn normal(text: &str) -> &str {
    let mut rest = text.trim();
    while let Some(shorter) = without_opening(rest).or_else(|| without_ending(rest)) {
        rest = shorter;
    }
    if rest.split_whitespace().nth(1).is_some() { rest } else { text }
}

fn without_opening(text: &str) -> Option<&str> {
    let after = |phrase: &&str| {
        let rest = text.get(phrase.len()..).filter(|_| begins(text, phrase))?;
        let marks = rest.trim_start_matches([',', '.', '!', ':', ';', '-', '–']).trim_start();
        let (marked, apart) = (rest.starts_with([',', '.', '!', ':', ';']), rest.starts_with([' ', '\n']));
        let asks = first_word(marks).is_some_and(|word| is_listed(word, ASKING));
        (!marks.is_empty() && (marked || apart && asks)).then_some((marks, asks))
    };
    GREETINGS
        .iter()
        .find_map(|phrase| after(phrase).map(|(rest, _)| rest))
        .or_else(|| OPENINGS.iter().find_map(|phrase| after(phrase).filter(|(_, asks)| *asks).map(|(rest, _)| rest)))
}

fn without_ending(text: &str) -> Option<&str> {
    let bare = text.trim_end_matches(['.', '!', '?', ' ', '\n', ')', ':', ';', ',']);
    ENDINGS.iter().find_map(|phrase| {
        let start = bare.len().checked_sub(phrase.len()).filter(|start| bare.is_char_boundary(*start))?;
        let before = bare[..start].trim_end();
        let marked = before.ends_with(['.', '!', '?', ',', ';']) || bare[..start].ends_with('\n');
        let apart = before.len() < start && (marked || SHORT.contains(phrase));
        let same = bare[start..].eq_ignore_ascii_case(phrase);
        (same && apart && !before.is_empty()).then(|| before.trim_end_matches([',', ';']))
    })
}

fn begins(text: &str, phrase: &str) -> bool {
    text.get(..phrase.len()).is_some_and(|start| start.eq_ignore_ascii_case(phrase))
}

fn first_word(text: &str) -> Option<&str> {
    text.split(|c: char| c.is_whitespace() || ",.!?:;".contains(c)).next().filter(|word| !word.is_empty())
}

fn is_listed(word: &str, list: &str) -> bool {
    let lower = word.to_lowercase().replace('’', "'");
    list.split(' ').any(|listed| listed == lower)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_only_surrounds_a_question_is_left_out() {
        for text in [
            "How do I renew a lease?",
            "Hi, How do I renew a lease?",
            "Hello there! How do I renew a lease?",
            "Good morning, can you tell me How do I renew a lease?",
            "How do I renew a lease? Thanks in advance!",
            "How do I renew a lease?\nthank you",
            "Quick question: How do I renew a lease? thx",
        ] {
            assert_eq!(normal(text), "How do I renew a lease?", "{text}");
        }
        assert_eq!(normal("how do I renew a lease, please?"), "how do I renew a lease");
        assert_eq!(normal("Hi what is rye"), "what is rye");
    }

    #[test]
    fn words_that_are_asked_about_stay() {
        for text in [
            "How do I say thanks",
            "Print hello world",
            "Hello world in Rust",
            "Translate \"thank you\"",
            "Do you know kung fu?",
            "Tell me about rye and spelt",
            "What is the meaning of please",
            "Hi",
            "Thanks!",
            "hey, thanks",
        ] {
            assert_eq!(normal(text), text, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_part_of_the_text_remains(text in "(hi|thanks|please|can you tell me|how|,|\\.|\\?| |é|\n|word){0,20}") {
            let rest = normal(&text);
            prop_assert!(text.contains(rest) && (!rest.trim().is_empty() || text.trim().is_empty()));
            prop_assert_eq!(normal(rest), rest);
        }
    }
}
