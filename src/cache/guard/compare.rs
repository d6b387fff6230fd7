//! Comparison of two texts: finds a guard that separates them, or measures their other differences.

use std::sync::LazyLock;

use super::{
    Comparison, Guard, Soft, added, contrasts,
    lexicon::{CONTENT, LIGHT, hash},
    order,
    traits::{Term, Traits},
};

/// Most unmatched words per side that are compared one by one. Beyond that the texts have little in common anyway.
const UNMATCHED: usize = 24;
/// Most words per side whose order is compared.
const ORDERED: usize = 24;
/// Ratio of lengths from which on the longer text, if also longer by [`LONGER`] words, says more.
const LENGTHS: f32 = 3.0;
/// See [`LENGTHS`].
const LONGER: u16 = 8;

/// Least weight of unmatched words that are more than phrasing.
const SOMETHING: f32 = CONTENT - LIGHT / 2.0;

/// Compares the query's text with an entry's. Takes about a microsecond for questions.
pub fn compare(query: &Traits, entry: &Traits) -> Comparison {
    let longer = query.words.max(entry.words);
    let shorter = query.words.min(entry.words);
    let length_ratio = if longer == 0 { 1.0 } else { f32::from(shorter) / f32::from(longer) };
    let matches = Matches::of(query, entry);
    let mut soft = Soft {
        overlap: matches.overlap,
        query_only: matches.query_weight,
        entry_only: matches.entry_weight,
        length_ratio,
        words: f32::from(longer),
        question: query.asked.distance(entry.asked),
        tense: f32::from(u8::from(query.tense != entry.tense)),
        advised: f32::from(u8::from(query.advised != entry.advised)),
        quantifiers: f32::from(u8::from(query.quantifiers != entry.quantifiers)),
        particles: f32::from(u8::from(query.particles != entry.particles)),
        prepositions: f32::from(u8::from(query.prepositions != entry.prepositions)),
        inflected: f32::from(matches.inflected.min(3)),
        restricts: matches.restrictions(),
        matched: query.items.len().min(3) as f32,
        names: matches.lone_names(),
        order: 0.0,
    };
    let pairs = Pairs::of(query, entry);
    soft.order = pairs.turned_round();
    let guard = if query.cut || entry.cut {
        Some(Guard::Length)
    } else if let Some(guard) = unequal(query, entry) {
        Some(guard)
    } else if other_units(query, entry) || other_units(entry, query) {
        Some(Guard::Units)
    } else if query.reads_like(entry) {
        None
    } else {
        differs(query, entry, &matches, &pairs, length_ratio)
    };
    let alike = guard.is_none() && query.spelling == entry.spelling;
    Comparison { guard, alike, soft }
}

/// First kind in which the items differ.
fn unequal(query: &Traits, entry: &Traits) -> Option<Guard> {
    let (mut one, mut other) = (query.items.iter().peekable(), entry.items.iter().peekable());
    loop {
        match (one.peek(), other.peek()) {
            (Some(a), Some(b)) if a == b => (one.next(), other.next()),
            (Some(a), Some(b)) => return Some(a.min(b).0),
            (Some(a), None) => return Some(a.0),
            (None, Some(b)) => return Some(b.0),
            (None, None) => return None,
        };
    }
}

/// True if a number has one unit here and another there. A number without a unit matches any.
fn other_units(query: &Traits, entry: &Traits) -> bool {
    query.units.iter().any(|(number, unit)| {
        let mut there = entry.units.iter().filter(|(other, _)| other == number).peekable();
        there.peek().is_some() && there.all(|(_, other)| other != unit)
    })
}

fn differs(query: &Traits, entry: &Traits, matches: &Matches<'_>, pairs: &Pairs, length_ratio: f32) -> Option<Guard> {
    if query.language.zip(entry.language).is_some_and(|(one, other)| one != other) {
        return Some(Guard::Language);
    }
    if query.negative != entry.negative {
        return Some(Guard::Negation);
    }
    if !quoted(query, entry) || !quoted(entry, query) {
        return Some(Guard::Quotes);
    }
    if matches.exclude() || matches.both_sides(query, entry) {
        return Some(Guard::Antonym);
    }
    if matches.names_differ() {
        return Some(Guard::Names);
    }
    // "… and why?": the answer to one part leaves the rest unanswered.
    if query.asked.distance(entry.asked) >= 1.0 || query.questions.max(1) != entry.questions.max(1) {
        return Some(Guard::Question);
    }
    // If only one text uses "by" for the actor, the same order means that actor and object are swapped.
    let changed = if query.passive == entry.passive { pairs.swapped } else { pairs.straight };
    let rearranged = query.passive == entry.passive && matches.same_content() && !order::kept(query, entry);
    if changed || rearranged {
        return Some(Guard::Order);
    }
    let requantified = query.quantifiers != entry.quantifiers;
    if matches.one_adds()
        || added::says_more(&query.said, &entry.said, requantified)
        || added::says_more(&entry.said, &query.said, requantified)
    {
        return Some(Guard::Added);
    }
    let longer = query.words.abs_diff(entry.words);
    (length_ratio * LENGTHS < 1.0 && longer >= LONGER).then_some(Guard::Length)
}

