//! The features of a prompt: each a reason to prefer a larger model, in a few buckets, larger for harder.

use super::{
    follow_up,
    lexicon::Cue,
    question,
    scan::{Counts, scan},
    terms::Terms,
};
use signalbox_types::{Effort, Outline};

/// Number of features.
pub const FEATURES: usize = 23;

/// The family of a feature. Form and cues are cheap to add to a prompt, so together they move its score by no more than
/// `MAX_QUALITY_LOSS` in `score`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Family {
    /// The amount of plain text to read. Text that counts as form or as a cue is not counted again here.
    Length,
    /// The form of the writing.
    Form,
    /// Signs of work that small and large models fail at alike: they lower the expected quality, not the gap.
    Hardness,
    /// Words and phrases.
    Cues,
    /// The kind of work, which can make a prompt easier too.
    Work,
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
    /// The value at which each bucket above the first begins. Without any, the value is the level.
    knots: &'static [f32],
    value: fn(&Counts, &Outline) -> f32,
}

impl Feature {
    /// True if its weight is fitted to outcomes. These are of plain prompts without tools, turns or images, and of few
    /// kinds of work.
    pub(super) fn is_fitted(&self) -> bool {
        !matches!(self.family, Family::Request | Family::Work)
    }

    /// True if it counts in the gap.
    pub(super) fn in_gap(&self) -> bool {
        self.family != Family::Hardness
    }

    /// The level that moves nothing.
    pub(super) fn neutral(&self) -> f32 {
        if self.family == Family::Work { 0.5 } else { 0.0 }
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
    feature("numbers", Family::Hardness, 0.01, &[1.0, 2.0, 3.0, 5.0, 8.0], |c, _| c.numbers as f32),
    feature("list_items", Family::Hardness, 0.02, &[1.0, 3.0, 6.0], |c, _| c.list_items as f32),
    feature("fenced_code", Family::Form, 0.03, &[1.0, 400.0, 2000.0], |c, _| c.fenced as f32),
    feature("stack_trace", Family::Form, 0.04, &[1.0, 3.0], |c, _| c.trace_lines as f32),
    cue!("calculation", Calculation, 0.01, FEW),
    cue!("relations", Relation, 0.02, MANY),
    cue!("programming", Programming, 0.03, MANY),
    cue!("making", Making, 0.02, FEW),
    cue!("why", Why, 0.02, FEW),
    cue!("steps", Step, 0.02, FEW),
    cue!("comparisons", Comparison, 0.02, MANY),
    cue!("conditions", Condition, 0.02, MANY),
    feature("kind_of_work", Family::Work, 0.1, &[], |c, _| c.work),
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

/// The features of one prompt, and its terms for weights learned on own traffic.
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
        let mut own = levels(&outline.text, outline);
        if let Some(question) = question::lone(&outline.text) {
            let alone = levels(question, outline);
            own.iter_mut().zip(alone).for_each(|(own, alone)| *own = alone + question::SHARE * (*own - alone));
        }
        let mut blended = own;
        if !outline.earlier_turns.is_empty() {
            for (turn, weight) in follow_up::weights(&outline.text, outline.earlier()) {
                let turn = levels(turn, outline);
                for ((level, own), turn) in blended.iter_mut().zip(own).zip(turn) {
                    *level += weight * (turn - own);
                }
            }
        }
        Self { levels: blended, terms: Terms::of(&outline.text) }
    }
}

/// The levels that a text has in a request.
fn levels(text: &str, outline: &Outline) -> [f32; FEATURES] {
    let counts = scan(text);
    TABLE.map(|feature| {
        let value = (feature.value)(&counts, outline);
        if feature.knots.is_empty() {
            return value;
        }
        let reached = feature.knots.iter().filter(|knot| value >= **knot).count();
        reached as f32 / feature.knots.len() as f32
    })
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
            assert!(
                feature.knots.windows(2).all(|pair| pair[0] < pair[1])
                    && feature.knots.first().is_none_or(|knot| *knot > 0.0)
            );
            assert!(feature.prior >= 0.0);
        }
    }

    #[test]
    fn levels_are_shares_of_buckets() {
        let of = |text: &str| Outline::of_text(text);
        assert!(level("words", &of("")) == 0.0 && level("words", &of(&"word ".repeat(500))) >= 1.0);
        assert!((level("calculation", &of("Solve it, and compute the rest.")) - 2.0 / 3.0).abs() < 1e-6);
        assert!(level("kind_of_work", &of("Prove the theorem.")) > 0.6 && level("kind_of_work", &of("thanks!")) < 0.4);
        assert!((level("kind_of_work", &of("")) - 0.5).abs() < 1e-6);
        let asked = Outline { tools: 5, effort: Effort::High, ..Outline::of_text("x") };
        assert!((level("tools", &asked) - 2.0 / 3.0).abs() < 1e-6 && level("effort", &asked) >= 1.0);
    }
}
