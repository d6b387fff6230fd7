//! The share of a conversation's last question that stands for itself. "Yes, continue" is as hard as what is continued; a new
//! question is as hard as it is alone, however long the conversation.
//!
//! A follow-up is short and refers back. Words that refer back are listed by reason, as the cues are.

use std::{collections::HashMap, sync::LazyLock};

/// The weight below which earlier turns are not read.
const LEAST: f32 = 0.1;
/// A question of one word says nothing alone, one of four stands for itself.
const WHOLE: usize = 3;
/// The words that a reference outweighs.
const REFERENCE: usize = 4;
/// References that count; a long question stands for itself whatever it refers to.
const REFERENCES: usize = 2;
/// Words that may follow where an offer is accepted.
const ASSENT: usize = 5;
/// Bytes of the longest listed word.
const LONGEST: usize = 32;
/// Bytes from which a question stands for itself.
const LONG: usize = 256;

#[derive(Copy, Clone, PartialEq, Eq)]
enum Sort {
    /// Accepts an offer if it comes first.
    Assent,
    /// Says nothing of its own.
    Filler,
    /// Refers back if it comes first.
    Opening,
    /// Refers back.
    Back,
    /// Ends what was before.
    End,
}

const WORDS: [(Sort, &str); 5] = [
    (Sort::Assent, "yes yeah yep ja oui sí sim да"),
    (
        Sort::Filler,
        "no ok okay great perfect cool right alright please nein gut bitte non vale perfecto favor bene нет хорошо \
         пожалуйста",
    ),
    (
        Sort::Opening,
        "and or but so then now und oder aber dann jetzt nun et ou mais alors maintenant puis y o pero ahora entonces e ma \
         ora poi mas agora então а и но теперь тогда",
    ),
    (
        Sort::Back,
        "continue proceed going ahead option that again same instead also another other others more further elaborate rest previous above \
         earlier step part point it its they them those these shorter longer simpler rewrite redo retry sure wrong \
         weiter weitere nochmal noch gleiche dasselbe stattdessen andere anderes mehr vorherige oben schritt teil kürzer \
         falsch continuez encore pareil même autre plus suite précédent étape partie plutôt continúa sigue siga otra otro \
         mismo más anterior paso parte continua ancora stesso altro altra più precedente passo outra outro mesmo mais \
         продолжай продолжайте дальше ещё еще снова опять самое другой другую предыдущий шаг часть",
    ),
    (
        Sort::End,
        "thanks thank bye goodbye cheers danke tschüss merci gracias adiós grazie ciao obrigado obrigada спасибо пока",
    ),
];

/// References in scripts without spaces.
const UNSPACED: [&str; 16] = [
    "好的",
    "お願い",
    "そうして",
    "继续",
    "繼續",
    "还有",
    "再",
    "那么",
    "上面",
    "刚才",
    "同样",
    "続け",
    "もっと",
    "もう",
    "それ",
    "同じ",
];

static SORTS: LazyLock<HashMap<&str, Sort>> = LazyLock::new(|| {
    WORDS.iter().flat_map(|(sort, words)| words.split_whitespace().map(move |word| (word, *sort))).collect()
});

/// Builds the table.
pub(super) fn warm_up() {
    LazyLock::force(&SORTS);
}

/// True if the table is built.
pub(super) fn is_warm() -> bool {
    LazyLock::get(&SORTS).is_some()
}

/// The weights of `earlier` turns, the latest first, beside the question `text`. A turn that refers back in its turn
/// passes its weight on.
pub(super) fn weights<'a>(text: &str, earlier: impl Iterator<Item = &'a str>) -> impl Iterator<Item = (&'a str, f32)> {
    let mut left = 1.0 - independence(text);
    earlier.map_while(move |turn| {
        let weight = left * independence(turn);
        let turn = (left >= LEAST).then_some((turn, weight));
        left -= weight;
        turn
    })
}

