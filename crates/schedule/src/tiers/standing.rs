//! Current figures of a route's tiers, for operators.

use serde::Serialize;

use super::{
    decision::{Decision, Reason},
    state::Outcome,
};
use signalbox_types::aim::MOST_TIERS;

/// Weight of a request in recent shares.
const WEIGHT: f64 = 1.0 / 1024.0;

/// Figures of a route over all its keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// Tiers, from the cheapest to the best.
    pub tiers: Vec<TierStanding>,
    /// Bars between them: scores with shares, otherwise the quality that a USD has to buy (1 is all of it). With an aim
    /// that is held per key these are a new key's initial bars.
    pub bars: Vec<f64>,
    /// Expected cost in USD of the requests of the last hour (to the minute).
    pub spend_hour: f64,
    /// Recent mean of the expected quality.
    pub quality: f64,
    /// True if the best tier alone would not reach the required minimum of quality.
    pub unreachable: bool,
    /// Decisions in total.
    pub decisions: u64,
    /// Decisions by reason, in the order of [`Reason::ALL`].
    pub reasons: [u64; Reason::ALL.len()],
    /// Requests that were served by another tier than intended, for availability or budget.
    pub spilled: u64,
    /// Sessions that began, or returned after an hour.
    pub sessions: u64,
    /// Times that a session changed its tier while warm.
    pub flips: u64,
    /// Keys with state.
    pub keys: usize,
}

/// Figures of one tier: requests since the start, and shares of the last thousand or so.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize)]
pub struct TierStanding {
    /// Requests that belong to this tier by their prompts.
    pub intended: u64,
    /// Requests that belong to this tier with their sessions: shares are held on these.
    pub settled: u64,
    /// Requests that were sent here.
    pub served: u64,
    /// Share of the route's requests that belong to this tier by their prompts.
    pub intended_share: f64,
    /// Share of the route's requests that belong to this tier with their sessions.
    pub settled_share: f64,
    /// Share of the route's requests that were sent to this tier.
    pub served_share: f64,
}

/// Counters of a route.
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
        self.flips += u64::from(outcome.floor.is_some_and(|floor| floor != usize::from(outcome.session_state.tier)));
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

    /// Combines the counters with the bars, the hour's spend, whether quality is out of reach, sessions and keys.
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
