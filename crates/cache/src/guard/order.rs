//! Order of words: the same words in another order mostly ask something else ("from A to B", "sort by A and B").
//!
//! Where all content is the same, two rearrangements keep the sense. A phrase with a preposition moves ("in Vim, …").
//! And coordinated parts change places where the question puts them side by side ("compare A and B"), or has the reader
//! choose ("A or B?"), and nothing in it depends on which comes first: no numbers, no code, no "then". All others count
//! as another question. Where other words differ as well, only a word in the place of another does ("faster than A",
//! "quicker than B"), or one coordinated part in that of the other.

use std::sync::LazyLock;

use super::{
    lexicon::{CONTENT, LIGHT, SOMETHING, hash},
    parts::{JOINING, LISTS, Parts, joins},
    traits::{Term, Traits},
};

/// Most words whose order is compared. In longer texts only one prefix of this length is.
const MOST: usize = 64;
/// Words after a rearranged part that may belong to it: "public schools and private schools".
const SHARED_END: usize = 3;

static DIRECTIONS: LazyLock<[u64; 4]> = LazyLock::new(|| ["from", "to", "into", "by"].map(hash));
static PREPOSITIONS: LazyLock<[u64; 18]> = LazyLock::new(|| {
    [
        "from", "to", "into", "by", "in", "on", "at", "for", "with", "without", "after", "before", "during", "near",
        "under", "using", "if", "when",
    ]
    .map(hash)
});

/// True if parts joined by `joiner`, of which the first follows the word `lead`, may change places between the
/// terms `before` and `after` them.
fn may_exchange(parts: Parts, joiner: u64, lead: u64, before: &[&Term], after: &[&Term]) -> bool {
    let [level, auxiliaries, _] = &*LISTS;
    let plain = |terms: &[&Term]| terms.iter().all(|term| term.weight <= LIGHT || level.contains(&term.word));
    // A second coordination may refer to the parts one by one: "… who live in Rome and Oslo".
    let paired = after.iter().any(|term| joins(term.before));
    let framed = plain(before) && !DIRECTIONS.contains(&lead) && !paired;
    let beside = parts.ahead || parts.behind && auxiliaries.contains(&lead);
    let fits = match JOINING.iter().position(|each| *each == joiner) {
        Some(0) => framed && beside,
        Some(1) => parts.choice || (parts.ahead || parts.behind) && !DIRECTIONS.contains(&lead),
        Some(_) => framed && (beside || plain(after)),
        None => false,
    };
    fits && !parts.sequence
}

