//! The features of a prompt: each a reason to prefer a larger model, in a few buckets, larger for harder.

use super::{
    lexicon::Cue,
    scan::{Counts, scan},
    terms::Terms,
};
use crate::types::{Effort, Outline};

/// Number of features.
pub const FEATURES: usize = 56;

/// The family of a feature. Form and cues are cheap to add to a prompt, so together they move its score by no more than
/// `MAX_QUALITY_LOSS` in `score`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Family {
    /// The amount of plain text to read. Text that counts as form or as a cue is not counted again here.
    Length,
    /// The form of the writing.
    Form,
    /// Words and phrases.
    Cues,
    /// Members of the request beside its text.
    Request,
}

/// One feature.
#[derive(Copy, Clone, Debug)]
pub struct Feature {
    /// The name, used in reasons and in the weights file.
    pub name: &'static str,
    /// The family.
    pub family: Family,
    /// The weight before any data, in units of the gap.
    pub prior: f32,
    /// The value at which each bucket above the first begins.
    knots: &'static [f32],
    value: fn(&Counts, &Outline) -> f32,
}

impl Feature {
    /// True if its weight is fitted to data. The data are plain prompts without tools, turns or images.
    #[cfg(test)]
    pub(super) fn is_fitted(&self) -> bool {
        self.family != Family::Request
    }
}

const fn feature(
    name: &'static str,
    family: Family,
    prior: f32,
    knots: &'static [f32],
    value: fn(&Counts, &Outline) -> f32,
) -> Feature {
    Feature { name, family, prior, knots, value }
}

/// Knots for frequent and for rare cues.
const MANY: &[f32] = &[1.0, 2.0, 4.0, 8.0];
const FEW: &[f32] = &[1.0, 2.0, 4.0];

macro_rules! cue {
    ($name:literal, $cue:ident, $prior:literal, $knots:expr) => {
        feature($name, Family::Cues, $prior, $knots, |counts, _| counts.cues[Cue::$cue as usize] as f32)
    };
}

/// All features.
pub const TABLE: [Feature; FEATURES] = [
    feature(
        "words",
        Family::Length,
        0.1,
        &[6.0, 10.0, 16.0, 25.0, 40.0, 60.0, 90.0, 130.0, 200.0, 300.0, 450.0],
        |c, _| c.words as f32,
    ),
    feature("sentences", Family::Length, 0.01, &[2.0, 3.0, 4.0, 6.0, 9.0], |c, _| c.sentences as f32),
    feature("sentence_length", Family::Length, 0.02, &[8.0, 11.0, 14.0, 18.0, 23.0], |c, _| {
        ratio(c.words, c.sentences.max(1))
    }),
    feature("longest_sentence", Family::Length, 0.01, &[12.0, 18.0, 25.0, 35.0, 50.0], |c, _| {
        c.longest_sentence as f32
    }),
    feature("distinct_words", Family::Length, 0.01, &[10.0, 16.0, 25.0, 40.0, 60.0, 90.0, 130.0], |c, _| {
        c.distinct_words as f32
    }),
    feature("repeated_words", Family::Form, 0.02, &[0.05, 0.12, 0.2, 0.3, 0.4], |c, _| {
        if c.words < 8 { 0.0 } else { 1.0 - ratio(c.distinct_words, c.words) }
    }),
    feature("commas", Family::Form, 0.01, MANY, |c, _| c.commas as f32),
    feature("clauses", Family::Form, 0.01, FEW, |c, _| c.clauses as f32),
    feature("long_words", Family::Form, 0.01, &[0.15, 0.22, 0.3, 0.4], |c, _| {
        if c.all_words < 8 { 0.0 } else { ratio(c.long_words, c.all_words) }
    }),
    feature("very_long_words", Family::Form, 0.01, MANY, |c, _| c.very_long_words as f32),
    feature("names", Family::Form, 0.01, &[2.0, 5.0, 10.0], |c, _| c.capitalised as f32),
    feature("quotes", Family::Form, 0.01, &[1.0, 3.0, 6.0], |c, _| c.quotes as f32),
    feature("questions", Family::Form, 0.01, &[2.0, 3.0, 5.0], |c, _| c.questions as f32),
    feature("list_items", Family::Form, 0.02, &[1.0, 3.0, 6.0], |c, _| c.list_items as f32),
    feature("other_scripts", Family::Form, 0.02, &[0.02, 0.2, 0.5], |c, _| ratio(c.foreign, c.letters.max(1))),
    feature("numbers", Family::Form, 0.01, &[1.0, 2.0, 3.0, 5.0, 8.0], |c, _| c.numbers as f32),
    feature("large_numbers", Family::Form, 0.005, &[1.0, 3.0], |c, _| c.large_numbers as f32),
    feature("fractions", Family::Form, 0.005, FEW, |c, _| c.fractions as f32),
    feature("variables", Family::Form, 0.005, MANY, |c, _| c.single_letters as f32),
    feature("operators", Family::Form, 0.005, MANY, |c, _| c.operators as f32),
    feature("latex", Family::Form, 0.005, &[1.0, 3.0, 6.0], |c, _| c.latex as f32),
    feature("code", Family::Form, 0.02, &[1.0, 3.0, 6.0, 12.0], |c, _| c.code_marks as f32),
    feature("brackets", Family::Form, 0.005, &[2.0, 6.0, 12.0], |c, _| c.brackets as f32),
    feature("fenced_code", Family::Form, 0.03, &[1.0, 400.0, 2000.0], |c, _| c.fenced as f32),
    feature("stack_trace", Family::Form, 0.04, &[1.0, 3.0], |c, _| c.trace_lines as f32),
    cue!("calculation", Calculation, 0.01, FEW),
    cue!("proof", Proof, 0.03, FEW),
    cue!("relations", Relation, 0.02, MANY),
    cue!("mathematics", Mathematics, 0.01, MANY),
    cue!("programming", Programming, 0.03, MANY),
    cue!("making", Making, 0.02, FEW),
    cue!("explaining", Explaining, 0.02, FEW),
    cue!("why", Why, 0.02, FEW),
    cue!("negations", Negation, 0.02, FEW),
    cue!("constraints", Constraint, 0.02, FEW),
    cue!("steps", Step, 0.02, FEW),
    cue!("comparisons", Comparison, 0.02, MANY),
    cue!("conditions", Condition, 0.02, MANY),
    cue!("subordination", Subordination, 0.02, MANY),
    cue!("law", Law, 0.02, MANY),
    cue!("medicine", Medicine, 0.02, MANY),
    cue!("science", Science, 0.02, MANY),
    cue!("finance", Finance, 0.02, MANY),
    cue!("logic", Logic, 0.02, FEW),
    cue!("abstraction", Abstraction, 0.02, FEW),
    cue!("reading", Reading, 0.01, FEW),
    feature("turns", Family::Request, 0.02, &[2.0, 4.0, 8.0, 16.0], |_, o| o.turns as f32),
    feature("earlier_answers", Family::Request, 0.02, &[500.0, 2000.0, 8000.0], |_, o| o.longest_answer as f32),
    feature("system_prompt", Family::Request, 0.02, &[500.0, 2000.0, 8000.0, 32_000.0], |_, o| o.system_bytes as f32),
    feature("tools", Family::Request, 0.03, &[1.0, 4.0, 12.0], |_, o| o.tools as f32),
    feature("tool_forced", Family::Request, 0.01, &[1.0], |_, o| f32::from(u8::from(o.tool_forced))),
    feature("tool_loop", Family::Request, 0.03, &[1.0, 4.0, 12.0], |_, o| {
        if o.in_tool_loop { o.tool_results.max(1) as f32 } else { 0.0 }
    }),
    feature("schema", Family::Request, 0.02, &[1.0, 3.0, 5.0], |_, o| o.schema_depth as f32),
    feature("attachments", Family::Request, 0.03, &[1.0, 2.0, 4.0], |_, o| (o.images + o.audio + o.files) as f32),
    feature("long_answer", Family::Request, 0.02, &[1024.0, 4096.0, 16_384.0], |_, o| {
        o.max_tokens.map_or(0.0, |tokens| tokens as f32)
    }),
    feature("effort", Family::Request, 0.06, &[1.0, 2.0, 3.0], |_, o| match o.effort {
        Effort::Unspecified | Effort::Minimal => 0.0,
        Effort::Low => 1.0,
        Effort::Medium => 2.0,
        Effort::High => 3.0,
    }),
];

