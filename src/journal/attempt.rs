//! A decision, told with every candidate.

use serde::Serialize;

use crate::{
    fleet::{Placement, Pool, Scratch},
    policy::Labels,
    prompt::prefix_stability::CacheReport,
    types::{Candidate, Name, Usage},
};

/// Most bytes of the header that lists candidates.
const LONGEST_EXPLANATION: usize = 1024;

/// One attempt at a backend.
#[derive(Clone, Debug, Serialize)]
pub struct AttemptEntry {
    /// The pool.
    pub pool: Name,
    /// The backend chosen.
    pub backend: Name,
    /// The model's name upstream, where the policy sets one.
    pub upstream_model: Option<Name>,
    /// Why that one.
    pub reason: &'static str,
    /// Every candidate, as it looked at that moment.
    pub candidates: Vec<WeighedCandidate>,
    /// Backends that were no candidates, because they had no room.
    pub full: Vec<Name>,
    /// What was expected of the chosen one.
    pub predicted: Predicted,
    /// Who ran it: a provider by its address, or the engine's kind.
    pub provider: &'static str,
    /// From the request's arrival to the attempt's beginning, in milliseconds.
    pub began_ms: f64,
    /// From the request's arrival to the attempt's end, in milliseconds; `None` while it is under way.
    pub ended_ms: Option<f64>,
    /// What came of it: from dispatch to the first token's arrival here, in milliseconds.
    pub ttft_ms: Option<f64>,
    /// Prompt tokens that the engine says it had cached.
    pub reported_cached_tokens: Option<u64>,
    /// Its tokens, as the engine reported them.
    pub usage: Option<Usage>,
    /// Whether they are our estimate instead: its answer was given up before its engine had counted.
    pub usage_estimated: bool,
    /// What they cost in US dollars, where prices are known.
    pub cost_usd: Option<f64>,
    /// How the attempt ended; `None` while it is under way.
    pub outcome: Option<&'static str>,
    /// Its tokens by our estimate, where it gave any and its engine had not counted them when it ended.
    #[serde(skip)]
    pub(crate) uncounted: Option<Usage>,
    /// Whether its engine failed, or gave no first token in its time.
    #[serde(skip)]
    pub(crate) failed: bool,
}

/// What was expected of an attempt when its backend was chosen.
#[derive(Copy, Clone, Debug, Serialize)]
pub struct Predicted {
    /// The time to its first token, in milliseconds: the median.
    pub ttft_ms: f64,
    /// The 90th percentile.
    pub ttft_p90_ms: f64,
    /// The time per further token, in milliseconds: the median.
    pub tpot_ms: f64,
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// Of these, the ones that the engine should have cached.
    pub cached_tokens: u64,
    /// Tokens of its answer: the mean.
    pub output_tokens: u64,
    /// The 90th percentile.
    pub output_tokens_p90: u64,
}

