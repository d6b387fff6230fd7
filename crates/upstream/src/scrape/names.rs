//! Table of metric names: which metric of which engine carries which signal.
//!
//! Names are written without the engine's prefix and without a counter's `_total`, because versions and exporters
//! differ in both (`vllm:` and `vllm_`; client libraries add `_total`, older engines did not).

use self::{
    Signal as S,
    Take::{Product, Ratio, Sum, Value},
};
use signalbox_types::EngineKind::{self, self as Kind};

/// Prefixes of an engine's metric names, before a `:` or `_`.
const fn prefixes(kind: EngineKind) -> &'static [&'static str] {
    match kind {
        Kind::Vllm => &["vllm"],
        Kind::Sglang => &["sglang"],
        Kind::Tgi => &["tgi"],
        Kind::LlamaCpp => &["llamacpp"],
        Kind::TensorRtLlm => &["trtllm", "nv_trt_llm"],
        Kind::LmDeploy => &["lmdeploy"],
    }
}

/// The rest of `name` if it is a metric of this kind of engine.
pub(super) fn own_metric(kind: EngineKind, name: &str) -> Option<&str> {
    let rest = |prefix: &&str| name.strip_prefix(*prefix)?.strip_prefix([':', '_']);
    let rest = prefixes(kind).iter().find_map(rest)?;
    Some(rest.strip_suffix("_total").unwrap_or(rest))
}

/// A quantity of an engine.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// Requests being computed.
    Running,
    /// Requests in the engine's queue.
    Waiting,
    /// Share of the KV cache in use.
    KvUsage,
    /// Size of the KV cache in tokens.
    KvCapacity,
    /// Prompt tokens looked up in the prefix cache.
    PrefixQueries,
    /// Prompt tokens found there.
    PrefixHits,
    /// Share found, averaged by the engine.
    PrefixHitRatio,
    /// Requests interrupted for lack of KV cache.
    Preemptions,
    /// Prompt tokens processed.
    PromptTokens,
    /// Tokens generated.
    GeneratedTokens,
    /// Seconds to first token, summed over requests.
    TtftSum,
    /// Requests that got a first token.
    TtftCount,
    /// Prompt tokens in the engine's queue.
    QueuedTokens,
    /// Drafts (speculative decoding).
    Drafts,
    /// Tokens drafted.
    DraftedTokens,
    /// Drafted tokens that were accepted.
    AcceptedTokens,
    /// Share accepted, averaged by the engine.
    AcceptRatio,
    /// Tokens per step, including the one that every step yields, averaged by the engine.
    AcceptLength,
}

/// A metric, or the label of a metric whose own value means nothing.
#[derive(Copy, Clone, Debug)]
pub(super) struct Pick {
    pub(super) name: &'static str,
    /// Only series with this label and value; a missing label counts as empty.
    pub(super) only: Option<(&'static str, &'static str)>,
    /// Read this label instead of the value.
    pub(super) label: Option<&'static str>,
    pub(super) fold: Fold,
}

/// Aggregation over the series of a metric.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// For counts: over data-parallel engines, reasons, sources.
    Sum,
    /// For shares.
    Mean,
}