/// From 0, for a text that says nothing without what was before, to 1.
fn independence(text: &str) -> f32 {
    if text.len() >= LONG {
        return 1.0;
    }
    let (mut words, mut unspaced, mut back, mut ends, mut after_is) = (0, 0, 0, false, false);
    let mut assents = None;
    for word in text.split(|letter: char| !letter.is_alphabetic() && letter != '\'').filter(|word| !word.is_empty()) {
        if matches!(word.as_bytes()[0], 0xE3..=0xEF) {
            unspaced += word.chars().count();
            continue;
        }
        let sort = sort(word);
        assents.get_or_insert(sort == Some(Sort::Assent));
        match sort {
            Some(Sort::Filler | Sort::Assent) => continue,
            // In "is it" nothing is referred to.
            Some(Sort::Back) if !(after_is && word == "it") => back += 1,
            Some(Sort::Opening) if words == 0 => back += 1,
            Some(Sort::End) => ends = true,
            _ => words += 1,
        }
        after_is = word.eq_ignore_ascii_case("is");
    }
    if unspaced > 0 {
        words += unspaced / 2;
        back += UNSPACED.iter().filter(|word| text.contains(**word)).count();
    }
    if ends && back == 0 {
        return 1.0;
    }
    if assents == Some(true) && words <= ASSENT && !text.contains(['?', '\u{ff1f}']) {
        return 0.0;
    }
    (words.saturating_sub(1 + REFERENCE * back.min(REFERENCES)) as f32 / WHOLE as f32).min(1.0)
}

/// Looks a word up in lower case.
fn sort(word: &str) -> Option<Sort> {
    let (mut lower, mut length) = ([0; LONGEST], 0);
    for letter in word.chars().flat_map(char::to_lowercase) {
        let end = length + letter.len_utf8();
        letter.encode_utf8(lower.get_mut(length..end)?);
        length = end;
    }
    SORTS.get(std::str::from_utf8(&lower[..length]).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{Features, Weights, score},
        *,
    };
    use signalbox_types::Outline;

    const HARD: &str = "Design a lock service that survives partitions, and prove that it is safe and live.";
    const EASY: &str = "What is the capital of Norway?";

    fn scored(turns: &[&str]) -> f64 {
        let (last, earlier) = turns.split_last().unwrap();
        let mut outline = Outline::of_text(last);
        outline.earlier_turns = earlier.iter().rev().flat_map(|turn| [turn, "\0"]).collect();
        score(&Features::of(&outline), Weights::built_in()).score
    }

    #[test]
    fn a_follow_up_is_as_hard_as_what_it_follows() {
        for follow_up in [
            "Yes, continue.",
            "do the same for the second part",
            "ja, weiter",
            "продолжай",
            "请继续",
            "why?",
            "yes, go ahead",
            "sounds good, do that",
            "yes that would be great",
            "the second option please",
        ] {
            for before in [HARD, EASY] {
                let alone = scored(&[before]);
                assert!((scored(&[before, follow_up]) - alone).abs() < 0.05, "{follow_up} after {before}");
                assert!((scored(&[before, "ok", follow_up]) - alone).abs() < 0.05, "{follow_up} after ok");
            }
        }
        assert!(scored(&[HARD, "and now in Python"]) > scored(&[EASY, "and now in Python"]) + 0.3);
    }

    #[test]
    fn a_new_question_is_as_hard_as_it_is_alone() {
        for question in ["Thanks! What's the capital of France?", "thank you", "what time is it in Tokyo?", HARD] {
            for before in [HARD, EASY] {
                let many = [[before, "continue"]; 20].concat();
                for earlier in [&[before][..], &many] {
                    let turns = [earlier, &[question]].concat();
                    assert!((scored(&turns) - scored(&[question])).abs() < 1e-9, "{question} after {before}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn weights_are_shares(text in "(it|and|ok|thanks|再|Prove|[a-z é]{1,9}| ){0,30}", turns in prop::collection::vec("[a-z ]{0,30}", 0..9)) {
            let weights: Vec<f32> = weights(&text, turns.iter().map(|turn| &**turn)).map(|(_, weight)| weight).collect();
            prop_assert!(weights.iter().all(|weight| (0.0..=1.0).contains(weight)));
            prop_assert!(weights.iter().sum::<f32>() <= 1.0 + 1e-6);
        }
    }
}
