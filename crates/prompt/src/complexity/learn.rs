//! Learns from own traffic: labels adjust the built-in weights, and a new candidate runs in shadow before it decides
//! anything.
//!
//! Two ridge regressions, one of the small and one of the large model's quality, fit the residuals of the prior's
//! expectations over the features' levels and the prompt's hashed words. Far from any label, or with few of them, the
//! prior dominates. A label may cover both models or only the one that served. A candidate is evaluated on held-out
//! labels, a quarter of them in turn (cross-fitting). It replaces the weights in use only if the lower confidence bound of
//! its gain over the prior is above zero, and if it is better on average than the rank that the weights in use gave the
//! same labels before they were known. One call rolls back to the previous weights. Memory is bounded by the number of labels kept; the whole state can be stored.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{
    features::Features,
    score::{Sums, ranking, score},
    solve::{Row, solve},
    weights::{Learned, Linear, Weights},
};

/// The most labels that are kept; the oldest are dropped.
const KEPT: usize = 2000;
/// Number of folds, each held out in turn.
const FOLDS: u64 = 4;
/// The fewest labels for a promotion.
const MIN_LABELS: usize = 100;
/// The most versions kept for a rollback.
const VERSIONS: usize = 4;
/// Standard errors between a gain and its lower bound: one-sided, 90 %.
const BOUND: f64 = 1.282;

/// The model that served a request.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tier {
    /// The small one.
    Small,
    /// The large one.
    Large,
}

/// A client's verdict on an answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It was good.
    Ok,
    /// A stronger model was needed.
    Underpowered,
    /// A weaker model would have sufficed.
    Overprovisioned,
    /// It was unusable.
    Failed,
}

/// Feedback on a prompt after it was answered.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Label {
    /// Quality of both models' answers, in `0..=1`.
    Paired {
        /// Quality of the small model's answer.
        small: f32,
        /// Quality of the large model's answer.
        large: f32,
    },
    /// A verdict on the one answer that was served.
    Served {
        /// The model that answered.
        tier: Tier,
        /// The verdict.
        verdict: Verdict,
    },
}

impl Label {
    /// The quality of the small and of the large model that the label implies.
    fn qualities(self) -> (Option<f32>, Option<f32>) {
        match self {
            Self::Paired { small, large } => (Some(small.clamp(0.0, 1.0)), Some(large.clamp(0.0, 1.0))),
            Self::Served { tier, verdict } => {
                let good = f32::from(u8::from(matches!(verdict, Verdict::Ok | Verdict::Overprovisioned)));
                match (tier, verdict) {
                    (Tier::Small, _) => (Some(good), None),
                    (Tier::Large, Verdict::Overprovisioned) => (Some(1.0), Some(1.0)),
                    (Tier::Large, _) => (None, Some(good)),
                }
            }
        }
    }
}

/// A labelled prompt as it is kept, without its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Example {
    row: Row,
    /// The prior's view of the prompt: ranking sums, the small model's quality, and as the gap the sum it ranks by, which
    /// the learned gap is added to.
    prior: (Sums, f32, f32),
    small: Option<f32>,
    large: Option<f32>,
    fold: u64,
    /// The sum that the prompt was ranked by in shadow, by weights in use that did not know its label.
    rank: f32,
}

impl Example {
    /// The large model's gain, using the prior's expectation for a model that did not answer.
    fn gap(&self) -> f64 {
        let (_, quality, gap) = self.prior;
        f64::from(self.large.unwrap_or((quality + gap).min(1.0)) - self.small.unwrap_or(quality))
    }

    fn rank_by(&self, learned: Option<&Learned>, weights: &Weights) -> f32 {
        self.prior.0.capped(learned.map_or(0.0, |learned| self.row.times(&learned.gap)), weights)
    }
}

/// The result of an attempt to promote a candidate.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Promotion {
    /// There are too few labels.
    TooFew,
    /// The candidate is not certainly better; the weights in use stay.
    Kept(Gain),
    /// The candidate is in use.
    Promoted(Gain),
}

/// A candidate's gain over the prior on held-out labels: quality per prompt, averaged over all shares.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Gain {
    /// The mean.
    pub mean: f64,
    /// Its lower confidence bound.
    pub lower: f64,
}

