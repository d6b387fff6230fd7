//! What an engine says of itself in its metrics. A gauge it does not have is unknown, never 0.

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
}

impl EngineKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [Self::Vllm, Self::Sglang, Self::Tgi, Self::LlamaCpp, Self::TensorRtLlm, Self::LmDeploy];

    /// The name used in logs and on the page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Tgi => "tgi",
            Self::LlamaCpp => "llama.cpp",
            Self::TensorRtLlm => "tensorrt-llm",
            Self::LmDeploy => "lmdeploy",
        }
    }
}

/// What an engine says of itself; `None` for what it does not say, which is never taken for 0. Counters count from the
/// engine's start.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineSignals {
    /// What it is.
    pub kind: EngineKind,
    /// Requests being computed, from all its clients.
    pub running: Option<f64>,
    /// Requests in its own queue, from all its clients.
    pub waiting: Option<f64>,
    /// Share of its KV cache in use, 0 to 1.
    pub kv_usage: Option<f64>,
    /// Size of its KV cache, in tokens.
    pub kv_capacity_tokens: Option<u64>,
    /// Counter: prompt tokens looked up in its prefix cache.
    pub prefix_queries: Option<f64>,
    /// Counter: prompt tokens found there.
    pub prefix_hits: Option<f64>,
    /// The share of prompt tokens found, 0 to 1, as the engine itself averages it; see
    /// [`EngineSignals::prefix_hit_ratio`].
    pub reported_hit_ratio: Option<f64>,
    /// Counter: requests interrupted for want of KV cache.
    pub preemptions: Option<f64>,
    /// Counter: prompt tokens processed.
    pub prompt_tokens: Option<f64>,
    /// Counter: tokens generated.
    pub generated_tokens: Option<f64>,
    /// Counter: seconds to first token by its own clock, summed over requests.
    pub ttft_sum: Option<f64>,
    /// Counter: requests that got a first token.
    pub ttft_count: Option<f64>,
    /// Prompt tokens of the requests in its own queue.
    pub queued_tokens: Option<f64>,
    /// Counter: times that tokens were drafted ahead of the model.
    pub drafts: Option<f64>,
    /// Counter: tokens of these drafts.
    pub drafted_tokens: Option<f64>,
    /// Counter: those of them that the model would have said too.
    pub accepted_tokens: Option<f64>,
    /// How good its drafts are, as the engine itself averages it.
    pub reported_drafting: Option<Drafting>,
}

/// How good the tokens are that an engine drafts ahead of its model.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Drafting {
    /// The share of drafted tokens that were accepted, 0 to 1.
    pub ratio: f64,
    /// How many of a draft were, on average, without the token that each step of the model gives in any case.
    pub length: Option<f64>,
}

impl Drafting {
    /// Whether it hardly pays: a step that checks a draft takes longer than one that does not, and fewer than half of these give anything
    /// more for it. The share alone does not tell: long drafts have low ones by nature.
    pub fn is_poor(&self) -> bool {
        self.length.is_some_and(|length| length < 0.5)
    }
}

/// What an exporter says of the GPUs of one machine.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct GpuSignals {
    /// How many there are.
    pub count: u32,
    /// The share of its time that a GPU is busy, a mean over all, 0 to 1.
    pub utilisation: Option<f64>,
    /// The share of its memory that is in use at the fullest, 0 to 1.
    pub memory: Option<f64>,
}

impl EngineSignals {
    /// An engine that says nothing.
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
        }
    }

    /// The share of prompt tokens found in the prefix cache since the `earlier` scrape, 0 to 1; from the engine's own
    /// average where it has no counters. `None` when nothing was looked up in between, or the engine started anew.
    pub fn prefix_hit_ratio(&self, earlier: &Self) -> Option<f64> {
        if let (Some(queries), Some(hits)) = (self.prefix_queries, self.prefix_hits) {
            return share_since((hits, earlier.prefix_hits?), (queries, earlier.prefix_queries?));
        }
        self.reported_hit_ratio
    }

    /// Prompt tokens that it had begun to compute in its life, those found in its prefix cache left out. Only of engines that count a
    /// prompt when they begin with it: most count it when its answer is over, and then it is no news.
    pub fn begun_tokens(&self) -> Option<f64> {
        (self.kind == EngineKind::Vllm).then_some(())?;
        Some(self.prefix_queries? - self.prefix_hits?)
    }

    /// Whether the engine started anew since the `earlier` scrape: a counter fell.
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

    /// First tokens since the `earlier` scrape, and the seconds to them, summed. `None` when there was none in between, or the engine
    /// started anew.
    pub fn first_tokens(&self, earlier: &Self) -> Option<(f64, f64)> {
        let requests = self.ttft_count? - earlier.ttft_count?;
        let seconds = self.ttft_sum? - earlier.ttft_sum?;
        (requests > 0.0 && seconds >= 0.0).then_some((requests, seconds))
    }

    /// What it drafted since the `earlier` scrape. `None` when that was nothing, or the engine started anew.
    pub fn drafted(&self, earlier: &Self) -> Option<Drafted> {
        let tokens = self.drafted_tokens? - earlier.drafted_tokens?;
        let accepted = self.accepted_tokens? - earlier.accepted_tokens?;
        let drafts = self.drafts.zip(earlier.drafts).map(|(now, before)| now - before);
        let fine = tokens > 0.0 && (0.0..=tokens).contains(&accepted) && drafts.is_none_or(|drafts| drafts > 0.0);
        fine.then_some(Drafted { drafts, tokens, accepted })
    }
}

/// What was drafted between two scrapes.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Drafted {
    /// How often, where the engine counts it.
    pub drafts: Option<f64>,
    /// Tokens.
    pub tokens: f64,
    /// Those of them that were accepted.
    pub accepted: f64,
}

/// The growth of one counter in units of another's; each is given as it is now and as it was.
fn share_since((part, part_before): (f64, f64), (whole, whole_before): (f64, f64)) -> Option<f64> {
    let (part, whole) = (part - part_before, whole - whole_before);
    (whole > 0.0 && part >= 0.0).then(|| (part / whole).min(1.0))
}
