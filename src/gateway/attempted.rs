//! A decision, told with every candidate.

use super::line::{Attempted, Predicted, Weighed};
use crate::{
    fleet::{Placement, Pool, Scratch},
    policy::Labels,
};

/// Most bytes of the header that lists candidates.
const LONGEST_EXPLANATION: usize = 1024;

impl Attempted {
    /// The attempt that a decision leads to, with every candidate of it in `scratch`.
    pub(super) fn of(pool: &Pool, scratch: &Scratch, placement: &Placement, prompt_bytes: u64) -> Self {
        let backend = &pool.backends[placement.backend];
        let prompt_tokens = placement.forecast.work.prompt_tokens;
        let all = scratch.members.iter().zip(&scratch.candidates).zip(&scratch.costs);
        let candidates = all.map(|((&member, candidate), &cost)| {
            let backend = &pool.backends[member];
            Weighed::of(backend.name().clone(), backend.prompt_tokens(prompt_bytes as usize), candidate, cost)
        });
        let work = &placement.forecast.work;
        let chosen = &scratch.candidates[placement.choice.index];
        Self {
            pool: pool.spec.name.clone(),
            backend: backend.name().clone(),
            upstream_model: backend.spec.model.clone(),
            reason: placement.choice.reason.label(),
            candidates: candidates.collect(),
            full: scratch.full.iter().map(|&member| pool.backends[member].name().clone()).collect(),
            predicted: Predicted {
                ttft_ms: chosen.ttft * 1e3,
                ttft_p90_ms: chosen.ttft_p90 * 1e3,
                tpot_ms: placement.forecast.tpot.seconds * 1e3,
                prompt_tokens,
                cached_tokens: prompt_tokens.saturating_sub(work.uncached_tokens),
                output_tokens: work.output_tokens,
                output_tokens_p90: placement.forecast.output.p90_within_limit() as u64,
            },
            provider: "unknown",
            began_ms: 0.0,
            ended_ms: None,
            ttft_ms: None,
            reported_cached_tokens: None,
            usage: None,
            usage_estimated: false,
            uncounted: None,
            failed: false,
            cost_usd: None,
            outcome: None,
        }
    }
    /// What each candidate would have cost, in a line of at most 1 KB: `a=120,b=4096`. A dash stands for one that was not weighed.
    pub(super) fn explained(&self, labels: &Labels) -> String {
        let mut text = String::new();
        for candidate in &self.candidates {
            let cost = candidate.cost.map_or_else(|| "-".to_owned(), |cost| format!("{cost:.4}"));
            let comma = if text.is_empty() { "" } else { "," };
            let one = format!("{comma}{}={cost}", labels.shown(&candidate.backend));
            if text.len() + one.len() > LONGEST_EXPLANATION {
                break;
            }
            text += &one;
        }
        text
    }

    /// The same decision, by the names that callers may see.
    pub(super) fn labelled(mut self, labels: &Labels) -> Self {
        let weighed = self.candidates.iter_mut().map(|candidate| &mut candidate.backend);
        for name in weighed.chain(&mut self.full).chain([&mut self.backend]) {
            *name = labels.shown(name).clone();
        }
        self
    }
}