/// The learner of one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learner {
    prior: Weights,
    serving: Weights,
    earlier: VecDeque<Weights>,
    examples: VecDeque<Example>,
    seen: u64,
    promotions: u64,
}

impl Learner {
    /// A learner without labels: `prior` is in use.
    pub fn new(prior: Weights) -> Self {
        Self {
            serving: prior.clone(),
            prior,
            earlier: VecDeque::new(),
            examples: VecDeque::new(),
            seen: 0,
            promotions: 0,
        }
    }

    /// Repairs a state read from a file, whatever the file contains.
    #[must_use]
    pub fn restored(mut self) -> Self {
        self.examples.retain(|example| example.row.is_current());
        self.examples.drain(..self.examples.len().saturating_sub(KEPT));
        self.earlier.drain(..self.earlier.len().saturating_sub(VERSIONS));
        self.examples.iter_mut().for_each(|example| example.fold %= FOLDS);
        (self.seen, self.promotions) = (self.seen.min(1 << 48), self.promotions.min(1 << 48));
        self
    }

    /// The weights in use.
    pub fn weights(&self) -> &Weights {
        &self.serving
    }

    /// Number of labels kept.
    pub fn labels(&self) -> usize {
        self.examples.len()
    }

    /// Number of labels ever received.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Records a label. Does not change the weights in use.
    pub fn observe(&mut self, features: &Features, label: Label) {
        let (small, large) = label.qualities();
        let quality = score(features, &self.prior).quality;
        self.seen += 1;
        if self.examples.len() >= KEPT {
            self.examples.pop_front();
        }
        self.examples.push_back(Example {
            row: Row::of(features, &self.prior.support.mean),
            prior: (Sums::of(features, &self.prior.gap), quality as f32, ranking(features, &self.prior)),
            small,
            large,
            // Folds rotate rather than follow a hash of the prompt. With traffic of a few repeated prompts, a hash
            // would hold out each prompt together with all its copies, and nothing could be learned about it.
            fold: self.seen % FOLDS,
            rank: ranking(features, &self.serving),
        });
    }

    /// Fits a candidate to the labels, evaluates it on those held out, and puts it to use if it is better. Takes
    /// milliseconds: not for the request path.
    pub fn promote(&mut self) -> Promotion {
        if self.examples.len() < MIN_LABELS {
            return Promotion::TooFew;
        }
        let folds: Vec<Learned> = (0..FOLDS).map(|fold| self.candidate(Some(fold))).collect();
        let rank = |example: &Example| example.rank_by(Some(&folds[example.fold as usize]), &self.serving);
        let ranks: Vec<f32> = self.examples.iter().map(rank).collect();
        let prior: Vec<f32> = self.examples.iter().map(|example| example.rank_by(None, &self.prior)).collect();
        let in_use: Vec<f32> = self.examples.iter().map(|example| example.rank).collect();
        let gain = self.gain(&prior, &ranks);
        // More labels make better weights, but by steps too small to be proved one by one.
        let better = gain.lower > 0.0 && self.gain(&in_use, &ranks).mean > 0.0;
        if !better {
            return Promotion::Kept(gain);
        }
        let candidate = self.candidate(None);
        self.promotions += 1;
        self.examples.iter_mut().zip(&ranks).for_each(|(example, rank)| example.rank = *rank);
        let mut sums = ranks;
        sums.sort_by(f32::total_cmp);
        let steps = self.prior.quantiles.len().max(2) - 1;
        let quantiles = (0..=steps).map(|step| sums[step * (sums.len() - 1) / steps]).collect();
        let weights = Weights {
            version: format!("{}+{}", self.prior.version, self.promotions),
            quantiles,
            learned: Some(candidate),
            ..self.prior.clone()
        };
        self.earlier.push_back(std::mem::replace(&mut self.serving, weights));
        if self.earlier.len() > VERSIONS {
            self.earlier.pop_front();
        }
        Promotion::Promoted(gain)
    }