/// True if all quotations of `one` appear in `other`, quoted or not.
fn quoted(one: &Traits, other: &Traits) -> bool {
    one.quotes.iter().all(|quote| {
        let mut words = quote.iter().filter(|word| one.has(**word));
        let joined = |word: u64| other.terms.iter().any(|term| term.joined == word);
        other.quotes.contains(quote) || words.all(|word| other.has(*word) || joined(*word))
    })
}

impl Traits {
    pub(super) fn has(&self, word: u64) -> bool {
        self.by_word.binary_search_by_key(&word, |at| self.terms[usize::from(*at)].word).is_ok()
    }
}

/// Words without a match on the other side.
struct Matches<'a> {
    query: Vec<&'a Term>,
    entry: Vec<&'a Term>,
    overlap: f32,
    query_weight: f32,
    entry_weight: f32,
    /// Common words of which only one is a participle: "force" and "forced".
    inflected: u8,
}

impl<'a> Matches<'a> {
    fn of(query: &'a Traits, entry: &'a Traits) -> Self {
        let (mut alone, mut others) = (Vec::new(), Vec::new());
        let (mut shared, mut inflected) = (0.0, 0u8);
        let (mut i, mut j) = (0, 0);
        loop {
            let one = query.by_word.get(i).map(|at| &query.terms[usize::from(*at)]);
            let other = entry.by_word.get(j).map(|at| &entry.terms[usize::from(*at)]);
            match (one, other) {
                (Some(one), Some(other)) if one.word == other.word => {
                    shared += one.weight.max(other.weight);
                    inflected = inflected.saturating_add(u8::from(one.participle != other.participle));
                    (i, j) = (i + 1, j + 1);
                }
                (Some(one), other) if other.is_none_or(|other| one.word < other.word) => {
                    alone.push(one);
                    i += 1;
                }
                (_, Some(other)) => {
                    others.push(other);
                    j += 1;
                }
                _ => break,
            }
        }
        repeated(&mut alone, query, entry, &mut shared);
        repeated(&mut others, entry, query, &mut shared);
        shared += join(&mut alone, &mut others, entry);
        shared += join(&mut others, &mut alone, query);
        let weight = |terms: &[&Term]| terms.iter().map(|term| term.weight).sum::<f32>();
        let (query_weight, entry_weight) = (weight(&alone), weight(&others));
        let all = shared + query_weight + entry_weight;
        let overlap = if all > 0.0 { shared / all } else { 1.0 };
        Self { query: alone, entry: others, overlap, query_weight, entry_weight, inflected }
    }

    fn pairs(&self) -> impl Iterator<Item = (&'a Term, &'a Term)> {
        let ones = self.query.iter().take(UNMATCHED);
        ones.flat_map(|one| self.entry.iter().take(UNMATCHED).map(|other| (*one, *other)))
    }

    /// True if a word of one side excludes one of the other, or is its opposite by prefix or differs by accents.
    fn exclude(&self) -> bool {
        self.pairs().any(|(one, other)| {
            contrasts::exclude(one.word, other.word)
                || one.folded == other.folded && one.raw != other.raw
                || one.turned != 0 && one.turned == other.word
                || other.turned != 0 && other.turned == one.word
                || one.turned != 0 && one.turned == other.raw
                || other.turned != 0 && other.turned == one.raw
        })
    }

    /// True if one text has both sides of a contrast of which the other has one: "pros and cons", and "pros".
    fn both_sides(&self, query: &Traits, entry: &Traits) -> bool {
        let more = |alone: &[&Term], own: &Traits| {
            let in_common = || own.terms.iter().filter(|term| alone.iter().all(|one| one.word != term.word));
            alone
                .iter()
                .take(UNMATCHED)
                .any(|one| in_common().take(UNMATCHED).any(|other| contrasts::exclude(one.word, other.word)))
        };
        more(&self.query, query) || more(&self.entry, entry)
    }

    /// True if neither side has content that the other lacks.
    fn same_content(&self) -> bool {
        self.query_weight.max(self.entry_weight) < SOMETHING
    }

    /// True if only one side has content that the other lacks. Where both have, one may stand for the other.
    fn one_adds(&self) -> bool {
        self.query_weight.max(self.entry_weight) >= SOMETHING && self.query_weight.min(self.entry_weight) < SOMETHING
    }

