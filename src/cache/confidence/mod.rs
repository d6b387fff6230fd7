//! How sure it is that the answer to one text serves another, and whether that is sure enough.
//!
//! A logistic model of what is known of a candidate: its similarities, and how the texts differ otherwise. Three things are told apart:
//! what holds for all texts under an embedder ([`Prior`], fitted offline, with the covariance of its weights), what a scope's own
//! evidence says (how often questions really repeat there), and what an entry's evidence says (how far its answer carries). The last
//! two are [`Shift`]s of the log odds with Gaussian priors, refined by each label, so that the first one already counts.
//!
//! **Prevalence.** Half of the pairs in a collection mean the same; of the queries in a stream perhaps one in a hundred has a partner
//! in the store, and the others still have a nearest neighbour. A probability fitted on pairs is far too high there. So the prior is
//! fitted on streams, weighed as if one query in [`Prior::prevalence`] had a partner, and evidence may raise it.

mod prior;
mod shift;
mod signals;

pub use self::{
    prior::{Prior, Provenance},
    shift::Shift,
    signals::{FEATURES, NAMES, SIGNS, Signals},
};

use super::guard::{Comparison, Guard};

/// How many standard deviations the lower bound lies below the mean of the log odds: 0.9 of the posterior lies above it.
pub const DEVIATIONS: f32 = 1.2816;

/// From this probability on a candidate that is not served is worth a label.
const WORTH_A_LABEL: f32 = 0.25;

/// Log odds of texts that are spelled alike, at least. Of the 57 such pairs among the questions of QQP, as read, none asks for something
/// else (four are labelled so); that one in a thousand may is an assumption.
const ALIKE: f32 = 6.9;

/// What becomes of a candidate.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Decision {
    /// Its answer is given.
    Serve(Belief),
    /// It is not sure enough, but its label would teach something.
    Grey(Belief),
    /// It is not given.
    Miss(Reason),
}

/// How probable it is that an answer serves.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Belief {
    /// The probability, 0 to 1.
    pub probability: f32,
    /// Its lower bound: what is compared with the budget.
    pub lower: f32,
    /// Log odds by the prior alone: what labels are learned against.
    pub log_odds: f32,
}

/// Why a candidate is not served.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Reason {
    /// A guard keeps it apart.
    Guard(Guard),
    /// Too unlikely, with this probability.
    Unlikely(f32),
}

/// Decides on a candidate. `budget` is the share of false hits that is allowed, of hits.
pub fn decide(
    prior: &Prior,
    scope: &Shift,
    entry: &Shift,
    signals: &Signals,
    comparison: &Comparison,
    budget: f32,
) -> Decision {
    if let Some(guard) = comparison.guard {
        return Decision::Miss(Reason::Guard(guard));
    }
    let features = signals.features(&comparison.soft);
    let mut belief = believe(prior, *scope, *entry, &features);
    if comparison.alike && belief.log_odds < ALIKE {
        belief = Belief::of(ALIKE, 0.0, *scope, *entry);
    }
    if belief.lower >= 1.0 - budget {
        Decision::Serve(belief)
    } else if belief.probability >= WORTH_A_LABEL {
        Decision::Grey(belief)
    } else {
        Decision::Miss(Reason::Unlikely(belief.probability))
    }
}

/// Whether a candidate may be served or be worth a label, should the embedder that decides find the texts equal: where not, it need not be
/// asked. `recall`: similarity by the embedder that recalls.
pub fn is_open(prior: &Prior, scope: &Shift, entry: &Shift, recall: f32, comparison: &Comparison, budget: f32) -> bool {
    let best = Signals { similarity: 1.0, recall, margin: 1.0 };
    !matches!(decide(prior, scope, entry, &best, comparison, budget), Decision::Miss(_))
}

/// The probability for features that no guard keeps apart.
fn believe(prior: &Prior, scope: Shift, entry: Shift, features: &[f32; FEATURES]) -> Belief {
    Belief::of(prior.log_odds(features), prior.variance(features), scope, entry)
}

impl Belief {
    fn of(log_odds: f32, variance: f32, scope: Shift, entry: Shift) -> Self {
        let mean = log_odds + scope.mean() + entry.mean();
        let deviation = (variance + scope.variance() + entry.variance()).sqrt();
        Self { probability: logistic(mean), lower: logistic(mean - DEVIATIONS * deviation), log_odds }
    }
}

fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}
