//! An engine's state as its metrics report it. A gauge that an engine does not export is unknown, never 0.

/// An inference engine that exports metrics.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum EngineKind {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// Hugging Face's text-generation-inference.
    Tgi,
    /// llama.cpp's server.
    LlamaCpp,
    /// TensorRT-LLM, served by itself or by Triton.
    TensorRtLlm,
    /// LMDeploy.
    LmDeploy,
    /// NVIDIA Dynamo: its frontend, which has several engines behind one address.
    Dynamo,
}

impl EngineKind {
    /// The name used in logs and on the status page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Tgi => "tgi",
            Self::LlamaCpp => "llama.cpp",
            Self::TensorRtLlm => "tensorrt-llm",
            Self::LmDeploy => "lmdeploy",
            Self::Dynamo => "dynamo",
        }
    }
}

/// The metrics that an engine exports. `None` marks one that it does not export, which is never read as 0. Counters
/// count from the engine's start.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineSignals {
    /// The kind of engine.
    pub kind: EngineKind,
    /// Requests being computed on the engine, from all its clients.
    pub running: Option<f64>,
    /// Requests in the engine's own queue, from all its clients.
    pub waiting: Option<f64>,
    /// Share of the engine's KV cache in use, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Size of the engine's KV cache, in tokens.
    pub kv_capacity_tokens: Option<u64>,
    /// Counter: prompt tokens looked up in the prefix cache.
    pub prefix_queries: Option<f64>,
    /// Counter: prompt tokens served from the prefix cache.
    pub prefix_hits: Option<f64>,
    /// The engine's own running average of the share of prompt tokens found, 0 to 1; see
    /// [`EngineSignals::prefix_hit_ratio`].
    pub reported_hit_ratio: Option<f64>,
    /// Counter: requests preempted for lack of KV cache.
    pub preemptions: Option<f64>,
    /// Counter: prompt tokens processed.
    pub prompt_tokens: Option<f64>,
    /// Counter: tokens generated.
    pub generated_tokens: Option<f64>,
    /// Counter: seconds to the first token as the engine measures them, summed over requests.
    pub ttft_sum: Option<f64>,
    /// Counter: requests that got a first token.
    pub ttft_count: Option<f64>,
    /// Prompt tokens of the requests in the engine's own queue.
    pub queued_tokens: Option<f64>,
    /// Counter: speculative drafts.
    pub drafts: Option<f64>,
    /// Counter: drafted tokens.
    pub drafted_tokens: Option<f64>,
    /// Counter: drafted tokens that the model accepted.
    pub accepted_tokens: Option<f64>,
    /// The engine's own running average of draft quality.
    pub reported_drafting: Option<Drafting>,
    /// True while the engine has put its weights away, on demand of its operator: it answers no request before it is woken.
    pub asleep: Option<bool>,
}

/// The quality of an engine's speculative decoding.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Drafting {
    /// The share of drafted tokens that were accepted, 0 to 1.
    pub ratio: f64,
    /// Mean accepted tokens per draft, without the token that each step of the model yields in any case.
    pub length: Option<f64>,
}

impl Drafting {
    /// True if speculative decoding hardly pays. A step that verifies a draft takes longer, and here fewer than half of
    /// the drafts yield an extra token. The accepted share alone does not show this: it is always low for long drafts.
    pub fn is_poor(&self) -> bool {
        self.length.is_some_and(|length| length < 0.5)
    }
}

/// The state of one machine's GPUs, from a metrics exporter.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct GpuSignals {
    /// Number of GPUs.
    pub count: u32,
    /// The share of time that a GPU is busy, averaged over all, 0 to 1.
    pub utilisation: Option<f64>,
    /// The share of memory in use on the fullest GPU, 0 to 1.
    pub memory: Option<f64>,
}

impl EngineSignals {
    /// An engine without any signals.
    pub const fn unknown(kind: EngineKind) -> Self {
        Self {
            kind,
            running: None,
            waiting: None,
            kv_usage: None,
            kv_capacity_tokens: None,
            prefix_queries: None,
            prefix_hits: None,
            reported_hit_ratio: None,
            preemptions: None,
            prompt_tokens: None,
            generated_tokens: None,
            ttft_sum: None,
            ttft_count: None,
            queued_tokens: None,
            drafts: None,
            drafted_tokens: None,
            accepted_tokens: None,
            reported_drafting: None,
            asleep: None,
        }
    }

    /// The share of prompt tokens found in the prefix cache since the `earlier` scrape, 0 to 1; the engine's own
    /// average if it has no counters. `None` if nothing was looked up in between or the engine restarted.
    pub fn prefix_hit_ratio(&self, earlier: &Self) -> Option<f64> {
        if let (Some(queries), Some(hits)) = (self.prefix_queries, self.prefix_hits) {
            return share_since((hits, earlier.prefix_hits?), (queries, earlier.prefix_queries?));
        }
        self.reported_hit_ratio
    }