    /// Takes over the promotions of a copy of this learner, and keeps the labels received in the meantime.
    pub fn adopt(&mut self, tried: Self) {
        let fresh = usize::try_from(self.seen.saturating_sub(tried.seen)).unwrap_or(usize::MAX);
        let before = self.examples.len().saturating_sub(fresh);
        let mut fresh = self.examples.split_off(before);
        let seen = self.seen;
        *self = Self { seen, ..tried };
        for example in &mut fresh {
            example.rank = example.rank_by(self.serving.learned.as_ref(), &self.serving);
        }
        self.examples.append(&mut fresh);
        self.examples.drain(..self.examples.len().saturating_sub(KEPT));
    }

    /// Restores the weights in use before the last promotion; returns `false` if there are none.
    pub fn rollback(&mut self) -> bool {
        match self.earlier.pop_back() {
            Some(weights) => {
                self.serving = weights;
                for example in &mut self.examples {
                    example.rank = example.rank_by(self.serving.learned.as_ref(), &self.serving);
                }
                true
            }
            None => false,
        }
    }

    /// The quality per prompt that the weights in use would have gained on labels that they did not know, averaged over
    /// all shares.
    pub fn shadow(&self) -> f64 {
        let places = places(self.examples.iter().map(|example| example.rank));
        let gained = self.examples.iter().zip(places).map(|(example, place)| example.gap() * (1.0 - place));
        gained.sum::<f64>() / self.examples.len().max(1) as f64
    }

