//! Evidence from verified hits: the rate of false hits with bounds, and the decision to stop serving a scope.
//!
//! A hit is verified by comparing its answer with one generated anew, or by its recipient's feedback. Only a sample is
//! verified. Each label is weighted by 1 over its sampling probability, so that the rate is that of all hits. Old
//! labels fade, since the questions of a scope change.

mod sums;

use std::time::Duration;

pub use self::sums::Voice;
use self::sums::{Sums, Voices};
use super::guard::{Guard, Traits, compare};
use signalbox_measure::beta;
use signalbox_types::Moment;

/// Source of a label.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Feedback of a recipient.
    Feedback,
    /// A regenerated answer is equal except for punctuation and case.
    Rerun,
    /// A regenerated answer is similar.
    Alike,
    /// A model judged the answers.
    Judge,
}

impl Source {
    /// Reliability of a label, 0 to 1, where 1 is never wrong. Chosen by reasoning, not measured.
    pub const fn weight(self) -> f32 {
        match self {
            Self::Rerun => 1.0,
            Self::Feedback => 0.9,
            Self::Judge => 0.8,
            Self::Alike => 0.7,
        }
    }

    /// Label for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Feedback => "feedback",
            Self::Rerun => "rerun",
            Self::Alike => "alike",
            Self::Judge => "judge",
        }
    }
}

/// Half-life of a label.
const HALF_LIFE: Duration = Duration::from_hours(24);
/// Probability that the true rate lies above the upper bound, and below the lower one.
const TAIL: f64 = 0.05;
/// Labels times budget that suffice to hold a scope to its budget: with this many and none false, the upper bound is
/// below the budget (the rule of three).
const ENOUGH: f64 = 3.0;
/// Largest weight of a label: one sampled with a probability of 1 in 1,000 must not decide alone.
const HEAVIEST: f64 = 50.0;

/// False hits of a scope.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Sums of weights, as of `at`.
    voices: Voices,
    at: Moment,
    shadow_only: bool,
}

/// Estimate of a scope's rate of false hits.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct FalseHitRate {
    /// Measured share of false hits; 0 without labels.
    pub rate: f64,
    /// Lower bound with a probability of 0.95.
    pub lower: f64,
    /// Upper bound with a probability of 0.95; 1 without labels.
    pub upper: f64,
    /// Equivalent number of equally weighted labels.
    pub labels: f64,
}

impl Evidence {
    /// Adds a label from `voice` for a hit, or for a would-be hit in shadow mode. `share` is its probability of being
    /// verified.
    pub fn learn(&mut self, now: Moment, same: bool, source: Source, voice: Voice, share: f64) {
        if !(share > 0.0 && share <= 1.0) {
            return;
        }
        self.voices.fade(self.left(now));
        self.at = self.at.max(now);
        self.voices.learn(voice, same, f64::from(source.weight()) * (1.0 / share).min(HEAVIEST));
    }

    /// Part of each label that is left at `now`.
    fn left(&self, now: Moment) -> f64 {
        0.5f64.powf(now.seconds_since(self.at) / HALF_LIFE.as_secs_f64())
    }

    /// Rate of false hits at `now`.
    pub fn rate(&self, now: Moment) -> FalseHitRate {
        FalseHitRate::of(&self.voices.sums(None), self.left(now))
    }

    /// Part of a voice's labels that counts, 0 to 1.
    pub fn part(&self, voice: Voice) -> f64 {
        self.voices.part(voice)
    }

    /// True if the scope must only observe and serve nothing, since its hits would be false more often than `budget`
    /// allows.
    ///
    /// That happens when the rate is certainly above the budget, or when there are enough labels and they do not show
    /// it to be below. No single caller among many can cause it: the rate must exceed the budget without that caller's
    /// labels too. Would-be hits are then still verified, and the scope serves again once the rate is shown to be
    /// below.
    pub fn shadow_only(&mut self, now: Moment, budget: f64) -> bool {
        let found = self.rate(now);
        self.shadow_only = if self.shadow_only {
            found.upper > budget
        } else {
            (found.lower > budget
                || found.labels * budget >= ENOUGH && found.upper > budget && found.rate > budget / 2.0)
                && self.has_several_witnesses(budget)
        };
        self.shadow_only
    }

