//! Comparison of two texts: finds a guard that separates them, or measures their other differences.

use std::sync::LazyLock;

use super::{
    Comparison, Guard, Soft, added, contrasts,
    lexicon::{CONTENT, LIGHT, SOMETHING, hash},
    order,
    replaced::is_replaced,
    traits::{Term, Traits},
};

/// Most unmatched words per side that are compared one by one. Beyond that the texts have little in common anyway.
const UNMATCHED: usize = 24;
/// Ratio of lengths from which on the longer text, if also longer by [`LONGER`] words, says more.
const LENGTHS: f32 = 3.0;
/// See [`LENGTHS`].
const LONGER: u16 = 8;

/// Unmatched words of less weight mean nothing.
const NOTHING: f32 = 1e-3;

/// Compares the query's text with an entry's. Takes about a microsecond for questions.
pub fn compare(query: &Traits, entry: &Traits) -> Comparison {
    let longer = query.words.max(entry.words);
    let shorter = query.words.min(entry.words);
    let matches = Matches::of(query, entry);
    let same_particles = query.particles == entry.particles;
    let soft = Soft {
        words: f32::from(longer),
        prepositions: f32::from(u8::from(query.prepositions != entry.prepositions)),
        restricts: matches.restrictions(),
        matched: query.items.len().min(3) as f32,
        names: matches.lone_names(),
        same_words: matches.most() < NOTHING
            && same_particles
            && query.quantifiers == entry.quantifiers
            && query.asked == entry.asked
            && query.tense == entry.tense
            && query.advised == entry.advised,
        same_content: matches.most() < SOMETHING && same_particles && !matches.inflected && matches.lone_names() < 0.5,
    };
    let guard = if query.cut || entry.cut {
        Some(Guard::Length)
    } else if let Some(guard) = unequal(query, entry) {
        Some(guard)
    } else if other_units(query, entry) || other_units(entry, query) {
        Some(Guard::Units)
    } else if query.reads_like(entry) {
        None
    } else {
        differs(query, entry, &matches).or_else(|| {
            let says_more = f32::from(shorter) * LENGTHS < f32::from(longer) && longer - shorter >= LONGER;
            says_more.then_some(Guard::Length)
        })
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

fn differs(query: &Traits, entry: &Traits, matches: &Matches<'_>) -> Option<Guard> {
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
    // Where other words differ as well, "where can I get …" may ask what "how do I order …" does. "… and why?": the answer
    // to one part leaves the rest unanswered.
    let both_differ = matches.query_weight.min(matches.entry_weight) >= SOMETHING;
    if query.asked.distance(entry.asked) >= 1.0 && !both_differ || query.questions.max(1) != entry.questions.max(1) {
        return Some(Guard::Question);
    }
    if order::changed(query, entry, matches.most()) {
        return Some(Guard::Order);
    }
    if query.quantifiers != entry.quantifiers
        || matches.one_adds()
        || added::says_more(&query.said, &entry.said)
        || added::says_more(&entry.said, &query.said)
    {
        return Some(Guard::Added);
    }
    // "The U.S." is "the United States".
    if both_differ && is_replaced(&query.spelling, &entry.spelling) {
        return Some(Guard::Names);
    }
    // Opposites and synonyms are listed for English alone: elsewhere another word may be any of them.
    let foreign = !query.english || !entry.english;
    (foreign && matches.most() >= SOMETHING).then_some(Guard::Language)
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
    query_weight: f32,
    entry_weight: f32,
    /// True if one of the common words is a participle on one side only: "force" and "forced".
    inflected: bool,
}

impl<'a> Matches<'a> {
    fn of(query: &'a Traits, entry: &'a Traits) -> Self {
        let (mut alone, mut others) = (Vec::new(), Vec::new());
        let mut inflected = false;
        let (mut i, mut j) = (0, 0);
        loop {
            let one = query.by_word.get(i).map(|at| &query.terms[usize::from(*at)]);
            let other = entry.by_word.get(j).map(|at| &entry.terms[usize::from(*at)]);
            match (one, other) {
                (Some(one), Some(other)) if one.word == other.word => {
                    inflected |= one.participle != other.participle;
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
        repeated(&mut alone, query, entry);
        repeated(&mut others, entry, query);
        join(&mut alone, &mut others, entry);
        join(&mut others, &mut alone, query);
        let weight = |terms: &[&Term]| terms.iter().map(|term| term.weight).sum::<f32>();
        let (query_weight, entry_weight) = (weight(&alone), weight(&others));
        Self { query: alone, entry: others, query_weight, entry_weight, inflected }
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

    /// Weight of the words of the side that has more beyond the other.
    fn most(&self) -> f32 {
        self.query_weight.max(self.entry_weight)
    }

    /// True if only one side has content that the other lacks. Where both have, one may stand for the other.
    fn one_adds(&self) -> bool {
        self.most() >= SOMETHING && self.query_weight.min(self.entry_weight) < SOMETHING
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
fn repeated(alone: &mut Vec<&Term>, own: &Traits, other: &Traits) {
    alone.retain(|term| own.terms.iter().filter(|each| each.word == term.word).count() < 2 || !other.has(term.word));
}

/// Matches "darkweb" with "dark web".
fn join(alone: &mut Vec<&Term>, others: &mut Vec<&Term>, entry: &Traits) {
    alone.retain(|one| {
        let Some(at) = entry.terms.iter().position(|other| other.joined == one.raw && other.joined != 0) else {
            return true;
        };
        let halves = [at, at + 1].map(|at| entry.terms.get(at).map(std::ptr::from_ref));
        let before = others.len();
        others.retain(|other| !halves.contains(&Some(std::ptr::from_ref(*other))));
        others.len() == before
    });
}
