//! The lexicon of cues: words and phrases that indicate a kind of work, matched by one automaton built at first use.

use std::{ops::Range, sync::LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, Match, MatchKind};

/// Number of cue kinds.
pub(super) const CUES: usize = 21;

/// Each kind's words, several for one purpose, `_` for a space. Chosen by reason, not by how often benchmarks use them.
const WORDS: [(Cue, &str); CUES] = [
    (
        Cue::Calculation,
        "calculate compute solve evaluate simplify determine find estimate convert how_many how_much total",
    ),
    (Cue::Proof, "prove proof proves derive derivation show_that justify demonstrate verify disprove"),
    (
        Cue::Relation,
        "each every twice half times more_than less_than fewer remaining left altogether per older younger difference \
         between",
    ),
    (
        Cue::Mathematics,
        "equation integer integers polynomial triangle probability function matrix integral derivative vector theorem modulo \
         divisible factor factors prime remainder ratio percent percentage angle radius circle square graph sum product \
         fraction slope logarithm permutation set ring perpendicular coordinates average median variance",
    ),
    (
        Cue::Programming,
        "function program code algorithm python javascript typescript java rust c++ sql query class method array string list \
         tuple dictionary regex api implement compile return recursive script html css json bug debug refactor",
    ),
    (Cue::Making, "write create generate implement design build develop compose draft"),
    (
        Cue::Explaining,
        "explain analyze analyse discuss compare contrast evaluate critique assess interpret argue summarize summarise \
         describe outline",
    ),
    (Cue::Why, "why how"),
    (Cue::Negation, "not except never without unless neither nor none unlikely incorrect false least cannot"),
    (
        Cue::Constraint,
        "must should exactly only at_least at_most within no_more_than no_less_than given_that such_that ensure require \
         requires required satisfy satisfies constraint following_conditions",
    ),
    (Cue::Step, "first then next after before finally step steps subsequently later eventually meanwhile"),
    (
        Cue::Comparison,
        "more less most least greater larger smaller higher lower better worse best than maximum minimum",
    ),
    (Cue::Condition, "if suppose assume assuming given let whether would could when unless provided hypothetical"),
    (
        Cue::Subordination,
        "because although though while which that who whom whose since therefore thus hence however despite whereas",
    ),
    (
        Cue::Law,
        "court plaintiff defendant statute contract liability negligence tort jurisdiction constitutional amendment appeal \
         prosecution evidence legal law lawyer attorney crime murder guilty sued suit trial property deed landlord buyer \
         seller damages",
    ),
    (
        Cue::Medicine,
        "patient diagnosis treatment symptoms clinical disease syndrome mg blood pressure examination therapy chronic acute \
         pain infection hospital physician temperature pulse",
    ),
    (
        Cue::Science,
        "energy electron molecule reaction enzyme protein gene dna cell velocity force mass acceleration voltage current \
         equilibrium oxidation quantum particle wavelength solution acid concentration species",
    ),
    (
        Cue::Finance,
        "cost price profit tax revenue income interest rate inventory cash asset assets liabilities company demand market \
         firm dollars",
    ),
    (
        Cue::Logic,
        "true statement statements argument premise premises conclusion valid invalid implies logically follows \
         symbolization formula proposition",
    ),
    (
        Cue::Abstraction,
        "theory concept principle perspective approach policy relationship analysis process structure method system context \
         significance implications",
    ),
    (Cue::Reading, "passage author text paragraph article according_to excerpt speaker writer"),
];

/// The kind of work that a word or phrase indicates.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Cue {
    Calculation,
    Proof,
    Relation,
    Mathematics,
    Programming,
    Making,
    Explaining,
    Why,
    Negation,
    Constraint,
    Step,
    Comparison,
    Condition,
    Subordination,
    Law,
    Medicine,
    Science,
    Finance,
    Logic,
    Abstraction,
    Reading,
}

/// An automaton with the cue kinds of each pattern as a bit set, since a word may have several.
struct Lexicon {
    automaton: AhoCorasick,
    kinds: Vec<u32>,
}

static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| {
    let mut patterns: Vec<String> = Vec::new();
    let mut kinds: Vec<u32> = Vec::new();
    for (cue, words) in &WORDS {
        for word in words.split_whitespace().map(|word| word.replace('_', " ")) {
            if let Some(at) = patterns.iter().position(|known| *known == word) {
                kinds[at] |= 1 << *cue as u32;
            } else {
                patterns.push(word);
                kinds.push(1 << *cue as u32);
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
    WORDS.iter().flat_map(|(_, words)| words.split_whitespace()).map(|word| word.replace('_', " ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_count_in_any_case() {
        let text = b"PROVE that evaluations (evaluate) show that C++ is showing; how_much, how much";
        let count = |cue: Cue| find(text).filter(|(_, kinds)| kinds & 1 << cue as u32 != 0).count();
        assert_eq!(count(Cue::Proof), 2);
        assert_eq!(count(Cue::Explaining), 1);
        assert_eq!(count(Cue::Calculation), 2, "`evaluate` and `how much`");
        assert_eq!(count(Cue::Why), 0, "`how much` is one cue, and not also `how`");
        assert_eq!(count(Cue::Programming), 1);
        assert_eq!(find(text).next(), Some((0..5, 1 << Cue::Proof as u32)));
    }

    #[test]
    fn cue_kinds_match_their_index() {
        for (at, (cue, _)) in WORDS.iter().enumerate() {
            assert_eq!(at, *cue as usize);
        }
    }
}