    /// True if the rate exceeds the budget without the labels of any one caller.
    fn has_several_witnesses(&self, budget: f64) -> bool {
        self.voices.bounded().all(|voice| {
            let others = self.voices.sums(Some(voice));
            others.bad > budget * others.weight()
        })
    }
}

impl FalseHitRate {
    /// Computes the rate from sums of which `left` remains.
    fn of(sums: &Sums, left: f64) -> Self {
        let sum = sums.weight();
        // All sums fade alike: fewer labels remain, at the same rate.
        let labels = if sums.squares > 0.0 { left * sum * sum / sums.squares } else { 0.0 };
        if sum <= 0.0 || labels <= 0.0 {
            return Self { rate: 0.0, lower: 0.0, upper: 1.0, labels: 0.0 };
        }
        let rate = sums.bad / sum;
        let bad = rate * labels;
        Self { rate, lower: beta::lower_bound(bad, labels, TAIL), upper: beta::upper_bound(bad, labels, TAIL), labels }
    }
}

/// Result of comparing two answers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// They agree, with the source of that label.
    Same(Source),
    /// They differ.
    Different,
    /// Undecided: no label.
    Unsure,
}

/// Similarity from which on two answers without a hard difference agree.
const ALIKE: f32 = 0.90;
/// Similarity below which they differ.
const UNLIKE: f32 = 0.55;
/// Words up to which answers are compared like questions, word by word: "yes" and "no" lie close together.
const SHORT: u16 = 24;

/// Compares a stored answer with a regenerated one. `similarity` is the cosine of their vectors, where available.
pub fn answers_agree(stored: &str, regenerated: &str, similarity: Option<f32>) -> Agreement {
    let (one, other) = (Traits::of(stored), Traits::of(regenerated));
    if one.reads_like(&other) {
        return Agreement::Same(Source::Rerun);
    }
    let found = compare(&one, &other);
    let short = one.words() <= SHORT && other.words() <= SHORT;
    let hard = match found.guard {
        // The question form, the length, details and the order of words do not matter in an answer; in a long one
        // neither do single numbers and names.
        Some(Guard::Question | Guard::Length | Guard::Added | Guard::Order) | None => false,
        Some(Guard::Language) => true,
        Some(_) => short,
    };
    // "No, it is not" negates twice, and is not a yes.
    let hard = hard || verdict(stored).zip(verdict(regenerated)).is_some_and(|(one, other)| one != other);
    match similarity {
        _ if hard => Agreement::Different,
        Some(similarity) if similarity < UNLIKE => Agreement::Different,
        Some(similarity) if similarity >= ALIKE && matches!(found.guard, None | Some(Guard::Added)) => {
            Agreement::Same(Source::Alike)
        }
        _ => Agreement::Unsure,
    }
}