/// True if the words that both texts have are in an order of another sense. `rest` is the weight of the words that only
/// one of them has.
pub(super) fn changed(query: &Traits, entry: &Traits, rest: f32) -> bool {
    let (one, other) = (shared(query, entry), shared(entry, query));
    let raw = |terms: &[&Term]| {
        let mut raw: Vec<u64> = terms.iter().map(|term| term.raw).collect();
        raw.sort_unstable();
        raw
    };
    // Forms of one word change places as well: "an alien among aliens".
    let exact = raw(&one) == raw(&other);
    let same = |one: &Term, other: &Term| if exact { one.raw == other.raw } else { one.word == other.word };
    // Words that each text has once, with their places.
    let pairs: Vec<(&Term, &Term, usize)> = one
        .iter()
        .filter_map(|term| {
            let mut places = other.iter().enumerate().filter(|(_, other)| same(term, other));
            let (place, also) = places.next()?;
            let single = places.next().is_none() && one.iter().filter(|each| same(each, term)).count() == 1;
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
    let parts = [query.parts, entry.parts];
    let replaced = pairs.iter().enumerate().any(|(at, (x, also_x, place))| {
        pairs[at + 1..].iter().any(|(y, also_y, other)| {
            let exchanged = joins(y.before) && joins(also_x.before);
            other < place
                && (takes_place(y.before, also_x.before, x.before)
                    || takes_place(x.after, also_y.after, y.after)
                    || exchanged
                        && !(may_exchange(query.parts, y.before, x.before, &[], &[])
                            && may_exchange(entry.parts, also_x.before, also_y.before, &[], &[])))
        })
    });
    if turned || replaced || rest >= SOMETHING {
        return turned || replaced;
    }
    // With exactly the same words, the place of each matters: "once a minute, twice a week".
    let all = query.said == entry.said;
    let [mut one, mut other] =
        [one, other].map(|terms| terms.into_iter().filter(|term| all || is_content(term)).collect::<Vec<_>>());
    if one.len() != other.len() {
        // A word that one has more often leaves nothing to compare place by place.
        if !parts.iter().any(|parts| parts.sequence) {
            return false;
        }
        let mut single: Vec<_> = pairs.iter().filter(|(term, also, _)| is_content(term) || is_content(also)).collect();
        one = single.iter().map(|(term, ..)| *term).collect();
        single.sort_by_key(|(.., place)| *place);
        other = single.iter().map(|(_, also, _)| *also).collect();
    }
    !kept(&one, &other, parts, same)
}

/// True if a word is in the place of another: beside the same word, unless that joins equals.
fn takes_place(slot: u64, taken: u64, own: u64) -> bool {
    slot == taken && slot != own && slot != 0 && !joins(slot)
}

/// Direction given by the word before another: away from it, or towards it.
fn directions(word: u64) -> Option<bool> {
    DIRECTIONS[..3].iter().position(|way| *way == word).map(|way| way > 0)
}

/// True if the words, equally many, are in the same order, or in one of the same sense.
fn kept(one: &[&Term], other: &[&Term], parts: [Parts; 2], same: impl Fn(&Term, &Term) -> bool + Copy) -> bool {
    let start = one.iter().zip(other).take_while(|(one, other)| same(one, other)).count();
    if start == one.len() {
        return true;
    }
    let (before, one) = one.split_at(start);
    let other = &other[start..];
    let end = one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| same(one, other)).count();
    (0..=end.min(SHARED_END)).any(|more| {
        let (own, after) = one.split_at(one.len() - end + more);
        let other = &other[..own.len()];
        (1..own.len()).any(|cut| {
            let (front, back) = own.split_at(cut);
            let (first, second) = other.split_at(back.len());
            let moved = back.iter().zip(first).chain(front.iter().zip(second)).all(|(one, other)| same(one, other));
            moved
                && is_harmless([front[0], back[0], first[0], second[0]].map(|term| term.before), |at, joiner, lead| {
                    may_exchange(parts[at], joiner, lead, before, after)
                })
        })
    })
}

/// True if two parts that changed places keep the sense. `leads` are the words before them, in both texts: either they
/// are joined so that they may be `exchanged`, or one of them is a phrase that moves.
fn is_harmless(leads: [u64; 4], exchanged: impl Fn(usize, u64, u64) -> bool) -> bool {
    let [front, back, first, second] = leads;
    // Of two phrases with one preposition, neither moves: "by name, by date".
    let moves = |own: u64, moved: u64| {
        own == moved && PREPOSITIONS.contains(&own) && leads.iter().filter(|lead| **lead == own).count() == 2
    };
    exchanged(0, back, front) && exchanged(1, second, first) || moves(front, second) || moves(back, first)
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

    fn kept(one: &str, other: &str) -> bool {
        let (one, other) = (Traits::of(one), Traits::of(other));
        let found = changed(&one, &other, 0.0);
        assert_eq!(found, changed(&other, &one, 0.0), "a comparison has no direction");
        !found
    }

    #[test]
    fn only_level_parts_and_phrases_change_places() {
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

    /// A sentence, and the parts that take the places of `{x}` and `{y}`.
    fn exchanged(sentence: &str, x: &str, y: &str) -> [String; 2] {
        [(x, y), (y, x)].map(|(x, y)| sentence.replace("{x}", x).replace("{y}", y))
    }

    #[test]
    fn exchanged_parts_are_another_question() {
        for (sentence, x, y) in [
            ("Arrange the shelves by {x} and {y}", "author", "year"),
            ("Arrange the shelves by {x}, by {y}", "author", "year"),
            ("Take a number, {x} and {y}", "add seven", "halve it"),
            ("Paste {x} and {y} together", "the stem", "the ending"),
            ("{x} and {y} lost 2 and 6 respectively, who lost more?", "Olga", "Pavel"),
            ("Tell me about {x} and {y} in that order", "lakes", "rivers"),
            ("Tell me about {x} and {y}, who live in Graz and Linz", "Olga", "Pavel"),
            ("Which is better, {x} or {y}? Reply with 1 or 2", "rye", "spelt"),
            ("Give back the pair ({x}, {y})", "head", "tail"),
            ("compare the {x} with the {y} file", "old", "new"),
            ("the tensor product of {x} and {y}", "m", "n"),
            ("compute the difference between {x} and {y}", "revenue", "cost"),
            ("the difference between {x} and {y}", "17", "4"),
            ("How do I {x} and {y} clothes better?", "wash", "iron"),
            ("put {x} into {y}", "a", "d"),
            ("How much is {x} minus {y}?", "one", "six"),
            ("say {x} and {y}", "hello", "goodbye"),
            ("replace {x} with {y}", "run", "running"),
            ("fly to {x}, then to {y}", "Graz", "Linz"),
        ] {
            let [one, other] = exchanged(sentence, x, y);
            assert!(!kept(&one, &other), "{one} | {other}");
        }
    }

    #[test]
    fn parts_side_by_side_are_the_same_question() {
        for (sentence, x, y) in [
            ("Compare {x} and {y}", "cellos", "violas"),
            ("What do {x} and {y} have in common?", "spiders", "crabs"),
            ("How do {x} and {y} differ?", "moths", "butterflies"),
            ("What is the relationship between {x} and {y}?", "sleep", "memory"),
            ("advantages and disadvantages of {x} and {y}", "trams", "ferries"),
            ("Should I take {x} or {y}?", "the ferry", "the train"),
            ("Which wood is harder, {x} or {y}?", "oak", "pine"),
            ("{x} vs {y}", "rye", "spelt"),
        ] {
            let [one, other] = exchanged(sentence, x, y);
            assert!(kept(&one, &other), "{one} | {other}");
        }
        assert!(kept("How do moths and butterflies differ?", "difference between butterflies and moths"));
    }
}
