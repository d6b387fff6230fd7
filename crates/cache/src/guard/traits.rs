//! Traits of a text for comparisons: computed once, stored with the entry, bounded in size.

use super::{
    Guard,
    added::Said,
    contrasts,
    lemma::lemma,
    lexicon::{self, CONTENT, NAME, STOP, hash},
    parts::{Parts, joins},
    quantity::{self, What},
    question::{self, Asked, Tense},
    scan::{self, Kind},
    spelling::{folded, is_misspelt, spelling},
    words::{Word, words},
};

/// Most pieces of a text that are read. A longer text matches none.
const PIECES: usize = 384;
/// Most bytes of a text that are read.
const BYTES: usize = 8 << 10;

/// A text as the guards see it. At most about 20 KB, for a text of 384 words; about 50 bytes a word.
#[expect(clippy::struct_excessive_bools, reason = "each is a thing that a text does or does not")]
#[derive(Clone, Debug, PartialEq)]
pub struct Traits {
    /// Words in order, without stop words, unless another word excludes them.
    pub(super) terms: Box<[Term]>,
    /// Indices of the terms, ordered by word.
    pub(super) by_word: Box<[u16]>,
    /// Items that must be equal as multisets, sorted.
    pub(super) items: Box<[(Guard, u64)]>,
    /// Numbers with a unit, and the unit.
    pub(super) units: Box<[(u64, u64)]>,
    /// Words of each quotation in order.
    pub(super) quotes: Box<[Box<[u64]>]>,
    pub(super) asked: Asked,
    /// Evidence on the order of its parts.
    pub(super) parts: Parts,
    /// Number of questions.
    pub(super) questions: u8,
    pub(super) tense: Tense,
    pub(super) advised: bool,
    pub(super) negative: bool,
    /// Hash of the words of quantity ("all", "only") in any order.
    pub(super) quantifiers: u64,
    /// Hash of the particles that change a verb's sense ("zoom out") in any order.
    pub(super) particles: u64,
    /// Hash of the prepositions that narrow or locate the question ("for", "after") in any order.
    pub(super) prepositions: u64,
    /// True if the actor follows "by", and so comes last.
    pub(super) passive: bool,
    pub(super) language: Option<u8>,
    pub(super) english: bool,
    pub(super) words: u16,
    /// Words that are no items and do not open the question, sorted: for what one text says beyond another.
    pub(super) said: Box<[Said]>,
    /// Hash of all words in order. Texts with the same value differ only in punctuation and case.
    pub(super) whole: u64,
    /// The normalised spelling.
    pub(super) spelling: Box<str>,
    /// True if it was too long to read.
    pub(super) cut: bool,
}

/// A word.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    /// Hash of its base form, or of that of the synonym that stands for it.
    pub(super) word: u64,
    /// Hash of the word as written, in lower case.
    pub(super) raw: u64,
    /// Hash of the word as written, without accents.
    pub(super) folded: u64,
    /// Hash of the word joined with the next one.
    pub(super) joined: u64,
    /// Hash of the word's base form without a negating prefix (`un-`); 0 if it has none.
    pub(super) turned: u64,
    /// Hash of the preceding word, articles skipped.
    pub(super) before: u64,
    /// Hash of the next word, articles skipped.
    pub(super) after: u64,
    pub(super) weight: f32,
    pub(super) name: bool,
    /// True if the word ends like a participle.
    pub(super) participle: bool,
}