/// Yes or no at the beginning of an answer.
fn verdict(answer: &str) -> Option<bool> {
    let first = answer.split(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty())?;
    let is = |word: &str| first.eq_ignore_ascii_case(word);
    if is("yes") || is("true") { Some(true) } else { (is("no") || is("false")).then_some(false) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Moment = Moment::from_nanos(1);

    fn after(good: usize, bad: usize) -> Evidence {
        let mut evidence = Evidence::default();
        (0..good).for_each(|_| evidence.learn(NOW, true, Source::Rerun, Voice::Gateway, 1.0));
        (0..bad).for_each(|_| evidence.learn(NOW, false, Source::Rerun, Voice::Gateway, 1.0));
        evidence
    }

    #[test]
    fn bounds_contain_the_rate_and_narrow() {
        let none = Evidence::default().rate(NOW);
        assert!(none.labels < 1e-9 && none.upper > 0.999);
        let some = after(99, 1).rate(NOW);
        assert!(
            (some.rate - 0.01).abs() < 1e-9
                && some.lower < 0.01
                && some.upper > 0.04
                && (some.labels - 100.0).abs() < 1e-6
        );
        let more = after(990, 10).rate(NOW);
        assert!(more.lower > some.lower && more.upper < some.upper);
    }

    #[test]
    fn a_scope_stops_serving_over_its_budget_and_comes_back() {
        assert!(!Evidence::default().shadow_only(NOW, 0.01), "without evidence it serves");
        assert!(!after(50, 1).shadow_only(NOW, 0.01), "one false hit is no proof");
        assert!(!after(310, 1).shadow_only(NOW, 0.01), "nor are labels that show a third of the budget");
        assert!(after(20, 5).shadow_only(NOW, 0.01));
        assert!(after(295, 5).shadow_only(NOW, 0.01), "enough labels, and not below");
        let mut evidence = after(20, 5);
        assert!(evidence.shadow_only(NOW, 0.01));
        (0..300).for_each(|_| evidence.learn(NOW, true, Source::Rerun, Voice::Gateway, 1.0));
        assert!(evidence.shadow_only(NOW, 0.01), "not yet shown to be below");
        (0..2_000).for_each(|_| evidence.learn(NOW, true, Source::Rerun, Voice::Gateway, 1.0));
        assert!(!evidence.shadow_only(NOW, 0.01));
    }

    #[test]
    fn labels_are_weighted_by_source_and_fade() {
        let mut evidence = Evidence::default();
        evidence.learn(NOW, false, Source::Rerun, Voice::Gateway, 1.0);
        evidence.learn(NOW, true, Source::Rerun, Voice::Gateway, 0.1);
        assert!((evidence.rate(NOW).rate - 1.0 / 11.0).abs() < 1e-9);
        evidence.learn(NOW, true, Source::Rerun, Voice::Gateway, 0.0);
        assert!((evidence.rate(NOW).rate - 1.0 / 11.0).abs() < 1e-9, "what could not be drawn says nothing");
        let old = after(100, 0);
        let later = NOW.plus(HALF_LIFE * 6);
        assert!(old.rate(later).labels < 3.0 && old.rate(later).upper > 0.5);
    }

    #[test]
    fn one_caller_among_many_cannot_disable_a_scope_and_several_can() {
        let judged = |mut evidence: Evidence, voices: &[Voice]| {
            for _ in 0..200 {
                for voice in voices {
                    evidence.learn(NOW, false, Source::Feedback, *voice, 1.0);
                }
            }
            evidence
        };
        assert!(judged(Evidence::default(), &[Voice::Owner]).shadow_only(NOW, 0.01), "what is given to him alone");
        for voice in [Voice::Caller(1), Voice::Anyone] {
            assert!(!judged(Evidence::default(), &[voice]).shadow_only(NOW, 0.01));
            assert!(!judged(after(400, 0), &[voice]).shadow_only(NOW, 0.01), "against what was found out");
            assert!(judged(after(300, 4), &[voice]).shadow_only(NOW, 0.01), "with what was found out");
            assert!(judged(after(400, 0), &[voice]).rate(NOW).rate <= 0.5 + 1e-9);
        }
        let four = [1, 2, 3, 4, 5].map(Voice::Caller);
        assert!(judged(Evidence::default(), &four).shadow_only(NOW, 0.01));
    }

    #[test]
    fn answers_are_compared_by_content() {
        let of = answers_agree;
        assert_eq!(of("It is 42.", "it is 42", None), Agreement::Same(Source::Rerun));
        assert_eq!(of("It is 42.", "It is 43.", Some(0.99)), Agreement::Different);
        assert_eq!(of("Yes, it is.", "No, it is not.", Some(0.9)), Agreement::Different);
        assert_eq!(
            of("The capital is Paris.", "The capital city is Paris.", Some(0.97)),
            Agreement::Same(Source::Alike)
        );
        assert_eq!(of("The capital is Paris.", "The capital city is Paris.", None), Agreement::Unsure);
        assert_eq!(of("Boil it.", "A long walk along the river.", Some(0.1)), Agreement::Different);
    }

    proptest! {
        #[test]
        fn a_rate_lies_between_its_bounds(labels in prop::collection::vec((any::<bool>(), 0.02f64..1.0, 0u64..1 << 50), 0..60)) {
            let mut evidence = Evidence::default();
            let mut now = NOW;
            for (same, share, nanos) in labels {
                now = now.plus(Duration::from_nanos(nanos >> 4));
                evidence.learn(now, same, Source::Feedback, Voice::Caller(nanos % 7), share);
                let found = evidence.rate(now);
                prop_assert!(found.lower <= found.rate + 1e-9 && found.rate <= found.upper + 1e-9);
                prop_assert!((0.0..=1.0).contains(&found.lower) && (0.0..=1.0).contains(&found.upper));
            }
        }
    }
}
