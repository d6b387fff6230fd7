//! Confidence that the answer to one text serves another, and the decision to serve it.
//!
//! A logistic model of a candidate's features: its similarities and the texts' other differences. It has three parts: a
//! [`Prior`] for all texts under an embedder (fitted offline, with the covariance of its weights), a scope's evidence
//! (how often questions repeat there), and an entry's evidence (how broadly its answer applies). The last two are
//! [`Shift`]s of the log odds with Gaussian priors, updated by each label, so that the first label already counts.
//!
//! **Prevalence.** Half of the pairs in a collection have the same meaning. Of the queries in a stream perhaps one in a
//! hundred has a partner in the store, and the others still have a nearest neighbour, so a probability fitted on pairs
//! is far too high there. The prior is therefore fitted on streams, weighted as if one query in [`Prior::prevalence`]
//! had a partner, and evidence may raise it.

mod prior;
mod shift;
mod signals;

pub use self::{
    prior::{Prior, Provenance},
    shift::Shift,
    signals::{FEATURES, NAMES, SIGNS, Signals},
};

use super::guard::{Comparison, Guard};

/// Standard deviations of the lower bound below the mean of the log odds: 0.9 of the posterior lies above it.
pub const DEVIATIONS: f32 = 1.2816;

/// Probability from which on a label is useful for a candidate that is not served.
const WORTH_A_LABEL: f32 = 0.25;

/// Log odds of texts with the same spelling: the least of these, and the most of others. Of the 57 such pairs among the questions of QQP, none asks for
/// something else when read (four are labelled so); one in a thousand is an assumption.
const ALIKE: f32 = 6.9;

/// Decision on a candidate.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Decision {
    /// Return its answer.
    Serve(Belief),
    /// Not confident enough, but a label would be useful.
    Grey(Belief),
    /// Do not return it.
    Miss(Reason),
}

/// Probability that an answer serves.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Belief {
    /// The probability, 0 to 1.
    pub probability: f32,
    /// Its lower bound, which is compared with the budget.
    pub lower: f32,
    /// Log odds by the prior alone: labels are learned against these.
    pub log_odds: f32,
}

/// Reason why a candidate is not served.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Reason {
    /// A guard rejects it.
    Guard(Guard),
    /// Too unlikely, with this probability.
    Unlikely(f32),
}

/// Decides on a candidate. `budget` is the allowed share of false hits among hits.
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

/// Probability for features that no guard rejects.
fn believe(prior: &Prior, scope: Shift, entry: Shift, features: &[f32; FEATURES]) -> Belief {
    // No pair is more certain than the same words, so that evidence can always turn it.
    Belief::of(prior.log_odds(features).min(ALIKE), prior.variance(features), scope, entry)
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
