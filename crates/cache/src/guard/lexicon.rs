//! Lexicon of the guards: stop words, light words, synonyms, negations and contractions.
//!
//! All lists were written for this project by reasoning, not from a corpus. They are English, except for negations.
//! Unknown words count as content words, so that a text in another language is compared more strictly and never more
//! loosely.

use std::{collections::HashMap, sync::LazyLock};

use super::lemma::lemma;

/// Weight of a stop word in comparisons.
pub(super) const STOP: f32 = 0.0;
/// Weight of words with little meaning of their own, such as "way" or "really".
pub(super) const LIGHT: f32 = 0.25;
/// Weight of other words.
pub(super) const CONTENT: f32 = 1.0;
/// Weight of names.
pub(super) const NAME: f32 = 1.5;
/// Least weight of words that are more than phrasing.
pub(super) const SOMETHING: f32 = CONTENT - LIGHT / 2.0;

/// Stop words: they join, ask or point, and mean nothing by themselves.
const STOPS: &str = include_str!("lists/stop_words.txt");

/// Light words: texts with and without them may well ask the same.
const LIGHTS: &str = include_str!("lists/light_words.txt");

/// Synonyms by line; the first word represents the others. `_` joins words to a phrase.
const SAME: &str = include_str!("lists/synonyms.txt");

/// Negations. Contractions are expanded before.
const NEGATIONS: &str = "not no never without none nobody nothing nowhere neither nor cannot non hardly barely rarely seldom unable except \
    excluding lacking lack instead \
    nicht kein keine keinen keiner nie niemals ohne pas jamais sans aucun aucune ningún ninguna nunca jamás sin não nunca sem \
    non mai senza niet geen nooit zonder не нет без никогда inte ingen aldrig utan ikke uden";

/// Words that reverse what follows, like a negation; two of them roughly cancel out.
const REVERSERS: &str =
    "avoid prevent stop quit refuse fail forbid ban prohibit oppose reject deny cancel block exclude ignore";

/// Words of quantity.
const QUANTIFIERS: &str = "only all always every each everything entire both half least few less fewer fewest almost mostly \
    sometimes often once twice own someone everyone everybody";

/// Contractions of two words; the apostrophe may be missing.
const CONTRACTIONS: &str = include_str!("lists/contractions.txt");

/// Lexicon entry of a word.
#[derive(Copy, Clone, Debug)]
pub(super) struct Known {
    /// Hash of the word that represents its synonyms.
    pub(super) word: u64,
    pub(super) weight: f32,
    pub(super) negation: bool,
    pub(super) reverser: bool,
    pub(super) quantifier: bool,
}

struct Lexicon {
    words: HashMap<String, Known>,
    /// Phrases by their first word, each with its other words and the representing word.
    phrases: HashMap<String, Vec<(Vec<String>, String)>>,
    contractions: HashMap<&'static str, Vec<&'static str>>,
}

static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| {
    let mut words: HashMap<String, Known> = HashMap::new();
    let mut phrases: HashMap<String, Vec<(Vec<String>, String)>> = HashMap::new();
    let blank =
        |word: &str| Known { word: hash(word), weight: CONTENT, negation: false, reverser: false, quantifier: false };
    for line in SAME.lines().filter(|line| !line.is_empty()) {
        let first = line.split(' ').next().unwrap_or_default();
        let stands = lemma(first).into_owned();
        for each in line.split(' ') {
            if let Some((head, rest)) = each.split_once('_') {
                phrases
                    .entry(head.to_owned())
                    .or_default()
                    .push((rest.split('_').map(str::to_owned).collect(), first.to_owned()));
            } else {
                words.entry(lemma(each).into_owned()).or_insert_with(|| blank(&stands));
            }
        }
    }
    // Longest phrase first.
    for rests in phrases.values_mut() {
        rests.sort_by_key(|(rest, _)| std::cmp::Reverse(rest.len()));
    }
    for (list, weight) in [(LIGHTS, LIGHT), (STOPS, STOP)] {
        for word in list.split_whitespace() {
            let stem = lemma(word).into_owned();
            let known = *words.entry(stem.clone()).or_insert_with(|| blank(&stem));
            // A representing word has the same weight as its synonyms.
            words.values_mut().filter(|other| other.word == known.word).for_each(|other| other.weight = weight);
        }
    }
    let mut mark = |list: &str, set: fn(&mut Known)| {
        for word in list.split_whitespace() {
            let stem = lemma(word).into_owned();
            set(words.entry(stem.clone()).or_insert_with(|| blank(&stem)));
        }
    };
    mark(NEGATIONS, |known| (known.negation, known.weight) = (true, STOP));
    mark(REVERSERS, |known| known.reverser = true);
    mark(QUANTIFIERS, |known| (known.quantifier, known.weight) = (true, LIGHT));
    let contractions = CONTRACTIONS
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(short, long)| (short, long.split(' ').collect()))
        .collect();
    Lexicon { words, phrases, contractions }
});

/// Builds the list.
pub(super) fn warm_up() {
    LazyLock::force(&LEXICON);
}

/// True if the list is built.
pub(super) fn is_warm() -> bool {
    LazyLock::get(&LEXICON).is_some()
}

/// Hash of a word. Equal in every build.
pub(super) fn hash(word: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(word.as_bytes())
}

/// Entry of a base form.
pub(super) fn known(stem: &str) -> Option<Known> {
    LEXICON.words.get(stem).copied()
}

/// Phrase that begins with `first` and continues with `rest`: the number of words of `rest` it takes, and its meaning.
pub(super) fn phrase<'a>(first: &str, rest: &(impl Iterator<Item = &'a str> + Clone)) -> Option<(usize, &'static str)> {
    let lexicon = &*LEXICON;
    let (words, means) = lexicon
        .phrases
        .get(first)?
        .iter()
        .find(|(words, _)| rest.clone().take(words.len()).eq(words.iter().map(String::as_str)))?;
    Some((words.len(), means))
}

/// Words of a contraction.
pub(super) fn contraction(word: &str) -> Option<&'static [&'static str]> {
    LEXICON.contractions.get(word).map(Vec::as_slice)
}

/// Distinguishes abbreviations in capitals from the same letters in lower case.
pub(super) fn acronym(word: &str) -> String {
    match word {
        "US" | "USA" => "usa".to_owned(),
        "IT" | "WHO" | "ME" | "IN" | "AM" | "UP" => format!("{word} in capitals"),
        _ => word.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synonyms_have_one_number_and_one_weight() {
        let of = |word: &str| known(&lemma(word)).unwrap();
        assert_eq!(of("purchasing").word, of("buy").word);
        assert_eq!(of("approaches").word, of("ways").word);
        assert!((of("technique").weight - LIGHT).abs() < 1e-6 && of("without").negation && of("prevents").reverser);
        assert_eq!(phrase("turn", &["on", "it"].into_iter()), Some((1, "enable")));
        assert_eq!(phrase("united", &["states", "of", "america"].into_iter()), Some((3, "usa")));
        assert_eq!(contraction("don't"), Some(["do", "not"].as_slice()));
    }
}