impl Traits {
    /// Analyses a text. Takes microseconds for a question, and at most a millisecond for any text.
    pub fn of(text: &str) -> Self {
        let end = (0..=BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let (pieces, all) = scan::pieces(&text[..end], PIECES);
        let words = words(&text[..end], &pieces);
        let lower: Vec<&str> = words.iter().map(|word| word.lower.as_str()).collect();
        let mut reading =
            Reading { opening: question::opening(&lower, |at| words[at].piece.first), ..Reading::default() };
        reading.read(&words);
        reading.said.sort_unstable();
        reading.items.extend(question::forms(&lower).map(|form| (Guard::Form, form)));
        reading.items.sort_unstable();
        let mut by_word: Vec<u16> = (0..reading.terms.len() as u16).collect();
        by_word.sort_by_key(|at| reading.terms[usize::from(*at)].word);
        let asked = Asked::of(&lower);
        let parts = Parts::of(&words, asked, !reading.items.is_empty());
        let language = question::language(&text[..end], &lower);
        let whole =
            lower.iter().fold(0u64, |all, word| all.rotate_left(5) ^ hash(word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self {
            by_word: by_word.into(),
            terms: reading.terms.into(),
            said: reading.said.into(),
            items: reading.items.into(),
            units: reading.units.into(),
            quotes: reading.quotes.into_iter().filter(|quote| !quote.is_empty()).map(Vec::into_boxed_slice).collect(),
            asked,
            parts,
            questions: questions(&words),
            tense: Tense::of(&lower),
            advised: question::advised(&lower),
            negative: reading.turns % 2 == 1,
            quantifiers: reading.quantifiers,
            particles: reading.particles,
            prepositions: reading.prepositions,
            passive: reading.passive,
            language,
            english: question::is_english(language, &lower),
            words: words.len().min(usize::from(u16::MAX)) as u16,
            whole,
            spelling: spelling(&text[..end]).into(),
            cut: !all || end < text.len(),
        }
    }

    /// True if both have the same words in the same order: they differ at most in punctuation and case.
    pub(crate) fn reads_like(&self, other: &Self) -> bool {
        self.whole == other.whole && self.words == other.words && self.items == other.items && !self.cut && !other.cut
    }

    /// True if both are the same text but for misspelt words; `knows` the words of a large vocabulary.
    pub(crate) fn misspells(&self, other: &Self, knows: &dyn Fn(&str) -> bool) -> bool {
        !self.cut && !other.cut && is_misspelt(&self.spelling, &other.spelling, knows)
    }

    /// Number of words.
    pub fn words(&self) -> u16 {
        self.words
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(self)
            + size_of_val(&*self.terms)
            + self.spelling.len()
            + size_of_val(&*self.by_word)
            + size_of_val(&*self.said)
            + size_of_val(&*self.items)
            + size_of_val(&*self.units)
            + self.quotes.iter().map(|quote| size_of_val(&**quote) + size_of_val(quote)).sum::<usize>()
    }
}

/// Number of questions: question words at the beginning of a sentence, and after "and" or "or".
fn questions(words: &[Word<'_>]) -> u8 {
    let begins = |at: usize| {
        let before = at.checked_sub(1).map(|at| &words[at]);
        // "what's" is two words in one piece.
        let first = words[at].piece.first && before.is_none_or(|before| !std::ptr::eq(before.piece, words[at].piece));
        let joined = before.is_some_and(|before| matches!(&*before.lower, "and" | "or"));
        first && question::begins(&words[at].lower) || joined && question::asks(&words[at].lower)
    };
    (0..words.len()).filter(|at| begins(*at)).count().min(255) as u8
}

/// State while reading a text.
#[derive(Default)]
struct Reading {
    terms: Vec<Term>,
    items: Vec<(Guard, u64)>,
    units: Vec<(u64, u64)>,
    quotes: Vec<Vec<u64>>,
    turns: u32,
    quantifiers: u64,
    particles: u64,
    prepositions: u64,
    passive: bool,
    said: Vec<Said>,
    /// Number of words that open the question.
    opening: usize,
    at: usize,
    /// The preceding word, except articles.
    before: u64,
}

impl Reading {
    fn read(&mut self, words: &[Word<'_>]) {
        let mut at = 0;
        while at < words.len() {
            at += self.step(words, at).max(1);
        }
    }

    /// Reads the piece at `at`. Returns the number of words it took.
    fn step(&mut self, words: &[Word<'_>], at: usize) -> usize {
        self.at = at;
        let word = &words[at];
        let lower = word.lower.as_str();
        let exact = hash(word.piece.text);
        match word.piece.kind {
            Kind::Url => return self.item(Guard::Urls, exact, lower, word),
            Kind::Flag => return self.item(Guard::Flags, exact, lower, word),
            Kind::Identifier => return self.item(Guard::Identifiers, exact_identifier(word.piece.text), lower, word),
            Kind::Code | Kind::Operator => return self.item(Guard::Code, exact, lower, word),
            Kind::Unit => {
                let amount = words.get(at + 1).filter(|next| next.piece.kind == Kind::Number);
                let (Some(_), Some(unit)) = (amount, quantity::unit(lower)) else {
                    return self.item(Guard::Units, hash(quantity::unit(lower).unwrap_or(lower)), lower, word);
                };
                return 1 + self.quantity(words, at + 1, Some(unit)).unwrap_or(0);
            }
            Kind::Sign => {
                let negation = matches!(lower, "不" | "没" | "非" | "无" | "別" | "别");
                self.turns += u32::from(negation);
                // Counted as a name: nothing known allows another word in its place.
                self.push(hash(lower), lower, CONTENT, true, 0, word);
                return 1;
            }
            Kind::Word | Kind::Number => {}
        }
        if let Some(taken) = self.quantity(words, at, None) {
            return taken;
        }
        // "Rs 500", "USD 20".
        let amount = words.get(at + 1).is_some_and(|next| next.piece.kind == Kind::Number);
        if let Some(unit) = quantity::unit(lower).filter(|unit| amount && quantity::CURRENCIES.contains(unit)) {
            return 1 + self.quantity(words, at + 1, Some(unit)).unwrap_or(0);
        }
        if let Some(taken) = self.particle(words, at) {
            return taken;
        }
        let rest = words[at + 1..].iter().map(|word| word.lower.as_str());
        if let Some((taken, means)) = lexicon::phrase(lower, &rest) {
            self.word(means, word, words.get(at + taken + 1));
            return taken + 1;
        }
        if lower == "by" {
            let participle = at > 0 && (words[at - 1].lower.ends_with("ed") || words[at - 1].lower.ends_with("en"));
            self.passive |= participle
                || at > 0
                    && matches!(
                        &*words[at - 1].lower,
                        "made" | "built" | "bought" | "sold" | "won" | "led" | "paid" | "sued"
                    );
        }
        self.word(lower, word, words.get(at + 1));
        1
    }

    /// "turn … on" and "switch … off": verb and particle count as one word.
    fn particle(&mut self, words: &[Word<'_>], at: usize) -> Option<usize> {
        if !matches!(words[at].lower.as_str(), "turn" | "turned" | "turning" | "switch" | "switched" | "switching") {
            return None;
        }
        let (away, particle) =
            words[at + 1..].iter().take(5).enumerate().find(|(_, word)| matches!(&*word.lower, "on" | "off"))?;
        let means = if particle.lower == "on" { "enable" } else { "disable" };
        self.word(means, &words[at], words.get(at + 1));
        let end = at + 1 + away;
        let mut inner = at + 1;
        while inner < end {
            inner += self.step(words, inner).max(1);
        }
        Some(inner.max(end + 1) - at)
    }

    /// Reads a number with its unit, a date, a version.
    fn quantity(&mut self, words: &[Word<'_>], at: usize, sign: Option<&'static str>) -> Option<usize> {
        let lower: Vec<String> = words[at..].iter().take(8).map(|word| word.lower.clone()).collect();
        let before = at.checked_sub(1).map(|at| words[at].lower.as_str());
        let found = quantity::read(before, &lower)?;
        let guard = match found.kind {
            What::Number => Guard::Numbers,
            What::Date => Guard::Dates,
            What::Version => Guard::Versions,
        };
        let number = hash(&found.text);
        self.items.push((guard, number));
        if let Some(unit) = sign.or(found.unit) {
            self.units.push((number, hash(unit)));
        }
        // Its place among others counts, as that of a name.
        self.push(number, &found.text, STOP, found.unit != Some("th"), 0, &words[at]);
        Some(found.taken)
    }

    fn item(&mut self, guard: Guard, exact: u64, lower: &str, word: &Word<'_>) -> usize {
        self.items.push((guard, exact));
        self.push(hash(lower), lower, CONTENT, false, 0, word);
        1
    }

    /// Reads an ordinary word.
    fn word(&mut self, lower: &str, word: &Word<'_>, next: Option<&Word<'_>>) {
        let stem = lemma(lower);
        let known = lexicon::known(&stem);
        let base = known.map_or_else(|| hash(&stem), |known| known.word);
        let mut weight = known.map_or(CONTENT, |known| known.weight);
        if let Some(known) = known {
            // "or not" does not change the question.
            let denies = known.negation && !(lower == "not" && self.before == hash("or"));
            self.turns += u32::from(denies) + u32::from(known.reverser);
            if known.quantifier {
                self.quantifiers = self.quantifiers.wrapping_add(base);
            }
        }
        if matches!(lower, "out" | "off" | "up" | "down" | "away" | "back" | "over") {
            self.particles = self.particles.wrapping_add(base);
        }
        // Prepositions of place are often interchanged. At the end "do" is what is asked about: "What does it do?"
        let placed = match lower {
            "in" | "on" | "at" => Some(hash("in")),
            "for" | "after" | "before" | "until" | "since" | "against" | "without" | "or" => Some(base),
            "do" if next.is_none() => Some(base),
            _ => None,
        };
        self.prepositions = self.prepositions.wrapping_add(placed.unwrap_or(0));
        // "gen y" is not "gen z". Letters that stand for nothing are articles, pronouns and the rest of contractions.
        if word.letter {
            weight = CONTENT;
        } else if lower.len() == 1 && lower.is_ascii() {
            weight = STOP;
        }
        if word.name && weight >= CONTENT {
            weight = NAME;
        }
        let name = (word.name || word.letter) && weight > STOP;
        let turned = if weight > STOP { contrasts::turned(&stem).map_or(0, hash) } else { 0 };
        if self.at >= self.opening && !question::polite(lower) {
            self.said.push(Said { word: base as u32, means: weight > STOP, asks: question::opens(lower) });
        }
        // The place of some stop words counts: "one minus two", "mine and theirs".
        let joined = joins(self.before) || next.is_some_and(|next| joins(hash(&next.lower)));
        let kept = weight > STOP
            || !contrasts::places(base).is_empty()
            || lower == "one"
            || joined && !question::opens(lower) && !joins(base) && !matches!(lower, "a" | "an" | "the");
        if kept {
            self.push(base, lower, weight, name, turned, word);
            if let (Some(next), Some(last)) = (next, self.terms.last_mut()) {
                last.joined = hash(&format!("{lower}{}", next.lower));
            }
        } else {
            self.quote(base, word);
            if !matches!(lower, "a" | "an" | "the" | "my" | "your" | "our") {
                self.pass(base);
            }
        }
    }

    fn push(&mut self, word: u64, lower: &str, weight: f32, name: bool, turned: u64, from: &Word<'_>) {
        self.quote(word, from);
        let before = self.pass(word);
        let participle = lower.len() > 4 && lower.ends_with("ed");
        let raw = hash(lower);
        let folded = folded(lower).map_or(raw, |folded| hash(&folded));
        self.terms.push(Term { word, raw, folded, joined: 0, turned, before, after: 0, weight, name, participle });
    }

    fn quote(&mut self, word: u64, from: &Word<'_>) {
        let quote = usize::from(from.piece.quote);
        if quote > 0 {
            self.quotes.resize_with(self.quotes.len().max(quote), Vec::new);
            self.quotes[quote - 1].push(word);
        }
    }

    /// Records a word as the successor of the last term and the predecessor of the next.
    fn pass(&mut self, word: u64) -> u64 {
        if let Some(last) = self.terms.last_mut().filter(|last| last.after == 0) {
            last.after = word;
        }
        std::mem::replace(&mut self.before, word)
    }
}

/// Code is case-sensitive; product names ("5S", "Node.js") are not.
fn exact_identifier(text: &str) -> u64 {
    let code = text.contains(['_', '(', ':', '\\', '$']);
    if code { hash(text) } else { hash(&text.to_lowercase()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_that_differ_only_in_punctuation_read_alike() {
        let of = Traits::of;
        assert_eq!(of("What's  new?").whole, of("what is new").whole);
        assert_ne!(of("what is new").whole, of("is what new").whole);
        assert!(of("I don't know").negative && !of("I do not not know").negative);
        assert!(of(&"word ".repeat(500)).cut && of(&"x".repeat(9 << 10)).cut && !of("word").cut);
    }

    proptest! {
        #[test]
        fn any_text_can_be_analysed(text in "(?s)(\\PC|[ \"'`$%-]|10|km|turn|on|march|\n){0,300}") {
            let traits = Traits::of(&text);
            prop_assert!(traits.bytes() < 40 << 10);
            prop_assert_eq!(&traits, &Traits::of(&text));
        }
    }
}