fn ratio(part: u32, whole: u32) -> f32 {
    part as f32 / whole.max(1) as f32
}

/// The features of one prompt, and its terms for weights learned on own traffic. Allocation-free.
#[derive(Clone, Debug, PartialEq)]
pub struct Features {
    /// The share of its buckets that each feature has reached, in the order of [`TABLE`]; in `0..=1`.
    pub levels: [f32; FEATURES],
    /// The hashed words and word pairs.
    pub terms: Terms,
}

impl Features {
    /// Extracts a request's features in one pass over the text of its outline.
    pub fn of(outline: &Outline) -> Self {
        let counts = scan(&outline.text);
        let levels = std::array::from_fn(|at| {
            let feature = &TABLE[at];
            let value = (feature.value)(&counts, outline);
            let reached = feature.knots.iter().filter(|knot| value >= **knot).count();
            reached as f32 / feature.knots.len() as f32
        });
        Self { levels, terms: Terms::of(&outline.text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(name: &str, outline: &Outline) -> f32 {
        let at = TABLE.iter().position(|feature| feature.name == name).expect("a feature");
        Features::of(outline).levels[at]
    }

    #[test]
    fn names_differ_and_knots_rise() {
        for (at, feature) in TABLE.iter().enumerate() {
            assert!(TABLE[..at].iter().all(|other| other.name != feature.name), "{}", feature.name);
            assert!(feature.knots.windows(2).all(|pair| pair[0] < pair[1]) && feature.knots[0] > 0.0);
            assert!(feature.prior >= 0.0);
        }
    }

    #[test]
    fn levels_are_shares_of_buckets() {
        let of = |text: &str| Outline::of_text(text);
        assert!(level("words", &of("")) == 0.0 && level("words", &of(&"word ".repeat(500))) >= 1.0);
        assert!((level("proof", &of("Prove it, and derive the rest.")) - 2.0 / 3.0).abs() < 1e-6);
        assert!(level("latex", &of(r"$\frac{1}{2}$")) > 0.0);
        let asked = Outline { tools: 5, effort: Effort::High, ..Outline::of_text("x") };
        assert!((level("tools", &asked) - 2.0 / 3.0).abs() < 1e-6 && level("effort", &asked) >= 1.0);
    }
}
