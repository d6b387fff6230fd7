//! Replays of labels: what learning on own traffic adds to the weights that are compiled in.

use super::outcomes::Outcomes;
use crate::prompt::complexity::{
    Features, Weights,
    curve::Ranking,
    fit::{Sample, fit},
    learn::{Label, Learner, Promotion, Tier, Verdict},
    ranking, score,
};

/// The replays of each kind of traffic: the kind of their labels, and how many. One-sided labels are cheap, and each tells less.
const KINDS: [(&str, usize); 3] = [("paired", 1000), ("one-sided", 1000), ("one-sided", 2000)];
/// After how many labels each a candidate is tried.
const EVERY: usize = 250;
/// Replays, each of other labels.
const SEEDS: u64 = 3;
/// Share of one-sided labels that say the opposite.
const NOISE: f64 = 0.1;
/// Share of requests that are served by either model at random.
const TRIED: f64 = 0.2;

/// What replays of one kind of label came to, mean over seeds.
pub(super) struct Replay {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) labels: usize,
    /// APGR of the prior on what was not learned from.
    pub(super) before: f64,
    /// APGR of the weights in use at the end.
    pub(super) after: f64,
    pub(super) promotions: f64,
}

/// Prompts with qualities of a small and a large model.
struct Traffic {
    name: String,
    rows: Vec<(usize, f64, f64)>,
}

pub(super) fn replays(outcomes: &Outcomes, features: &[Features]) -> Vec<Replay> {
    let files = outcomes.files.iter().enumerate().map(|(file, name)| {
        let rows = outcomes.rows.iter().enumerate().filter(|(_, row)| row.file == file);
        Traffic { name: name.clone(), rows: rows.map(|(at, row)| (at, row.small, row.large)).collect() }
    });
    let pairs = outcomes.pairs.iter().filter(|_| outcomes.pairs.len() > 1);
    let pairs = pairs.map(|pair| Traffic { name: format!("{} / {}", pair.small, pair.large), rows: pair.rows.clone() });
    let replays = files.chain(pairs).flat_map(|traffic| {
        // As many at least are left to test on.
        let enough = |(_, labels): &(&str, usize)| traffic.rows.len() > 2 * labels;
        let kinds: Vec<_> = KINDS.into_iter().filter(enough).collect();
        let prior = (!kinds.is_empty()).then(|| prior(outcomes, features, &traffic));
        let replays = prior.iter().flat_map(|prior| kinds.iter().map(|kind| replay(&traffic, features, prior, *kind)));
        replays.collect::<Vec<_>>()
    });
    replays.collect()
}

/// Weights that know nothing of this traffic, where there are other outcomes to fit them on; else those that are compiled in.
fn prior(outcomes: &Outcomes, features: &[Features], traffic: &Traffic) -> Weights {
    let mut own = vec![false; outcomes.benchmarks.len()];
    for (at, ..) in &traffic.rows {
        own[outcomes.rows[*at].benchmark] = true;
    }
    let others: Vec<Sample> = outcomes.samples(features).into_iter().filter(|sample| !own[sample.set]).collect();
    fit(&others, &outcomes.benchmarks).unwrap_or_else(|_| Weights::built_in().clone())
}

fn replay(traffic: &Traffic, features: &[Features], prior: &Weights, (kind, labels): (&'static str, usize)) -> Replay {
    let (mut before, mut after, mut promotions) = (0.0, 0.0, 0.0);
    for seed in 0..SEEDS {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut rows = traffic.rows.clone();
        dice.shuffle(&mut rows);
        let (labelled, rest) = rows.split_at(labels);
        let mut learner = Learner::new(prior.clone());
        for (count, (at, small, large)) in labelled.iter().enumerate() {
            let features = &features[*at];
            let label = if kind == "paired" {
                Label::Paired { small: *small as f32, large: *large as f32 }
            } else {
                served(&mut dice, features, learner.weights(), *small, *large)
            };
            learner.observe(features, label);
            if (count + 1) % EVERY == 0 && matches!(learner.promote(), Promotion::Promoted(_)) {
                promotions += 1.0;
            }
        }
        let gaps: Vec<f64> = rest.iter().map(|(_, small, large)| large - small).collect();
        let apgr = |weights: &Weights| {
            let scores: Vec<f64> = rest.iter().map(|(at, _, _)| f64::from(ranking(&features[*at], weights))).collect();
            Ranking::new(&scores).worth(&gaps, |_| 1.0).apgr
        };
        before += apgr(prior);
        after += apgr(learner.weights());
    }
    let mean = |sum: f64| sum / SEEDS as f64;
    let (name, promotions) = (traffic.name.clone(), mean(promotions));
    Replay { name, kind, labels, before: mean(before), after: mean(after), promotions }
}

/// What a client says of the answer of whoever served it: half of the requests go to the large model, the hardest, and some to either.
fn served(dice: &mut fastrand::Rng, features: &Features, weights: &Weights, small: f64, large: f64) -> Label {
    let to_large = if dice.f64() < TRIED { dice.bool() } else { score(features, weights).score > 0.5 };
    let (tier, quality) = if to_large { (Tier::Large, large) } else { (Tier::Small, small) };
    let good = (dice.f64() < quality) != (dice.f64() < NOISE);
    Label::Served { tier, verdict: if good { Verdict::Ok } else { Verdict::Failed } }
}
