//! One attempt of a request: the placement decision with every candidate, and its result.

use serde::Serialize;

use signalbox_fleet::{Placement, Pool, Scratch};
use signalbox_policy::Labels;
use signalbox_prompt::prefix_stability::CacheReport;
use signalbox_types::{Candidate, Name, Usage};

/// Maximum length of the header that lists candidates, in bytes.
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
    /// The reason for this choice.
    pub reason: &'static str,
    /// Every candidate, as it was at that moment.
    pub candidates: Vec<WeighedCandidate>,
    /// Backends that were no candidates because they were full.
    pub full: Vec<Name>,
    /// The forecast for the chosen backend.
    pub predicted: Predicted,
    /// The operator of the backend: a provider, recognised by its address, or the engine's kind.
    pub provider: &'static str,
    /// Host and port of the engine, for traces alone.
    #[serde(skip)]
    pub address: Option<(String, u16)>,
    /// Time from the request's arrival to the start of the attempt, in milliseconds.
    pub began_ms: f64,
    /// Time from the request's arrival to the end of the attempt, in milliseconds; `None` while it runs.
    pub ended_ms: Option<f64>,
    /// Time from dispatch to the arrival of the first token, in milliseconds.
    pub ttft_ms: Option<f64>,
    /// Prompt tokens that the engine reported as cached.
    pub reported_cached_tokens: Option<u64>,
    /// Tokens, as the engine reported them.
    pub usage: Option<Usage>,
    /// True if `usage` is the gateway's estimate instead: the answer was cancelled before the engine reported a count.
    pub usage_estimated: bool,
    /// Cost of these tokens in US dollars, where prices are known.
    pub cost_usd: Option<f64>,
    /// The end of the attempt; `None` while it runs.
    pub outcome: Option<&'static str>,
    /// Estimated tokens, where the attempt delivered some and ended before the engine reported a count.
    #[serde(skip)]
    pub uncounted: Option<Usage>,
    /// True if the engine failed or missed the deadline of the first token.
    #[serde(skip)]
    pub failed: bool,
}

/// The forecast for an attempt when its backend was chosen.
#[derive(Copy, Clone, Debug, Serialize)]
pub struct Predicted {
    /// Time to the first token, in milliseconds: the median.
    pub ttft_ms: f64,
    /// Time to the first token, in milliseconds: the 90th percentile.
    pub ttft_p90_ms: f64,
    /// Time per further token, in milliseconds: the median.
    pub tpot_ms: f64,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Prompt tokens that the engine should have cached.
    pub cached_tokens: u64,
    /// Tokens of the answer: the mean.
    pub output_tokens: u64,
    /// Tokens of the answer: the 90th percentile.
    pub output_tokens_p90: u64,
}

/// A candidate as the balancer saw it: the terms of its cost, and the forecast for it.
#[derive(Clone, Debug, Serialize)]
pub struct WeighedCandidate {
    /// The backend.
    pub backend: Name,
    /// The placement cost, in the strategy's unit.
    pub cost: Option<f64>,
    /// Requests of this gateway on its engine.
    pub in_flight: u32,
    /// Requests of other clients on the backend's engine.
    pub foreign: u32,
    /// Requests that its engine computes at once, where known.
    pub slots: Option<u32>,
    /// Prompt tokens that wait on the engine, including those of other clients that it reports.
    pub queued_tokens: u64,
    /// Prompt tokens of this request that the backend would have to compute.
    pub uncached_tokens: u64,
    /// Prompt tokens of this request that should be in the backend's prefix cache.
    pub cached_tokens: u64,
    /// Requests that decode on the engine.
    pub decoding: u32,
    /// Tokens by which its KV cache is too small for all that was reserved there, plus the wait for one of its slots and for its model to be
    /// loaded, in prompt tokens.
    pub overflow_tokens: u64,
    /// Expected time until its engine has loaded its model, in milliseconds. Missing if it is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_ms: Option<f64>,
    /// Share of its time that its engine recently spent on prompts.
    pub utilisation: f64,
    /// Duration of work on this backend, as a multiple of that on the pool's other backends.
    pub speed: f64,
    /// Expected time to the first token from this backend, in milliseconds: the median.
    pub ttft_ms: f64,
    /// Expected time to the first token there, in milliseconds: the 90th percentile.
    pub ttft_p90_ms: f64,
    /// Probability that this backend meets the request's latency limits; 1 where it has none.
    pub attainment: f64,
    /// Fixed share of the pool's traffic, if it has one.
    pub weight: Option<f64>,
    /// True if the backend failed recently.
    pub avoided: bool,
}

impl WeighedCandidate {
    /// Describes the candidate `backend`, whose tokenizer counts `prompt_tokens` for this prompt.
    pub(crate) fn of(backend: Name, prompt_tokens: u64, candidate: &Candidate, cost: Option<f64>) -> Self {
        Self {
            backend,
            cost,
            in_flight: candidate.in_flight,
            foreign: candidate.foreign,
            slots: candidate.slots,
            queued_tokens: candidate.queued_tokens,
            uncached_tokens: candidate.uncached_tokens,
            cached_tokens: prompt_tokens.saturating_sub(candidate.uncached_tokens),
            decoding: candidate.decoding,
            overflow_tokens: candidate.overflow_tokens,
            load_ms: (candidate.load > 0.0).then_some(candidate.load * 1e3),
            utilisation: candidate.utilisation,
            speed: candidate.speed,
            ttft_ms: candidate.ttft * 1e3,
            ttft_p90_ms: candidate.ttft_p90 * 1e3,
            attainment: candidate.attainment,
            weight: candidate.weight,
            avoided: candidate.avoided,
        }
    }
}

impl AttemptEntry {
    /// Returns the engine's report of its prefix cache and the forecast for it, both bounded by the prompt as the engine counted it. `None`
    /// where the engine does not report.
    pub fn hits(&self) -> Option<CacheReport> {
        let (reported, prompt) = (self.reported_cached_tokens?, self.usage?.prompt_tokens);
        Some(CacheReport {
            prompt,
            predicted: self.predicted.cached_tokens.min(prompt),
            reported: reported.min(prompt),
        })
    }

    /// Describes the attempt that a placement leads to; `scratch` holds all candidates of that decision.
    pub fn of(pool: &Pool, scratch: &Scratch, placement: &Placement, prompt_weight: u64) -> Self {
        let backend = &pool.backends[placement.backend];
        let prompt_tokens = placement.forecast.work.prompt_tokens;
        let all = scratch.members.iter().zip(&scratch.candidates).zip(&scratch.costs);
        let candidates = all.map(|((&member, candidate), &cost)| {
            let backend = &pool.backends[member];
            WeighedCandidate::of(backend.name().clone(), backend.prompt_tokens(prompt_weight), candidate, cost)
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
            address: None,
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

    /// Formats the cost of each candidate in at most 1 KB: `a=120,b=4096`. A dash stands for a candidate without a cost.
    pub fn cost_header(&self, labels: &Labels) -> String {
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

    /// Replaces backend names by the labels that callers may see.
    #[must_use]
    pub fn labelled(mut self, labels: &Labels) -> Self {
        let weighed = self.candidates.iter_mut().map(|candidate| &mut candidate.backend);
        for name in weighed.chain(&mut self.full).chain([&mut self.backend]) {
            *name = labels.shown(name).clone();
        }
        self
    }
}