    /// True if a name is replaced by another word on the other side.
    fn names_differ(&self) -> bool {
        self.pairs().any(|(one, other)| (one.name || other.name) && one.weight >= CONTENT && other.weight >= CONTENT)
    }

    /// Number of words on only one side that narrow the question, at most 3: words that replace others ("evening"), and
    /// those after a word of place, time or means ("in Pune").
    fn restrictions(&self) -> f32 {
        static BEFORE: LazyLock<[u64; 12]> = LazyLock::new(|| {
            ["in", "at", "on", "for", "during", "with", "without", "from", "near", "using", "under", "as"].map(hash)
        });
        let narrows = |term: &&&Term| {
            term.weight >= CONTENT && (BEFORE.contains(&term.before) || !contrasts::places(term.word).is_empty())
        };
        self.query.iter().chain(&self.entry).filter(narrows).count().min(3) as f32
    }

    /// Number of names on only one side, at most 3.
    fn lone_names(&self) -> f32 {
        let count = self.query.iter().chain(&self.entry).filter(|term| term.name && term.weight > LIGHT).count();
        count.min(3) as f32
    }
}

/// Removes words that both sides have but one has more than once.
fn repeated(alone: &mut Vec<&Term>, own: &Traits, other: &Traits, shared: &mut f32) {
    alone.retain(|term| {
        let again = own.terms.iter().filter(|each| each.word == term.word).count() > 1 && other.has(term.word);
        *shared += if again { term.weight } else { 0.0 };
        !again
    });
}

/// Matches "darkweb" with "dark web". Returns the weight that becomes common.
fn join(alone: &mut Vec<&Term>, others: &mut Vec<&Term>, entry: &Traits) -> f32 {
    let mut shared = 0.0;
    alone.retain(|one| {
        let Some(at) = entry.terms.iter().position(|other| other.joined == one.raw && other.joined != 0) else {
            return true;
        };
        let halves = [at, at + 1].map(|at| entry.terms.get(at).map(std::ptr::from_ref));
        let before = others.len();
        others.retain(|other| !halves.contains(&Some(std::ptr::from_ref(*other))));
        let found = others.len() < before;
        shared += if found { one.weight } else { 0.0 };
        !found
    });
    shared
}

/// Order of the words that each side has exactly once.
struct Pairs {
    count: u32,
    inverted: u32,
    /// Two of them are swapped.
    swapped: bool,
    /// Two of them are in the same order.
    straight: bool,
}

impl Pairs {
    fn of(query: &Traits, entry: &Traits) -> Self {
        let mut found = Self { count: 0, inverted: 0, swapped: false, straight: false };
        let mut shared: Vec<(&Term, &Term, u16)> = Vec::with_capacity(ORDERED);
        for (at, term) in query.terms.iter().enumerate() {
            if shared.len() == ORDERED {
                break;
            }
            let same = |other: &&u16| entry.terms[usize::from(**other)].word == term.word;
            let mut there = entry.by_word.iter().filter(same);
            let once = query.terms.iter().enumerate().all(|(other, each)| other == at || each.word != term.word);
            if let (Some(place), None, true) = (there.next(), there.next(), once) {
                shared.push((term, &entry.terms[usize::from(*place)], *place));
            }
        }
        let symmetric = query.symmetric || entry.symmetric;
        for (at, (x, also_x, place)) in shared.iter().enumerate() {
            for (y, also_y, other) in &shared[at + 1..] {
                found.count += 1;
                if place < other {
                    found.straight |= x.weight >= CONTENT && y.weight >= CONTENT;
                    continue;
                }
                found.inverted += 1;
                found.swapped |= !symmetric
                    && (takes_place(y.before, also_x.before, x.before) || takes_place(x.after, also_y.after, y.after));
            }
            found.swapped |=
                directions(x.before).zip(directions(also_x.before)).is_some_and(|(one, other)| one != other);
        }
        found
    }

    fn turned_round(&self) -> f32 {
        if self.count == 0 { 0.0 } else { self.inverted as f32 / self.count as f32 }
    }
}

/// True if one word replaces another: it follows the same word, unless that joins equals.
fn takes_place(slot: u64, taken: u64, own: u64) -> bool {
    static JOINING: LazyLock<[u64; 4]> = LazyLock::new(|| ["and", "or", "vs", "versus"].map(hash));
    slot == taken && slot != own && slot != 0 && !JOINING.contains(&slot)
}

/// Direction given by the word before another: away from it, or towards it.
fn directions(word: u64) -> Option<bool> {
    static WAYS: LazyLock<[u64; 3]> = LazyLock::new(|| ["from", "to", "into"].map(hash));
    WAYS.iter().position(|way| *way == word).map(|way| way > 0)
}
