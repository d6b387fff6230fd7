//! The lexicon of cues: words and phrases that indicate a kind of work, matched by one automaton built at first use.

use std::{ops::Range, sync::LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, Match, MatchKind};

/// Number of cue kinds.
pub(super) const CUES: usize = 8;

/// The words of each kind, one kind per line in the order of [`Cue`], with `_` for a space. Chosen by reason, not by
/// their frequency in benchmarks.
const WORDS: &str = include_str!("cues.txt");

/// The kind of work that a word or phrase indicates.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Cue {
    Calculation,
    Relation,
    Programming,
    Making,
    Why,
    Step,
    Comparison,
    Condition,
}

/// An automaton with the cue kinds of each pattern as a bit set, since a word may have several.
struct Lexicon {
    automaton: AhoCorasick,
    kinds: Vec<u32>,
}

static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| {
    let mut patterns: Vec<String> = Vec::new();
    let mut kinds: Vec<u32> = Vec::new();
    for (kind, line) in WORDS.lines().enumerate() {
        for word in words_of(line) {
            if let Some(at) = patterns.iter().position(|known| *known == word) {
                kinds[at] |= 1 << kind;
            } else {
                patterns.push(word);
                kinds.push(1 << kind);
            }
        }
    }
    let automaton = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::LeftmostLongest)
        .kind(Some(AhoCorasickKind::DFA))
        // The words begin with nearly every letter, so a prefilter cannot skip anything.
        .prefilter(false)
        .build(&patterns);
    Lexicon { automaton: automaton.expect("a few hundred short words make an automaton"), kinds }
});

/// Builds the automaton.
pub(super) fn warm_up() {
    LazyLock::force(&LEXICON);
}

/// True if the automaton is built.
pub(super) fn is_warm() -> bool {
    LazyLock::get(&LEXICON).is_some()
}

/// The words and phrases of a line, after the name of their kind.
fn words_of(line: &str) -> impl Iterator<Item = String> {
    let words = line.split_once(':').map_or("", |(_, words)| words);
    words.split_whitespace().map(|word| word.replace('_', " "))
}

/// The cues in `text` in order: each range, with its kinds as a bit set. Only whole words count.
pub(super) fn find(text: &[u8]) -> impl Iterator<Item = (Range<usize>, u32)> {
    let lexicon = &*LEXICON;
    let in_word = |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(|byte| is_letter(*byte));
    let whole = move |found: &Match| !in_word(found.start().checked_sub(1)) && !in_word(Some(found.end()));
    lexicon.automaton.find_iter(text).filter(whole).map(|found| (found.range(), lexicon.kinds[found.pattern()]))
}

/// True if a byte belongs to a word: letters, digits, `_` and everything beyond ASCII.
pub(super) fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || byte == b'_'
}

/// Every word of the lexicon, for adversarial test texts.
#[cfg(test)]
pub(super) fn words() -> Vec<String> {
    WORDS.lines().flat_map(words_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_count_in_any_case() {
        let text = b"SUPPOSE that evaluations (evaluate) of if_so in C++ are iffy; how_much, how much";
        let count = |cue: Cue| find(text).filter(|(_, kinds)| kinds & 1 << cue as u32 != 0).count();
        assert_eq!(count(Cue::Condition), 1);
        assert_eq!(count(Cue::Calculation), 2, "`evaluate` and `how much`");
        assert_eq!(count(Cue::Why), 0, "`how much` is one cue, and not also `how`");
        assert_eq!(count(Cue::Programming), 1);
        assert_eq!(find(text).next(), Some((0..7, 1 << Cue::Condition as u32)));
    }

    #[test]
    fn every_line_is_that_of_its_cue() {
        let cues: [Cue; CUES] = [
            Cue::Calculation,
            Cue::Relation,
            Cue::Programming,
            Cue::Making,
            Cue::Why,
            Cue::Step,
            Cue::Comparison,
            Cue::Condition,
        ];
        assert_eq!(WORDS.lines().count(), CUES);
        for (line, cue) in WORDS.lines().zip(cues) {
            assert!(line.starts_with(&format!("{cue:?}: ")), "{line}");
        }
    }
}
