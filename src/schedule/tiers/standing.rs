//! How a route stands: what operators see of it.

use serde::Serialize;

use super::{
    decision::{Decision, Reason},
    state::Outcome,
};
use crate::types::aim::MOST_TIERS;

/// The weight of a request in what is called lately.
const WEIGHT: f64 = 1.0 / 1024.0;

/// How a route stands, over all its keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// The tiers, from the cheapest to the best.
    pub tiers: Vec<TierStanding>,
    /// The bars between them: scores with shares, otherwise the quality that a USD has to buy (1 is all of it). With an aim that
    /// is held for each key these are where a new key begins.
    pub bars: Vec<f64>,
    /// USD of the requests of the last hour (to the minute), as they were expected to cost.
    pub spend_hour: f64,
    /// The mean expected quality of the answers lately.
    pub quality: f64,
    /// A minimum of quality is asked for that the best tier alone would not reach.
    pub unreachable: bool,
    /// Requests that were decided.
    pub decisions: u64,
    /// The same by what decided, in the order of [`Reason::ALL`].
    pub reasons: [u64; Reason::ALL.len()],
    /// Requests that went elsewhere than they belong, because of what was available or the budget.
    pub spilled: u64,
    /// Sessions that began, or came back after an hour.
    pub sessions: u64,
    /// Times that a session changed its tier while it was warm.
    pub flips: u64,
    /// Keys that are remembered.
    pub keys: usize,
}

/// How one tier stands: requests since the start, and shares of the last ones (about a thousand).
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize)]
pub struct TierStanding {
    /// That belong here by their prompts.
    pub intended: u64,
    /// That belong here with their sessions: what shares are held on.
    pub settled: u64,
    /// That were sent here.
    pub served: u64,
    /// The share of those that belong here by their prompts.
    pub intended_share: f64,
    /// The share of those that belong here with their sessions.
    pub settled_share: f64,
    /// The share of those that were sent here.
    pub served_share: f64,
}

/// Counts of a route.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    tiers: [TierStanding; MOST_TIERS],
    reasons: [u64; Reason::ALL.len()],
    decisions: u64,
    spilled: u64,
    flips: u64,
    quality: f64,
}

impl Tally {
    pub(super) fn count(&mut self, outcome: &Outcome, decision: &Decision) {
        self.decisions += 1;
        self.reasons[decision.reason as usize] += 1;
        self.spilled += u64::from(outcome.tier != outcome.settled);
        self.flips += u64::from(outcome.floor.is_some_and(|floor| floor != usize::from(outcome.seat.tier)));
        let weight = WEIGHT.max(1.0 / self.decisions as f64);
        self.quality += weight * (decision.quality - self.quality);
        for (place, tier) in self.tiers.iter_mut().enumerate() {
            let add = |count: &mut u64, share: &mut f64, at: usize| {
                let here = at == place;
                *count += u64::from(here);
                *share += weight * (f64::from(u8::from(here)) - *share);
            };
            add(&mut tier.intended, &mut tier.intended_share, outcome.intended);
            add(&mut tier.settled, &mut tier.settled_share, outcome.settled);
            add(&mut tier.served, &mut tier.served_share, outcome.tier);
        }
    }

    /// With what others know: the bars, the hour's spend, whether quality is out of reach, sessions and keys.
    pub(super) fn standing(
        &self,
        bars: Vec<f64>,
        spend_hour: f64,
        unreachable: bool,
        sessions: u64,
        keys: usize,
    ) -> Standing {
        Standing {
            tiers: self.tiers[..=bars.len()].to_vec(),
            bars,
            spend_hour,
            quality: self.quality,
            unreachable,
            decisions: self.decisions,
            reasons: self.reasons,
            spilled: self.spilled,
            sessions,
            flips: self.flips,
            keys,
        }
    }
}
