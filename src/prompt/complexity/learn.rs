//! Learning on own traffic: what labels add to the weights that are compiled in, tried in the shadow before it decides anything.
//!
//! Two ridge regressions, one of the small and one of the large model's quality, on what the prior's expectations leave unexplained,
//! over the features' levels and the prompt's hashed words: far from any label, or with few of them, the prior stands. A label may tell
//! of both models or of the one that served. A candidate is tried on labels that were held back when it was fitted, each fourth of them
//! in turn (cross-fitting), against what the weights in use made of the same labels before they knew them. It takes their place only if
//! the lower confidence bound of what it gains is above zero, and one call brings back the weights before it. Memory is bounded by the number of labels kept; all of it can be stored.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{
    features::Features,
    score::{Sums, ranking, score},
    solve::{Row, solve},
    weights::{Learned, Linear, Weights},
};

/// Labels that are kept: older ones make way.
const KEPT: usize = 2000;
/// Parts of the labels, each of which is held back in turn.
const FOLDS: u64 = 4;
/// Fewest labels that tell anything.
const FEWEST: usize = 100;
/// Versions that can be gone back to.
const VERSIONS: usize = 4;
/// Standard errors between a gain and its lower bound: one-sided, 90 %.
const BOUND: f64 = 1.282;

/// Which model served a request.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tier {
    /// The small one.
    Small,
    /// The large one.
    Large,
}

/// What a client says of an answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It was good.
    Ok,
    /// A stronger model was needed.
    Underpowered,
    /// A weaker one would have done.
    Overprovisioned,
    /// It was of no use.
    Failed,
}

/// What is known of a prompt after it was answered.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Label {
    /// Quality of both models' answers, in `0..=1`.
    Paired {
        /// The small one's.
        small: f32,
        /// The large one's.
        large: f32,
    },
    /// What somebody says of the one answer there was.
    Served {
        /// Who gave it.
        tier: Tier,
        /// How it was.
        verdict: Verdict,
    },
}

impl Label {
    /// What it says of the small and of the large model's quality.
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

/// A labelled prompt, as it is kept: nothing of its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Example {
    row: Row,
    /// What the prior makes of it: what it ranks by, the small model's quality, the gap.
    prior: (Sums, f32, f32),
    small: Option<f32>,
    large: Option<f32>,
    fold: u64,
    /// The sum it was ranked by in the shadow: by weights in use that did not know its label.
    rank: f32,
}

impl Example {
    /// What the large model added, as far as it is known: of a model that did not answer the prior speaks.
    fn gap(&self) -> f64 {
        let (_, quality, gap) = self.prior;
        f64::from(self.large.unwrap_or((quality + gap).min(1.0)) - self.small.unwrap_or(quality))
    }

    fn rank_by(&self, learned: Option<&Learned>, weights: &Weights) -> f32 {
        self.prior.0.capped(learned.map_or(0.0, |learned| self.row.times(&learned.gap)), weights)
    }
}

/// What became of a candidate.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Promotion {
    /// There are too few labels to tell.
    TooFew,
    /// It is not sure to be better.
    Kept(Gain),
    /// It is in use.
    Promoted(Gain),
}

/// What a candidate would gain over the weights in use, on held-back labels: in quality a prompt, mean over all shares.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Gain {
    /// The mean.
    pub mean: f64,
    /// Its lower confidence bound.
    pub lower: f64,
}