    /// Prompt tokens that the engine has started to compute since its start, without those found in its prefix cache.
    /// Only for engines that count a prompt when they start it: most count it when its answer is complete, which is too
    /// late to be useful.
    pub fn begun_tokens(&self) -> Option<f64> {
        (self.kind == EngineKind::Vllm).then_some(())?;
        Some(self.prefix_queries? - self.prefix_hits?)
    }

    /// True if the engine restarted since the `earlier` scrape: a counter fell.
    pub fn restarted_since(&self, earlier: &Self) -> bool {
        let counters = |signals: &Self| {
            [
                signals.prefix_queries,
                signals.prefix_hits,
                signals.preemptions,
                signals.prompt_tokens,
                signals.generated_tokens,
                signals.ttft_count,
                signals.drafted_tokens,
            ]
        };
        let fell = |(now, before): (Option<f64>, Option<f64>)| matches!((now, before), (Some(now), Some(before)) if now < before);
        counters(self).into_iter().zip(counters(earlier)).any(fell)
    }

    /// The number of first tokens since the `earlier` scrape and their summed latency in seconds. `None` if there were
    /// none in between or the engine restarted.
    pub fn first_tokens(&self, earlier: &Self) -> Option<(f64, f64)> {
        let requests = self.ttft_count? - earlier.ttft_count?;
        let seconds = self.ttft_sum? - earlier.ttft_sum?;
        (requests > 0.0 && seconds >= 0.0).then_some((requests, seconds))
    }

    /// Speculative decoding since the `earlier` scrape. `None` if nothing was drafted or the engine restarted.
    pub fn drafted(&self, earlier: &Self) -> Option<Drafted> {
        let tokens = self.drafted_tokens? - earlier.drafted_tokens?;
        let accepted = self.accepted_tokens? - earlier.accepted_tokens?;
        let drafts = self.drafts.zip(earlier.drafts).map(|(now, before)| now - before);
        let fine = tokens > 0.0 && (0.0..=tokens).contains(&accepted) && drafts.is_none_or(|drafts| drafts > 0.0);
        fine.then_some(Drafted { drafts, tokens, accepted })
    }
}

/// Speculative decoding between two scrapes.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Drafted {
    /// Number of drafts, if the engine counts them.
    pub drafts: Option<f64>,
    /// Drafted tokens.
    pub tokens: f64,
    /// Drafted tokens that were accepted.
    pub accepted: f64,
}

/// The growth of one counter divided by another's. Each pair is the current and the earlier value.
fn share_since((part, part_before): (f64, f64), (whole, whole_before): (f64, f64)) -> Option<f64> {
    let (part, whole) = (part - part_before, whole - whole_before);
    (whole > 0.0 && part >= 0.0).then(|| (part / whole).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_between_scrapes() {
        let scrape = |queries: f64, hits: f64, ttft: (f64, f64)| EngineSignals {
            prefix_queries: Some(queries),
            prefix_hits: Some(hits),
            ttft_sum: Some(ttft.0),
            ttft_count: Some(ttft.1),
            ..EngineSignals::unknown(EngineKind::Vllm)
        };
        let (first, second) = (scrape(100.0, 10.0, (1.0, 10.0)), scrape(300.0, 160.0, (3.0, 15.0)));
        assert_eq!(second.prefix_hit_ratio(&first), Some(0.75));
        assert_eq!(second.first_tokens(&first), Some((5.0, 2.0)));
        assert_eq!(second.prefix_hit_ratio(&second), None, "nothing was looked up");
        assert_eq!(first.prefix_hit_ratio(&second), None, "the engine started anew");
        assert_eq!(first.first_tokens(&second), None);
        let drafted = |drafts, tokens, accepted| EngineSignals {
            drafts,
            drafted_tokens: Some(tokens),
            accepted_tokens: Some(accepted),
            ..EngineSignals::unknown(EngineKind::Vllm)
        };
        let (first, second) = (drafted(Some(10.0), 30.0, 12.0), drafted(Some(20.0), 60.0, 16.0));
        assert_eq!(second.drafted(&first), Some(Drafted { drafts: Some(10.0), tokens: 30.0, accepted: 4.0 }));
        assert_eq!(second.drafted(&second), None);
        assert_eq!(first.drafted(&second), None);
        assert!(first.restarted_since(&second));
        let gauge = EngineSignals { reported_hit_ratio: Some(0.3), ..EngineSignals::unknown(EngineKind::TensorRtLlm) };
        assert_eq!(gauge.prefix_hit_ratio(&gauge), Some(0.3));
    }
}
