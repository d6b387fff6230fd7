//! From features and weights to a score, with its reasons.

use super::{
    features::{Family, Features, TABLE},
    weights::{Linear, PerFeature, Weights},
};
use crate::types::{Complexity, Contribution, complexity::REASONS};

/// The most that weights learned on own traffic may add or take, in units of the gap.
const MOST_LEARNED: f32 = 0.5;

/// What `weights` make of a prompt.
pub fn score(features: &Features, weights: &Weights) -> Complexity {
    let (sum, learned) = (capped(features, &weights.gap), learned_gap(features, weights));
    let hardness = capped(features, &weights.hardness);
    let better = weights.learned.as_ref().map_or(0.0, |learned| linear(features, weights, &learned.quality));
    let support = &weights.support;
    let distance = support.distance(&features.levels);
    let confidence = (support.far - distance) / (support.far - support.near).max(f32::EPSILON);
    let share = |value: f32| f64::from(value.clamp(0.0, 1.0));
    Complexity {
        score: share(weights.quantile(sum + learned)),
        quality: share(weights.quality_line.at(hardness) + better),
        gap: share(weights.gap_line.at(sum) + learned),
        confidence: share(confidence),
        reasons: reasons(features, weights, learned),
    }
}

/// The sum that prompts are ranked by: what the score is the quantile of.
pub fn ranking(features: &Features, weights: &Weights) -> f32 {
    capped(features, &weights.gap) + learned_gap(features, weights)
}

/// The sum of all contributions, each family's up to its cap.
pub(super) fn capped(features: &Features, weights: &PerFeature) -> f32 {
    let mut sums = [0.0; Family::ALL.len()];
    for ((feature, level), weight) in TABLE.iter().zip(&features.levels).zip(&weights.0) {
        sums[feature.family as usize] += level * weight;
    }
    Family::ALL.iter().zip(sums).map(|(family, sum)| sum.min(family.cap())).sum()
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

/// The strongest contributions, the strongest first.
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
        enter(feature.name, level * weight);
    }
    enter("own traffic", learned);
    reasons
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{features::FEATURES, lexicon::words},
        *,
    };
    use crate::types::Outline;

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
    fn what_was_pasted_makes_a_prompt_long_not_hard() {
        let pasted = "Prove that if the court must first derive the integral, then no more than each theorem follows. "
            .repeat(30);
        let plain = of("Sum this up.");
        for text in [
            format!("Sum this up.\n```\n{pasted}\n```\n"),
            format!("Sum this up.\n<document>\n{pasted}\n</document>\n"),
            format!("Sum this up.\n<system-reminder>\n{pasted}\n</system-reminder>"),
            format!("Sum this up.\n> {pasted}\n"),
        ] {
            assert!(of(&text).score <= plain.score + 0.4, "{:?}", of(&text));
        }
    }

    #[test]
    fn confidence_is_low_where_nothing_like_it_was_fitted() {
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

    #[test]
    fn no_feature_decides_alone() {
        let weights = Weights::built_in();
        let span = weights.quantiles[weights.quantiles.len() - 1] - weights.quantiles[0];
        assert!(weights.gap.0.iter().all(|weight| *weight <= 0.5 * span), "{:?} of {span}", weights.gap);
    }

    /// The most that words may move a sum: the caps of the families that words are of.
    fn most() -> f32 {
        Family::Cues.cap() + Family::Length.cap() + Family::Form.cap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(1), cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn two_hundred_hard_words_move_the_sum_by_no_more_than_the_caps(
            text in "[a-z ,.?0-9]{0,300}",
            suffix in prop::collection::vec(prop::sample::select(words()), 200),
        ) {
            let weights = Weights::built_in();
            let features = |text: &str| Features::of(&Outline::of_text(text));
            let (plain, attacked) = (features(&text), features(&format!("{text} {}", suffix.join(" "))));
            let moved = ranking(&attacked, weights) - ranking(&plain, weights);
            prop_assert!(moved <= most() + 1e-6, "{moved}");
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