/// Learns for one policy.
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
    /// Nothing learned yet: `prior` is in use.
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

    /// What was read from a file, made fit for use whatever the file holds.
    #[must_use]
    pub fn restored(mut self) -> Self {
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

    /// Labels that are kept.
    pub fn labels(&self) -> usize {
        self.examples.len()
    }

    /// Labels that ever came.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Keeps a label. Changes nothing about the weights in use.
    pub fn observe(&mut self, features: &Features, label: Label) {
        let (small, large) = label.qualities();
        let prior = score(features, &self.prior);
        self.seen += 1;
        if self.examples.len() >= KEPT {
            self.examples.pop_front();
        }
        self.examples.push_back(Example {
            row: Row::of(features, &self.prior.support.mean),
            prior: (Sums::of(features, &self.prior.gap), prior.quality as f32, prior.gap as f32),
            small,
            large,
            // In turn, and not by a hash of the prompt: where all traffic is a few prompts, each would be held back with all its copies,
            // and nothing be learned of any.
            fold: self.seen % FOLDS,
            rank: ranking(features, &self.serving),
        });
    }

    /// Fits a candidate to the labels, tries it on those held back, and puts it to use if it is better. Takes milliseconds: not for
    /// the way of a request.
    pub fn promote(&mut self) -> Promotion {
        if self.examples.len() < FEWEST {
            return Promotion::TooFew;
        }
        let folds: Vec<Learned> = (0..FOLDS).map(|fold| self.candidate(Some(fold))).collect();
        let rank = |example: &Example| example.rank_by(Some(&folds[example.fold as usize]), &self.serving);
        let ranks: Vec<f32> = self.examples.iter().map(rank).collect();
        let gain = self.gain(&ranks);
        if gain.lower.is_nan() || gain.lower <= 0.0 {
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

    /// Takes over what a copy of this learner promoted, and keeps the labels that came meanwhile.
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

    /// Brings back the weights that were in use before the last promotion; `false` where there are none.
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

    /// The quality a prompt that the weights in use would have gained over none, on labels they did not know: mean over all shares.
    pub fn shadow(&self) -> f64 {
        let places = places(self.examples.iter().map(|example| example.rank));
        let gained = self.examples.iter().zip(places).map(|(example, place)| example.gap() * (1.0 - place));
        gained.sum::<f64>() / self.examples.len().max(1) as f64
    }

    /// What is gained by ranking the labels so: how much earlier those go to the large model who gain from it.
    fn gain(&self, ranks: &[f32]) -> Gain {
        let before = places(self.examples.iter().map(|example| example.rank));
        let moved = before.iter().zip(places(ranks.iter().copied())).map(|(before, after)| before - after);
        let gained: Vec<f64> = self.examples.iter().zip(moved).map(|(example, moved)| example.gap() * moved).collect();
        let count = gained.len() as f64;
        let mean = gained.iter().sum::<f64>() / count;
        let variance = gained.iter().map(|gained| (gained - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Gain { mean, lower: mean - BOUND * (variance / count).sqrt() }
    }

    /// What the labels say, without those of one part.
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

/// Where each prompt stands when all are sent to the large model one by one, the highest rank first; in `0..1`.
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
    use crate::types::Outline;

    /// Traffic on which poems need the large model and sums do not, which no prior knows; `noise` of the labels lie.
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

    fn taught(seed: u64, labels: usize, noise: f64, paired: bool) -> Learner {
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
        let mut learner = taught(3, 300, 0.0, true);
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
    fn what_own_traffic_shows_is_learned_in_spite_of_noise() {
        for paired in [true, false] {
            let mut learner = taught(1, 400, 0.1, paired);
            assert!(!hard_above_easy(&learner), "observing changes nothing");
            assert!(matches!(learner.promote(), Promotion::Promoted(gain) if gain.lower > 0.0), "{paired}");
            assert!(hard_above_easy(&learner), "{paired}");
            assert_ne!(learner.weights().version, Weights::built_in().version);
            assert!(learner.rollback() && learner.weights() == Weights::built_in() && !learner.rollback());
        }
    }

    #[test]
    fn few_labels_and_labels_of_chance_promote_nothing() {
        assert_eq!(taught(1, 50, 0.0, true).promote(), Promotion::TooFew);
        let promoted = |seed| matches!(taught(seed, 200, 0.5, true).promote(), Promotion::Promoted(_));
        assert!((0..20).filter(|seed| promoted(*seed)).count() <= 4, "about two of twenty by chance");
    }

    #[test]
    fn labels_are_bounded_and_all_of_it_can_be_stored() {
        let mut learner = taught(3, KEPT + 10, 0.1, true);
        assert_eq!(learner.labels(), KEPT);
        learner.promote();
        let stored = serde_json::to_string(&learner).unwrap();
        assert_eq!(serde_json::from_str::<Learner>(&stored).unwrap().restored(), learner);
    }

    #[test]
    fn a_damaged_file_breaks_nothing() {
        let mut learner = taught(3, KEPT, 0.1, true);
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
            let mut learner = taught(seed, 160, noise, paired);
            let before = (learner.shadow(), learner.serving.clone());
            let promoted = matches!(learner.promote(), Promotion::Promoted(_));
            prop_assert_eq!(promoted, learner.serving != before.1);
            let gained = learner.shadow() - before.0;
            prop_assert!(gained > 0.0 || !promoted && gained >= 0.0);
        }
    }
}
