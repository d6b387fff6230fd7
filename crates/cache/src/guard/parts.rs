//! Parts of a question that "and", "or" or "versus" joins: what the question says of their order.

use std::sync::LazyLock;

use super::{contrasts::number, lexicon::hash, question::Asked, words::Word};

/// Words by which a question puts its parts side by side.
const LEVEL: &str = "difference different distinct compare comparison contrast similar similarity relation relationship \
    related connection common about better worse prefer rather advantage disadvantage";
/// Words before a subject.
const AUXILIARIES: &str = "is are was were do does did can could will would has have";
/// Words by which the order of the parts has a sense.
const SEQUENCE: &str = "then order sequence step respectively former latter previous next last before after old new \
    left right source target start end followed file branch diff patch";

/// [`LEVEL`], [`AUXILIARIES`] and [`SEQUENCE`].
pub(super) static LISTS: LazyLock<[Vec<u64>; 3]> =
    LazyLock::new(|| [LEVEL, AUXILIARIES, SEQUENCE].map(|list| list.split_whitespace().map(number).collect()));
/// Words between coordinated parts.
pub(super) static JOINING: LazyLock<[u64; 4]> = LazyLock::new(|| ["and", "or", "vs", "versus"].map(hash));

/// Evidence of a text on the order of its parts.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing that a text does or does not")]
pub(super) struct Parts {
    /// True if it puts them side by side ahead of the first coordination: "compare …".
    pub(super) ahead: bool,
    /// True if it does so behind: "… differ".
    pub(super) behind: bool,
    /// True if it has the reader choose one.
    pub(super) choice: bool,
    /// True if their order has a sense.
    pub(super) sequence: bool,
}

impl Parts {
    /// Reads the words of a text. `exact` is true if it has numbers, code and the like.
    pub(super) fn of(words: &[Word<'_>], asked: Asked, exact: bool) -> Self {
        let [level, _, sequence] = &*LISTS;
        let numbers: Vec<u64> = words.iter().map(|word| number(&word.lower)).collect();
        let joined = words.iter().position(|word| joins(hash(&word.lower))).unwrap_or(words.len());
        let (front, back) = numbers.split_at(joined);
        let has = |words: &[u64], list: &[u64]| words.iter().any(|word| list.contains(word));
        let letters = words.iter().filter(|word| word.letter).count();
        Self {
            ahead: has(front, level),
            behind: has(back, level),
            choice: asked == Asked::Whether || words.iter().any(|word| word.lower == "which"),
            sequence: exact || letters > 1 || has(&numbers, sequence),
        }
    }
}

/// True for a word between coordinated parts.
pub(super) fn joins(word: u64) -> bool {
    JOINING.contains(&word)
}