    /// The gain of ranking the labels by `ranks` and not as `before`: prompts that gain from the large model move forward.
    fn gain(&self, before: &[f32], ranks: &[f32]) -> Gain {
        let before = places(before.iter().copied());
        let moved = before.iter().zip(places(ranks.iter().copied())).map(|(before, after)| before - after);
        let gained: Vec<f64> = self.examples.iter().zip(moved).map(|(example, moved)| example.gap() * moved).collect();
        let count = gained.len() as f64;
        let mean = gained.iter().sum::<f64>() / count;
        let variance = gained.iter().map(|gained| (gained - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Gain { mean, lower: mean - BOUND * (variance / count).sqrt() }
    }

    /// A fit to the labels, leaving out one fold.
    fn candidate(&self, without: Option<u64>) -> Learned {
        let head = |quality: fn(&Example) -> Option<f32>, expected: fn(&Example) -> f32| {
            let known = self.examples.iter().filter(|example| Some(example.fold) != without);
            let known = known.filter_map(|example| Some((&example.row, quality(example)? - expected(example))));
            solve(&known.collect::<Vec<_>>())
        };
        let small = head(|example| example.small, |example| example.prior.1);
        let large = head(|example| example.large, |example| (example.prior.1 + example.prior.2).min(1.0));
        let mut gap = Linear { offset: large.offset - small.offset, ..large };
        gap.levels.0.iter_mut().zip(&small.levels.0).for_each(|(gap, small)| *gap -= small);
        gap.terms.iter_mut().zip(&small.terms).for_each(|(gap, small)| *gap -= small);
        Learned { gap, quality: small }
    }
}

/// The position of each prompt, in `0..1`, when all are sent to the large model in order of descending rank.
fn places(ranks: impl Iterator<Item = f32>) -> Vec<f64> {
    let ranks: Vec<f32> = ranks.collect();
    let mut order: Vec<usize> = (0..ranks.len()).collect();
    order.sort_by(|one, other| ranks[*other].total_cmp(&ranks[*one]));
    let mut places = vec![0.0; ranks.len()];
    order.iter().enumerate().for_each(|(place, at)| places[*at] = place as f64 / ranks.len() as f64);
    places
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use signalbox_types::Outline;

    /// Traffic in which poems need the large model and sums do not, which the prior does not know; a share `noise` of
    /// the labels is wrong.
    fn label(dice: &mut fastrand::Rng, noise: f64, paired: bool) -> (Features, Label) {
        let hard = dice.bool();
        let topic = ["river", "winter", "clock", "garden"][dice.usize(..4)];
        let text = if hard { format!("a poem on the {topic}") } else { format!("the colour of a {topic}") };
        let good = |quality: bool, dice: &mut fastrand::Rng| quality != (dice.f64() < noise);
        let features = Features::of(&Outline::of_text(&text));
        let number = |quality: bool| f32::from(u8::from(quality));
        let label = if paired {
            Label::Paired { small: number(good(!hard, dice)), large: number(good(true, dice)) }
        } else {
            let tier = if dice.bool() { Tier::Small } else { Tier::Large };
            let ok = good(!hard || tier == Tier::Large, dice);
            Label::Served { tier, verdict: if ok { Verdict::Ok } else { Verdict::Failed } }
        };
        (features, label)
    }

    fn trained(seed: u64, labels: usize, noise: f64, paired: bool) -> Learner {
        let mut learner = Learner::new(Weights::built_in().clone());
        let mut dice = fastrand::Rng::with_seed(seed);
        for _ in 0..labels {
            let (features, label) = label(&mut dice, noise, paired);
            learner.observe(&features, label);
        }
        learner
    }

    #[test]
    fn labels_that_come_during_a_try_are_kept() {
        let mut learner = trained(3, 300, 0.0, true);
        let mut tried = learner.clone();
        assert!(matches!(tried.promote(), Promotion::Promoted(_)));
        let mut dice = fastrand::Rng::with_seed(9);
        for _ in 0..40 {
            let (features, label) = label(&mut dice, 0.0, true);
            learner.observe(&features, label);
        }
        let version = tried.weights().version.clone();
        learner.adopt(tried);
        assert_eq!((learner.labels(), &learner.weights().version), (340, &version));
        assert!(hard_above_easy(&learner));
        assert!(learner.rollback() && !hard_above_easy(&learner));
    }

    fn hard_above_easy(learner: &Learner) -> bool {
        let of = |text: &str| ranking(&Features::of(&Outline::of_text(text)), learner.weights());
        of("a poem on the garden") > of("the colour of a garden") + 0.2
    }

    #[test]
    fn patterns_of_own_traffic_are_learned_despite_noise() {
        for paired in [true, false] {
            let mut learner = trained(1, 400, 0.1, paired);
            assert!(!hard_above_easy(&learner), "observing changes nothing");
            assert!(matches!(learner.promote(), Promotion::Promoted(gain) if gain.lower > 0.0), "{paired}");
            assert!(hard_above_easy(&learner), "{paired}");
            assert_ne!(learner.weights().version, Weights::built_in().version);
            assert!(learner.rollback() && learner.weights() == Weights::built_in() && !learner.rollback());
        }
    }

    #[test]
    fn few_or_random_labels_promote_nothing() {
        assert_eq!(trained(1, 50, 0.0, true).promote(), Promotion::TooFew);
        let promoted = |seed| matches!(trained(seed, 200, 0.5, true).promote(), Promotion::Promoted(_));
        assert!((0..20).filter(|seed| promoted(*seed)).count() <= 4, "about two of twenty by chance");
    }

    #[test]
    fn labels_are_bounded_and_the_state_can_be_stored() {
        let mut learner = trained(3, KEPT + 10, 0.1, true);
        assert_eq!(learner.labels(), KEPT);
        learner.promote();
        let stored = serde_json::to_string(&learner).unwrap();
        assert_eq!(serde_json::from_str::<Learner>(&stored).unwrap().restored(), learner);
    }

    #[test]
    fn a_damaged_file_is_repaired() {
        let mut learner = trained(3, KEPT, 0.1, true);
        let more = learner.examples.clone();
        learner.examples.extend(more);
        learner.examples.iter_mut().for_each(|example| example.fold += 7);
        let mut learner = learner.restored();
        assert_eq!(learner.labels(), KEPT);
        assert!(matches!(learner.promote(), Promotion::Promoted(_)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(1), cases: 12, ..ProptestConfig::default() })]

        #[test]
        fn promotion_never_lowers_the_shadow_score(seed in any::<u64>(), noise in 0.0..0.5_f64, paired in any::<bool>()) {
            let mut learner = trained(seed, 160, noise, paired);
            let before = (learner.shadow(), learner.serving.clone());
            let promoted = matches!(learner.promote(), Promotion::Promoted(_));
            prop_assert_eq!(promoted, learner.serving != before.1);
            let gained = learner.shadow() - before.0;
            prop_assert!(gained > 0.0 || !promoted && gained >= 0.0);
        }
    }
}
