//! Mutually exclusive words: opposites, and members of a set from which a question picks one.
//!
//! "Turn on" and "turn off" lie close together in every embedding, as do "monday" and "tuesday". If the texts have
//! different words of the same line, they ask for different things.

use std::{collections::HashMap, sync::LazyLock};

use super::{
    lemma::lemma,
    lexicon::{hash, known},
};

/// Each line is a set; `/` separates its members, words between two `/` are synonyms. Written for this project.
const SETS: &str = include_str!("lists/opposites.txt");

/// Set and member numbers of a word.
pub(super) type Places = &'static [(u16, u8)];

static PLACES: LazyLock<HashMap<u64, Vec<(u16, u8)>>> = LazyLock::new(|| {
    let mut places: HashMap<u64, Vec<(u16, u8)>> = HashMap::new();
    for (set, line) in SETS.lines().filter(|line| !line.is_empty()).enumerate() {
        for (member, words) in line.split('/').enumerate() {
            for word in words.split_whitespace() {
                let places = places.entry(number(word)).or_default();
                if !places.contains(&(set as u16, member as u8)) {
                    places.push((set as u16, member as u8));
                }
            }
        }
    }
    places
});

/// Builds the list.
pub(super) fn warm_up() {
    LazyLock::force(&PLACES);
}

/// True if the list is built.
pub(super) fn is_warm() -> bool {
    LazyLock::get(&PLACES).is_some()
}

/// Number of a word in the lexicon, the same for all synonyms.
pub(super) fn number(word: &str) -> u64 {
    let stem = lemma(word);
    known(&stem).map_or_else(|| hash(&stem), |known| known.word)
}

/// Sets that contain a word.
pub(super) fn places(word: u64) -> Places {
    PLACES.get(&word).map_or(&[], Vec::as_slice)
}

/// True if two words exclude each other.
pub(super) fn exclude(one: u64, other: u64) -> bool {
    let (one, other) = (places(one), places(other));
    // Words that share a member of some set are synonyms there and exclude nothing.
    let together = one.iter().any(|place| other.contains(place));
    !together && one.iter().any(|(set, member)| other.iter().any(|(also, place)| set == also && member != place))
}

/// Prefixes that reverse or negate the word.
const PREFIXES: [&str; 12] = ["un", "in", "im", "ir", "il", "dis", "non", "de", "anti", "mis", "re", "over"];

/// The word without a prefix or ending that reverses its sense, if it has one.
pub(super) fn turned(stem: &str) -> Option<&str> {
    let prefixed = PREFIXES.iter().filter_map(|prefix| stem.strip_prefix(prefix)).find(|rest| rest.len() >= 4);
    prefixed.or_else(|| stem.strip_suffix("les").or_else(|| stem.strip_suffix("less"))).filter(|rest| rest.len() >= 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opposites_exclude_each_other_in_all_forms() {
        for (one, other) in [
            ("on", "off"),
            ("enabled", "disabling"),
            ("buying", "sold"),
            ("increased", "reduce"),
            ("Monday", "friday"),
            ("cats", "dog"),
            ("advantages", "cons"),
            ("mysql", "postgresql"),
            ("first", "last"),
            ("highest", "lowest"),
            ("cheapest", "costly"),
        ] {
            let (one, other) = (number(&one.to_lowercase()), number(&other.to_lowercase()));
            assert!(exclude(one, other) && exclude(other, one) && !exclude(one, one));
        }
        for (one, other) in [("buy", "purchase"), ("tea", "table"), ("big", "huge"), ("photo", "picture")] {
            assert!(!exclude(number(one), number(other)), "{one} {other}");
        }
        assert_eq!(turned("unsaf"), None);
        assert_eq!(turned("unsubscrib"), Some("subscrib"));
        assert_eq!(turned("tax"), None);
    }
}
