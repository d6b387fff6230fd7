//! Computes the complexity score of features under given weights, with the reasons.

use serde::{Deserialize, Serialize};

use super::{
    features::{Family, Features, TABLE},
    weights::{Linear, PerFeature, Weights},
};
use signalbox_types::{Complexity, Contribution, complexity::REASONS};

/// The most that form and cues together can move the score: a prompt can overtake at most this share of the fitted ones
/// with them. They can lower the small model's quality by at most this share of its range. A smaller cap resists
/// manipulation better but distinguishes prompts less (`docs/benchmarks/complexity.md`).
pub(super) const MAX_QUALITY_LOSS: f32 = 0.45;

/// The most that the request's members beside its text can add together, in units of the gap.
const MOST_OF_REQUEST: f32 = 0.12;

/// The most that weights learned on own traffic can add or subtract, in units of the gap.
const MOST_LEARNED: f32 = 0.5;

/// A prompt's weighted features, in units of the gap.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sums {
    /// Length and the request's members.
    pub(super) base: f32,
    /// Form, cues and the kind of work.
    pub(super) added: f32,
}

impl Sums {
    pub(super) fn of(features: &Features, weights: &PerFeature) -> Self {
        let mut sums = [0.0; 6];
        for ((feature, level), weight) in TABLE.iter().zip(&features.levels).zip(&weights.0) {
            sums[feature.family as usize] += (level - feature.neutral()) * weight;
        }
        let of = |family: Family| sums[family as usize];
        Self {
            base: of(Family::Length) + of(Family::Request).min(MOST_OF_REQUEST),
            added: of(Family::Form) + of(Family::Hardness) + of(Family::Cues) + of(Family::Work),
        }
    }

    /// The total, limited to [`MAX_QUALITY_LOSS`] above the base in score; `learned` counts as base.
    pub(super) fn capped(self, learned: f32, weights: &Weights) -> f32 {
        let base = self.base + learned;
        (base + self.added).min(weights.sum_at(weights.quantile(base) + MAX_QUALITY_LOSS))
    }

    /// The share of the fitted prompts with a lower sum.
    fn share(self, learned: f32, weights: &Weights) -> f32 {
        // Limited again, since rounding of a sum shows where quantiles are close.
        let most = weights.quantile(self.base + learned) + MAX_QUALITY_LOSS;
        weights.quantile(self.capped(learned, weights)).min(most)
    }
}

/// The complexity of a prompt under `weights`.
pub fn score(features: &Features, weights: &Weights) -> Complexity {
    let (sums, learned) = (Sums::of(features, &weights.gap), learned_gap(features, weights));
    let better = weights.learned.as_ref().map_or(0.0, |learned| linear(features, weights, &learned.quality));
    let support = &weights.support;
    let distance = support.distance(&features.levels);
    let confidence = (support.far - distance) / (support.far - support.near).max(f32::EPSILON);
    let share = |value: f32| f64::from(value.clamp(0.0, 1.0));
    Complexity {
        score: share(sums.share(learned, weights)),
        quality: share(quality(Sums::of(features, &weights.hardness), weights) + better),
        gap: share(weights.gap_line.at(sums.capped(0.0, weights)) + learned),
        confidence: share(confidence),
        reasons: reasons(features, weights, learned),
    }
}

/// The sum that prompts are ranked by; the score is its quantile.
pub fn ranking(features: &Features, weights: &Weights) -> f32 {
    Sums::of(features, &weights.gap).capped(learned_gap(features, weights), weights)
}

fn quality(hardness: Sums, weights: &Weights) -> f32 {
    let line = &weights.quality_line;
    line.at(hardness.base + hardness.added).max(line.at(hardness.base) - MAX_QUALITY_LOSS * line.span())
}

fn learned_gap(features: &Features, weights: &Weights) -> f32 {
    weights.learned.as_ref().map_or(0.0, |learned| linear(features, weights, &learned.gap))
}

