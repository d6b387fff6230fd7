//! Texts that are the same but for what stands in one place: "How do I cancel an order?", "How do I change an order?".
//!
//! Their vectors lie close together, and yet the word that differs is mostly what is asked about. Paraphrases differ in
//! more places, or in words without a meaning of their own.

use super::{
    lemma::lemma,
    lexicon::{self, CONTENT, hash},
};

/// Words in that place, and those of them that mean something.
const PLACE: usize = 3;
const MOST: usize = 2;

/// True if exactly one place differs, and each text has something of its own there. `one` and `other` are normalised
/// spellings.
pub(super) fn is_replaced(one: &str, other: &str) -> bool {
    let (one, other) = (words(one), words(other));
    let start = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let (one, other) = (&one[start..], &other[start..]);
    let end = one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count();
    let end = end.min(one.len()).min(other.len());
    let places = [one, other].map(|words| &words[..words.len() - end]);
    let [one, other] = places.map(content);
    start + end > 0
        && one != other
        && places.iter().all(|place| place.len() <= PLACE)
        && [one, other].iter().all(|place| (1..=MOST).contains(&place.len()))
}

/// The words of a spelling, without those that never change a question.
fn words(spelling: &str) -> Vec<&str> {
    let whole = spelling.lines().flat_map(|word| match lexicon::contraction(word) {
        Some(parts) => parts.to_vec(),
        None => vec![word],
    });
    whole.filter(|word| !matches!(*word, "a" | "an" | "the" | "please")).collect()
}

/// The meanings of the words that have one, in any order.
fn content(words: &[&str]) -> Vec<u64> {
    let mut meanings: Vec<u64> = words
        .iter()
        .filter_map(|word| {
            let stem = lemma(word);
            match lexicon::known(&stem) {
                Some(known) => (known.weight >= CONTENT).then_some(known.word),
                None => Some(hash(&stem)),
            }
        })
        .collect();
    meanings.sort_unstable();
    meanings
}

#[cfg(test)]
mod tests {
    use super::{super::spelling::spelling, *};

    #[test]
    fn only_one_place_with_another_meaning_is_replaced() {
        let found = |one: &str, other: &str| is_replaced(&spelling(one), &spelling(other));
        for (one, other) in [
            ("How do I cancel a lease?", "How do I renew the lease?"),
            ("What are the fees for a ferry?", "what are the fees for a night train"),
            ("Can ferrets swim?", "Can hares swim?"),
        ] {
            assert!(found(one, other) && found(other, one), "{one} | {other}");
        }
        for (one, other) in [
            ("How do I buy a boat?", "How do I purchase a boat?"),
            ("How do I renew a lease?", "How can I renew a lease?"),
            ("What's a lease?", "What is a lease?"),
            ("How do I renew a lease?", "What do I have to do to extend the lease?"),
            ("ferries", "trains"),
            ("the same", "the same"),
        ] {
            assert!(!found(one, other), "{one} | {other}");
        }
    }
}