/// A candidate as the balancer saw it: the terms of its cost, and what was expected there.
#[derive(Clone, Debug, Serialize)]
pub struct WeighedCandidate {
    /// The backend.
    pub backend: Name,
    /// What it would have cost, in the strategy's unit.
    pub cost: Option<f64>,
    /// Requests of ours on its engine.
    pub in_flight: u32,
    /// Requests of others there.
    pub foreign: u32,
    /// How many requests its engine computes at once, where that is known.
    pub slots: Option<u32>,
    /// Prompt tokens waiting there, with those of others that its engine tells of.
    pub queued_tokens: u64,
    /// Prompt tokens of this request to compute there.
    pub uncached_tokens: u64,
    /// The same of a mean request of the pool.
    pub mean_uncached_tokens: f64,
    /// Prompt tokens of this request that should be cached there.
    pub cached_tokens: u64,
    /// Requests that decode there.
    pub decoding: u32,
    /// The same in streams of mean size: half by their number, half by the tokens promised to all requests there.
    pub streams: f64,
    /// Tokens of a mean answer of the pool.
    pub mean_output_tokens: u64,
    /// Prompt tokens that its engine computes in the time of an idle decoding step.
    pub step_tokens: f64,
    /// Tokens by which its KV cache will be too small for all that was promised; and the wait for one of its slots, in prompt tokens.
    pub overflow_tokens: u64,
    /// The share of its time that its engine lately spent on prompts.
    pub utilisation: f64,
    /// How many times as long as on the pool's others things take there.
    pub speed: f64,
    /// How near the time per token comes to its limit there; 1 is at the limit.
    pub strain: f64,
    /// The time to the first token to expect there, in milliseconds: the median.
    pub ttft_ms: f64,
    /// The same in prompt tokens, at its engine's pace for this request's own.
    pub ttft_tokens: f64,
    /// The 90th percentile.
    pub ttft_p90_ms: f64,
    /// The chance that the request's limits are kept there; 1 where it has none.
    pub attainment: f64,
    /// Its fixed share of the pool's traffic, if it has one.
    pub weight: Option<f64>,
    /// Whether it failed lately.
    pub avoided: bool,
}

impl WeighedCandidate {
    /// The candidate `backend`, on which the prompt has so many tokens.
    pub(crate) fn of(backend: Name, prompt_tokens: u64, candidate: &Candidate, cost: Option<f64>) -> Self {
        Self {
            backend,
            cost,
            in_flight: candidate.in_flight,
            foreign: candidate.foreign,
            slots: candidate.slots,
            queued_tokens: candidate.queued_tokens,
            uncached_tokens: candidate.uncached_tokens,
            mean_uncached_tokens: candidate.mean_uncached_tokens,
            cached_tokens: prompt_tokens.saturating_sub(candidate.uncached_tokens),
            decoding: candidate.decoding,
            streams: candidate.streams,
            mean_output_tokens: candidate.mean_output_tokens,
            step_tokens: candidate.step_tokens,
            overflow_tokens: candidate.overflow_tokens,
            utilisation: candidate.utilisation,
            speed: candidate.speed,
            strain: candidate.strain,
            ttft_ms: candidate.ttft * 1e3,
            ttft_tokens: candidate.ttft_tokens,
            ttft_p90_ms: candidate.ttft_p90 * 1e3,
            attainment: candidate.attainment,
            weight: candidate.weight,
            avoided: candidate.avoided,
        }
    }
}

impl AttemptEntry {
    /// What its engine reports of its cache, and what was expected of that: by our own count of the prompt, of which that may be more.
    pub(crate) fn hits(&self) -> Option<CacheReport> {
        let (reported, prompt) = (self.reported_cached_tokens?, self.usage?.prompt_tokens);
        Some(CacheReport {
            prompt,
            predicted: self.predicted.cached_tokens.min(prompt),
            reported: reported.min(prompt),
        })
    }
}

impl AttemptEntry {
    /// The attempt that a decision leads to, with every candidate of it in `scratch`.
    pub(crate) fn of(pool: &Pool, scratch: &Scratch, placement: &Placement, prompt_bytes: u64) -> Self {
        let backend = &pool.backends[placement.backend];
        let prompt_tokens = placement.forecast.work.prompt_tokens;
        let all = scratch.members.iter().zip(&scratch.candidates).zip(&scratch.costs);
        let candidates = all.map(|((&member, candidate), &cost)| {
            let backend = &pool.backends[member];
            WeighedCandidate::of(backend.name().clone(), backend.prompt_tokens(prompt_bytes as usize), candidate, cost)
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
    pub(crate) fn explained(&self, labels: &Labels) -> String {
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
    pub(crate) fn labelled(mut self, labels: &Labels) -> Self {
        let weighed = self.candidates.iter_mut().map(|candidate| &mut candidate.backend);
        for name in weighed.chain(&mut self.full).chain([&mut self.backend]) {
            *name = labels.shown(name).clone();
        }
        self
    }
}