fn linear(features: &Features, weights: &Weights, linear: &Linear) -> f32 {
    let levels = features.levels.iter().zip(&weights.support.mean.0).zip(&linear.levels.0);
    let levels: f32 = levels.map(|((level, mean), weight)| (level - mean) * weight).sum();
    let terms = features.terms.places().iter().filter_map(|place| linear.terms.get(usize::from(*place)));
    let terms = terms.sum::<f32>() * features.terms.scale();
    (linear.offset + levels + terms).clamp(-MOST_LEARNED, MOST_LEARNED)
}

/// The strongest contributions in descending order.
fn reasons(features: &Features, weights: &Weights, learned: f32) -> [Contribution; REASONS] {
    let mut reasons = [Contribution::default(); REASONS];
    let mut enter = |feature: &'static str, amount: f32| {
        let amount = f64::from(amount);
        let after = |other: &Contribution| other.amount.abs() < amount.abs();
        if let Some(at) = reasons.iter().position(after) {
            reasons[at..].rotate_right(1);
            reasons[at] = Contribution { feature, amount };
        }
    };
    for ((feature, level), weight) in TABLE.iter().zip(&features.levels).zip(&weights.gap.0) {
        enter(feature.name, (level - feature.neutral()) * weight);
    }
    enter("own traffic", learned);
    reasons
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{features::FEATURES, lexicon::words, weights::Learned},
        *,
    };
    use signalbox_types::Outline;

    fn of(text: &str) -> Complexity {
        score(&Features::of(&Outline::of_text(text)), Weights::built_in())
    }

    #[test]
    fn harder_prompts_score_higher_with_reasons() {
        let easy = of("who sings i've got to be me");
        let hard = of(
            "Write a function that, given a list of intervals, returns the maximum number that overlap at any point. \
             Prove that it is correct, explain its complexity, and compare it with a solution that sorts first. It must not \
             use more than linear memory, and if the list is empty it should return zero.",
        );
        assert!(hard.score > easy.score + 0.3, "{easy:?} {hard:?}");
        assert!(hard.gap > easy.gap && hard.quality < easy.quality);
        assert!(hard.reasons.iter().all(|reason| !reason.feature.is_empty() && reason.amount > 0.0));
        assert!(hard.reasons.windows(2).all(|pair| pair[0].amount >= pair[1].amount));
    }

    #[test]
    fn pasted_text_makes_a_prompt_long_not_hard() {
        let pasted = "Prove that if the court must first derive the integral, then no more than each theorem follows. "
            .repeat(30);
        let plain = of("Sum this up.");
        for text in [
            format!("Sum this up.\n```\n{pasted}\n```\n"),
            format!("Sum this up.\n<document>\n{pasted}\n</document>\n"),
            format!("Sum this up.\n<system-reminder>\n{pasted}\n</system-reminder>"),
            format!("Sum this up.\n> {pasted}\n"),
        ] {
            assert!(of(&text).score <= plain.score + f64::from(MAX_QUALITY_LOSS) + 1e-6, "{:?}", of(&text));
        }
    }

    #[test]
    fn confidence_is_low_far_from_the_fitted_prompts() {
        let usual = of("If a train leaves at 3 and drives 60 miles an hour, how far does it come by 5?");
        assert!(usual.confidence > 0.6, "{usual:?}");
        let odd = Outline {
            images: 3,
            tools: 20,
            in_tool_loop: true,
            tool_results: 9,
            turns: 12,
            ..Outline::of_text("请证明这个定理")
        };
        let odd = score(&Features::of(&odd), Weights::built_in());
        assert!(odd.confidence < 0.3, "{odd:?}");
    }

    /// Text that imitates work: words that count as cues, numbers, mathematics, code.
    fn lures() -> Vec<String> {
        let more =
            ["42", "3.14", "75%", "x", "f(y)", r"$\frac{1}{2}$", r"\sum", "==", "{};", "a[0]", "**", "->", "- x"];
        words().into_iter().chain(more.map(str::to_owned)).collect()
    }

    const BASES: [&str; 5] = [
        "",
        "Hi",
        "who sings i've got to be me",
        "If a train leaves at 3 and drives 60 miles an hour, how far does it come by 5?",
        "The court held that the seller was liable because the contract, which both parties had signed before the first delivery, \
         required that every item be inspected within thirty days. Is the buyer, who did not look at the boxes until the end of \
         the second month, still free to send them back, and who has to pay for the way?",
    ];

    /// By how much a suffix raises the score and lowers the expected quality, relative to a prompt of the same length
    /// whose kind of work is unknown, or to the prompt itself if that is harder.
    fn moved(text: &str, suffix: &str) -> (f64, f64) {
        let weights = Weights::built_in();
        let mut unknown = Features::of(&Outline::of_text(text));
        for (level, feature) in unknown.levels.iter_mut().zip(TABLE) {
            if feature.family == Family::Work {
                *level = level.max(feature.neutral());
            }
        }
        let (plain, attacked) = (score(&unknown, weights), of(&format!("{text} {suffix}")));
        (attacked.score - plain.score, plain.quality - attacked.quality)
    }

    fn is_capped(moved: (f64, f64)) -> bool {
        let most = f64::from(MAX_QUALITY_LOSS);
        moved.0 <= most + 1e-6 && moved.1 <= most * f64::from(Weights::built_in().quality_line.span()) + 1e-6
    }

    #[test]
    fn one_lure_two_hundred_times_moves_the_score_by_no_more_than_the_cap() {
        for text in BASES {
            for lure in lures() {
                let moved = moved(text, &[lure.as_str(); 200].join(" "));
                assert!(is_capped(moved), "{text:?} with {lure:?}: {moved:?}");
            }
        }
    }

    #[test]
    fn no_single_feature_decides() {
        let weights = Weights::built_in();
        let cheap = |family: Family| !matches!(family, Family::Length | Family::Request);
        for (at, feature) in TABLE.iter().enumerate().filter(|(_, feature)| cheap(feature.family)) {
            let mut features = Features::of(&Outline::default());
            features.levels[at] = 1.0;
            let high = score(&features, weights).score - f64::from(weights.quantile(0.0));
            assert!(high <= f64::from(MAX_QUALITY_LOSS) + 1e-6, "{}: {high}", feature.name);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(1), cases: 256, ..ProptestConfig::default() })]

        #[test]
        fn two_hundred_lures_move_the_score_by_no_more_than_the_cap(
            text in prop_oneof![prop::sample::select(BASES.map(str::to_owned).to_vec()), "[a-z ,.?0-9]{0,300}"],
            suffix in prop::collection::vec(prop::sample::select(lures()), 200),
        ) {
            let moved = moved(&text, &suffix.join(" "));
            prop_assert!(is_capped(moved), "{moved:?}");
        }

        /// For any levels and learned weights, form and cues add no more than the cap.
        #[test]
        fn form_and_cues_add_no_more_than_the_cap(levels in prop::collection::vec(0.0..=1.0_f32, FEATURES), offset in -0.2..0.2_f32) {
            let gap = Linear { offset, ..Linear::default() };
            let learned = Some(Learned { gap, ..Learned::default() });
            let weights = Weights { learned, ..Weights::built_in().clone() };
            let mut features = Features::of(&Outline::default());
            features.levels.copy_from_slice(&levels);
            let high = score(&features, &weights).score;
            for (level, feature) in features.levels.iter_mut().zip(TABLE) {
                if !matches!(feature.family, Family::Length | Family::Request) {
                    *level = feature.neutral();
                }
            }
            let low = score(&features, &weights).score;
            prop_assert!(high - low <= f64::from(MAX_QUALITY_LOSS) + 1e-6, "{low} to {high}");
        }

        #[test]
        fn scores_are_in_bounds_and_rise_with_every_level(levels in prop::collection::vec(0.0..=1.0_f32, FEATURES), at in 0..FEATURES) {
            let mut features = Features::of(&Outline::default());
            features.levels.copy_from_slice(&levels);
            let low = score(&features, Weights::built_in());
            features.levels[at] = 1.0;
            let high = score(&features, Weights::built_in());
            prop_assert!(high.score >= low.score && high.gap >= low.gap && high.quality <= low.quality);
            for value in [low.score, low.quality, low.gap, low.confidence] {
                prop_assert!((0.0..=1.0).contains(&value));
            }
        }
    }
}
