//! Order of words in texts with the same content.
//!
//! The same words in another order mostly ask something else ("from A to B", "man bites dog"). Two rearrangements keep
//! the sense: the parts of a coordination change places ("cats and dogs"), and a phrase with a preposition moves ("in
//! Vim, …"). All others count as another question.

use std::sync::LazyLock;

use super::{
    lexicon::{CONTENT, hash},
    traits::{Term, Traits},
};

/// Most words whose order is compared. In longer texts only one prefix of this length is.
const MOST: usize = 64;
/// Words after a rearranged part that may belong to it: "public schools and private schools".
const SHARED_END: usize = 3;

static JOINING: LazyLock<[u64; 5]> = LazyLock::new(|| ["and", "or", "vs", "versus", "than"].map(hash));
static PREPOSITIONS: LazyLock<[u64; 17]> = LazyLock::new(|| {
    [
        "in", "on", "at", "for", "from", "to", "into", "with", "without", "by", "after", "before", "during", "near",
        "under", "using", "if",
    ]
    .map(hash)
});

/// True if the words that both texts have are in the same order, or in one of the same sense.
pub(super) fn kept(query: &Traits, entry: &Traits) -> bool {
    let (one, other) = (shared(query, entry), shared(entry, query));
    // A word that one has more often leaves nothing to compare place by place.
    if one.len() != other.len() {
        return true;
    }
    let start = one.iter().zip(&other).take_while(|(one, other)| one.word == other.word).count();
    if start == one.len() {
        return true;
    }
    let (one, other) = (&one[start..], &other[start..]);
    let end = one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one.word == other.word).count();
    (0..=end.min(SHARED_END)).any(|more| {
        let length = one.len() - end + more;
        (1..length).any(|cut| is_harmless(&one[..length], &other[..length], cut))
    })
}

/// True if `other` has the two parts of `one`, divided at `cut`, the other way round, without a change of the sense.
fn is_harmless(one: &[&Term], other: &[&Term], cut: usize) -> bool {
    let (front, back) = one.split_at(cut);
    let (first, second) = other.split_at(back.len());
    let equal =
        |one: &[&Term], other: &[&Term]| one.iter().map(|term| term.word).eq(other.iter().map(|term| term.word));
    if !equal(back, first) || !equal(front, second) {
        return false;
    }
    let joined = JOINING.contains(&back[0].before) && JOINING.contains(&second[0].before);
    let moves = |one: &Term, other: &Term| one.before == other.before && PREPOSITIONS.contains(&one.before);
    joined || moves(front[0], second[0]) || moves(back[0], first[0])
}

/// Words of `own` with a meaning that `other` has as well, in order.
fn shared<'a>(own: &'a Traits, other: &Traits) -> Vec<&'a Term> {
    own.terms.iter().filter(|term| (term.weight >= CONTENT || term.name) && other.has(term.word)).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_coordinated_parts_and_phrases_change_places() {
        let kept = |one: &str, other: &str| {
            let (one, other) = (Traits::of(one), Traits::of(other));
            let found = super::kept(&one, &other);
            assert_eq!(found, super::kept(&other, &one), "a comparison has no direction");
            found
        };
        for (one, other) in [
            (
                "difference between public schools and private schools",
                "difference between private schools and public schools",
            ),
            ("Is lamb a red meat or a white meat?", "Is lamb a white meat or a red meat?"),
            ("How do I save a file in vim?", "In vim, how do I save a file?"),
            ("flights to Mainz from Trier", "flights from Trier to Mainz"),
        ] {
            assert!(kept(one, other), "{one} | {other}");
        }
        for (one, other) in [
            ("What do women eat that men hate?", "What do women hate that men eat?"),
            ("flights from Trier to Mainz", "flights from Mainz to Trier"),
            (
                "How do highways in Maine compare to roads in Ohio?",
                "How do highways in Ohio compare to roads in Maine?",
            ),
            (
                "Does oriental culture worship youth and European culture age?",
                "Does European culture worship youth and oriental culture age?",
            ),
        ] {
            assert!(!kept(one, other), "{one} | {other}");
        }
    }
}
