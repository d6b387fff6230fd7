//! Order of words: the same words in another order mostly ask something else ("from A to B", "man bites dog").
//!
//! Where all content is the same, two rearrangements keep the sense: the parts of a coordination change places ("cats
//! and dogs"), and a phrase with a preposition moves ("in Vim, …"). All others count as another question. Where other
//! words differ as well, only a word in the place of another does ("faster than A", "quicker than B").

use std::sync::LazyLock;

use super::{
    lexicon::{CONTENT, SOMETHING, hash},
    traits::{Term, Traits},
};

/// Most words whose order is compared. In longer texts only one prefix of this length is.
const MOST: usize = 64;
/// Words after a rearranged part that may belong to it: "public schools and private schools".
const SHARED_END: usize = 3;

static JOINING: LazyLock<[u64; 4]> = LazyLock::new(|| ["and", "or", "vs", "versus"].map(hash));
static PREPOSITIONS: LazyLock<[u64; 18]> = LazyLock::new(|| {
    [
        "from", "to", "into", "in", "on", "at", "for", "with", "without", "by", "after", "before", "during", "near",
        "under", "using", "if", "when",
    ]
    .map(hash)
});

/// True if the words that both texts have are in an order of another sense. `rest` is the weight of the words that only
/// one of them has.
pub(super) fn changed(query: &Traits, entry: &Traits, rest: f32) -> bool {
    let (one, other) = (shared(query, entry), shared(entry, query));
    // Words that each text has once, with their places.
    let pairs: Vec<(&Term, &Term, usize)> = one
        .iter()
        .filter_map(|term| {
            let mut places = other.iter().enumerate().filter(|(_, other)| other.word == term.word);
            let (place, also) = places.next()?;
            let single = places.next().is_none() && one.iter().filter(|each| each.word == term.word).count() == 1;
            single.then_some((*term, *also, place))
        })
        .collect();
    if query.passive != entry.passive {
        // Only one text uses "by" for the actor: the same order means that actor and object are swapped.
        let content: Vec<usize> =
            pairs.iter().filter(|(term, ..)| is_content(term)).map(|(.., place)| *place).collect();
        return content.windows(2).any(|two| two[0] < two[1]);
    }
    let turned = pairs.iter().any(|(term, also, _)| {
        directions(term.before).zip(directions(also.before)).is_some_and(|(one, other)| one != other)
    });
    let replaced = pairs.iter().enumerate().any(|(at, (x, also_x, place))| {
        pairs[at + 1..].iter().any(|(y, also_y, other)| {
            other < place
                && (takes_place(y.before, also_x.before, x.before) || takes_place(x.after, also_y.after, y.after))
        })
    });
    // With exactly the same words, the place of each matters: "once a minute, twice a week".
    let all = query.said == entry.said;
    let ordered = || {
        let [one, other] = [&one, &other]
            .map(|terms| terms.iter().copied().filter(|term| all || is_content(term)).collect::<Vec<_>>());
        kept(&one, &other)
    };
    turned || replaced || rest < SOMETHING && !ordered()
}

/// True if a word is in the place of another: beside the same word, unless that joins equals.
fn takes_place(slot: u64, taken: u64, own: u64) -> bool {
    slot == taken && slot != own && slot != 0 && !JOINING.contains(&slot)
}

/// Direction given by the word before another: away from it, or towards it.
fn directions(word: u64) -> Option<bool> {
    PREPOSITIONS[..3].iter().position(|way| *way == word).map(|way| way > 0)
}

/// True if the words are in the same order, or in one of the same sense.
fn kept(one: &[&Term], other: &[&Term]) -> bool {
    // A word that one has more often leaves nothing to compare place by place.
    if one.len() != other.len() {
        return true;
    }
    let start = one.iter().zip(other).take_while(|(one, other)| one.word == other.word).count();
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

/// True if a word has a meaning of its own.
fn is_content(term: &Term) -> bool {
    term.weight >= CONTENT || term.name
}

/// Words of `own` that `other` has as well, in order.
fn shared<'a>(own: &'a Traits, other: &Traits) -> Vec<&'a Term> {
    own.terms.iter().filter(|term| other.has(term.word)).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_coordinated_parts_and_phrases_change_places() {
        let kept = |one: &str, other: &str| {
            let (one, other) = (Traits::of(one), Traits::of(other));
            let found = changed(&one, &other, 0.0);
            assert_eq!(found, changed(&other, &one, 0.0), "a comparison has no direction");
            !found
        };
        for (one, other) in [
            (
                "difference between public schools and private schools",
                "difference between private schools and public schools",
            ),
            ("Is lamb a red meat or a white meat?", "Is lamb a white meat or a red meat?"),
            ("How do I save a file in vim?", "In vim, how do I save a file?"),
            ("flights to Mainz from Trier", "flights from Trier to Mainz"),
            ("When water boils, what happens to salt?", "What happens to salt when water boils?"),
        ] {
            assert!(kept(one, other), "{one} | {other}");
        }
        for (one, other) in [
            ("What do women eat that men hate?", "What do women hate that men eat?"),
            ("flights from Trier to Mainz", "flights from Mainz to Trier"),
            ("flights from Trier to Mainz", "flights to Trier from Mainz"),
            ("Is Rust faster than Go?", "Is Go faster than Rust?"),
            ("It rings once a minute, twice a week.", "It rings twice a minute, once a week."),
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