/// Derivation of a signal from metrics.
#[derive(Copy, Clone, Debug)]
pub(super) enum Take {
    /// The value itself.
    Value(Pick),
    /// Sum of the first and all others that are present.
    Sum(&'static [Pick]),
    /// The first divided by the second.
    Ratio(Pick, Pick),
    /// Product, within each series where both are labels of one metric.
    Product(Pick, Pick),
}

const fn sum(name: &'static str) -> Pick {
    Pick { name, only: None, label: None, fold: Fold::Sum }
}

const fn mean(name: &'static str) -> Pick {
    Pick { fold: Fold::Mean, ..sum(name) }
}

const fn only(name: &'static str, label: &'static str, value: &'static str) -> Pick {
    Pick { only: Some((label, value)), ..sum(name) }
}

const fn label(name: &'static str, label: &'static str) -> Pick {
    Pick { label: Some(label), ..sum(name) }
}

/// With priorities enabled, SGLang exports its gauges per priority, and for all with the label empty.
const fn undivided(name: &'static str) -> Pick {
    only(name, "priority", "")
}

/// For each kind and signal the possible derivations, best first.
#[rustfmt::skip]
pub(super) const TABLE: &[(Kind, Signal, &[Take])] = &[
    (Kind::Vllm, S::Running, &[Value(sum("num_requests_running"))]),
    (Kind::Vllm, S::Waiting, &[Value(sum("num_requests_waiting")), Value(sum("num_requests_waiting_by_reason"))]),
    (Kind::Vllm, S::KvUsage, &[Value(mean("kv_cache_usage_perc")), Value(mean("gpu_cache_usage_perc"))]),
    (Kind::Vllm, S::KvCapacity, &[
        Product(label("cache_config_info", "block_size"), label("cache_config_info", "num_gpu_blocks")),
    ]),
    (Kind::Vllm, S::PrefixQueries, &[Value(sum("prefix_cache_queries")), Value(sum("gpu_prefix_cache_queries"))]),
    (Kind::Vllm, S::PrefixHits, &[Value(sum("prefix_cache_hits")), Value(sum("gpu_prefix_cache_hits"))]),
    (Kind::Vllm, S::PrefixHitRatio, &[Value(mean("gpu_prefix_cache_hit_rate"))]),
    (Kind::Vllm, S::Preemptions, &[Value(sum("num_preemptions"))]),
    (Kind::Vllm, S::PromptTokens, &[Value(sum("prompt_tokens"))]),
    (Kind::Vllm, S::GeneratedTokens, &[Value(sum("generation_tokens"))]),
    (Kind::Vllm, S::TtftSum, &[Value(sum("time_to_first_token_seconds_sum"))]),
    (Kind::Vllm, S::TtftCount, &[Value(sum("time_to_first_token_seconds_count"))]),
    // Not in every build.
    (Kind::Vllm, S::QueuedTokens, &[Value(sum("num_queue_tokens")), Value(sum("num_waiting_tokens"))]),
    (Kind::Vllm, S::Drafts, &[Value(sum("spec_decode_num_drafts"))]),
    (Kind::Vllm, S::DraftedTokens, &[Value(sum("spec_decode_num_draft_tokens"))]),
    (Kind::Vllm, S::AcceptedTokens, &[Value(sum("spec_decode_num_accepted_tokens"))]),

    (Kind::Sglang, S::Running, &[Value(undivided("num_running_reqs"))]),
    (Kind::Sglang, S::Waiting, &[Sum(&[
        undivided("num_queue_reqs"), undivided("num_grammar_queue_reqs"),
        // With prefill and decode on separate servers, each has its own queues.
        undivided("num_prefill_prealloc_queue_reqs"), undivided("num_prefill_inflight_queue_reqs"),
        undivided("num_decode_prealloc_queue_reqs"), undivided("num_decode_transfer_queue_reqs"),
    ])]),
    (Kind::Sglang, S::KvUsage, &[
        Value(mean("token_usage")), Ratio(sum("num_used_tokens"), sum("max_total_num_tokens")),
    ]),
    (Kind::Sglang, S::KvCapacity, &[
        Value(sum("max_total_num_tokens")),
        Product(label("cache_config_info", "page_size"), label("cache_config_info", "num_pages")),
    ]),
    (Kind::Sglang, S::PrefixQueries, &[Value(sum("prompt_tokens"))]),
    (Kind::Sglang, S::PrefixHits, &[Value(sum("cached_tokens"))]),
    (Kind::Sglang, S::PrefixHitRatio, &[Value(mean("cache_hit_rate"))]),
    (Kind::Sglang, S::Preemptions, &[Value(sum("num_retracted_requests")), Value(sum("num_retracted_reqs"))]),
    (Kind::Sglang, S::PromptTokens, &[Value(sum("prompt_tokens"))]),
    (Kind::Sglang, S::GeneratedTokens, &[Value(sum("generation_tokens"))]),
    (Kind::Sglang, S::TtftSum, &[Value(sum("time_to_first_token_seconds_sum"))]),
    (Kind::Sglang, S::TtftCount, &[Value(sum("time_to_first_token_seconds_count"))]),
    (Kind::Sglang, S::AcceptRatio, &[Value(mean("spec_accept_rate"))]),
    (Kind::Sglang, S::AcceptLength, &[Value(mean("spec_accept_length"))]),

    (Kind::Tgi, S::Running, &[Value(sum("batch_current_size"))]),
    (Kind::Tgi, S::Waiting, &[Value(sum("queue_size"))]),
    // Tokens that the running batch may grow to: a substitute, since TGI exports no cache usage.
    (Kind::Tgi, S::KvUsage, &[Ratio(sum("batch_current_max_tokens"), sum("batch_max_total_tokens"))]),
    (Kind::Tgi, S::KvCapacity, &[Value(sum("batch_max_total_tokens"))]),

    (Kind::LlamaCpp, S::Running, &[Value(sum("requests_processing"))]),
    (Kind::LlamaCpp, S::Waiting, &[Value(sum("requests_deferred"))]),
    (Kind::LlamaCpp, S::KvUsage, &[Value(mean("kv_cache_usage_ratio"))]),
    (Kind::LlamaCpp, S::PromptTokens, &[Value(sum("prompt_tokens"))]),
    (Kind::LlamaCpp, S::GeneratedTokens, &[Value(sum("tokens_predicted"))]),

    (Kind::TensorRtLlm, S::Running, &[
        Value(sum("num_requests_running")),
        Value(only("request_metrics", "request_type", "scheduled")),
        Value(only("request_metrics", "request_type", "active")),
    ]),
    (Kind::TensorRtLlm, S::Waiting, &[
        Value(sum("num_requests_waiting")), Value(only("request_metrics", "request_type", "waiting")),
    ]),
    (Kind::TensorRtLlm, S::KvUsage, &[
        Value(mean("kv_cache_utilization")),
        Value(Pick { fold: Fold::Mean, ..only("kv_cache_block_metrics", "kv_cache_block_type", "fraction") }),
    ]),
    (Kind::TensorRtLlm, S::KvCapacity, &[
        Product(mean("kv_cache_tokens_per_block"), sum("kv_cache_max_blocks")),
        Product(
            Pick { fold: Fold::Mean, ..only("kv_cache_block_metrics", "kv_cache_block_type", "tokens_per") },
            only("kv_cache_block_metrics", "kv_cache_block_type", "max"),
        ),
    ]),
    (Kind::TensorRtLlm, S::PrefixHitRatio, &[Value(mean("kv_cache_hit_rate"))]),
    (Kind::TensorRtLlm, S::TtftSum, &[Value(sum("time_to_first_token_seconds_sum"))]),
    (Kind::TensorRtLlm, S::TtftCount, &[Value(sum("time_to_first_token_seconds_count"))]),
    (Kind::TensorRtLlm, S::DraftedTokens, &[Value(sum("spec_decode_num_draft_tokens"))]),
    (Kind::TensorRtLlm, S::AcceptedTokens, &[Value(sum("spec_decode_num_accepted_tokens"))]),

    (Kind::LmDeploy, S::Running, &[Value(sum("num_requests_running"))]),
    // Requests that wait for a handle are not yet counted as waiting in the engine.
    (Kind::LmDeploy, S::Waiting, &[Sum(&[sum("num_requests_waiting"), sum("num_api_requests_waiting")])]),
    (Kind::LmDeploy, S::KvUsage, &[Value(mean("gpu_cache_usage_perc"))]),
    (Kind::LmDeploy, S::PrefixQueries, &[Value(sum("prompt_tokens"))]),
    (Kind::LmDeploy, S::PrefixHits, &[Value(sum("cached_tokens"))]),
    (Kind::LmDeploy, S::PrefixHitRatio, &[Value(mean("prefix_cache_hit_rate"))]),
    (Kind::LmDeploy, S::PromptTokens, &[Value(sum("prompt_tokens"))]),
    (Kind::LmDeploy, S::GeneratedTokens, &[Value(sum("generation_tokens"))]),
    (Kind::LmDeploy, S::TtftSum, &[Value(sum("time_to_first_token_seconds_sum"))]),
    (Kind::LmDeploy, S::TtftCount, &[Value(sum("time_to_first_token_seconds_count"))]),
];

/// Labels of processes that work on the same requests: all report the same numbers, so only one counts.
pub(super) const REPLICAS: [&str; 3] = ["tp_rank", "pp_rank", "moe_ep_rank"];
