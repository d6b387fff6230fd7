//! TensorRT-LLM.

use crate::{
    ControlWords, MetricsPage, Profile, Refusal, Signal as S, Signs,
    Take::{Product, Sum, Value},
    UsageForm, Verdict,
    metrics::page::{mean, mean_of, only, sum},
};
use signalbox_types::{EngineApi as Api, EngineKind};

/// TensorRT-LLM.
pub(super) const PROFILE: Profile = Profile {
    name: "TensorRT-LLM",
    signs: Signs {
        owners: &["tensorrt_llm"],
        hosts: &[],
        headers: &[],
        routes: &["/prometheus/metrics", "/kv_cache_events"],
    },
    metrics: Some(METRICS),
    endpoints: &[Api::Chat, Api::Completions, Api::Responses],
    refusals: &[
        Refusal::said(
            Verdict::TooLong,
            "sum of prompt length|prompt length & exceed max num tokens|exceed max seq len|exceeds maximum input length",
        ),
        Refusal::said(Verdict::TooLong, "default max tokens & should be greater than"),
    ],
    control: ControlWords { members: &["disaggregated_params"], headers: &[] },
    usage: UsageForm { cached: &["prompt_tokens_details.cached_tokens"], written: &[], reasoning: &[] },
    ..Profile::UNKNOWN
};

const METRICS: MetricsPage = MetricsPage {
    kind: EngineKind::TensorRtLlm,
    path: "/prometheus/metrics",
    port: None,
    flag: Some("return_perf_metrics: true"),
    prefixes: &["trtllm", "nv_trt_llm"],
    rank: None,
    signals: &[
        (
            S::Running,
            &[
                Value(sum("num_requests_running")),
                Value(only("request_metrics", "request_type", "scheduled")),
                Value(only("request_metrics", "request_type", "active")),
            ],
        ),
        (
            S::Waiting,
            &[
                Sum(&[sum("num_requests_waiting"), sum("num_paused_requests")]),
                Value(only("request_metrics", "request_type", "waiting")),
            ],
        ),
        (
            S::KvUsage,
            &[
                Value(mean("kv_cache_utilization")),
                Value(mean_of("kv_cache_block_metrics", "kv_cache_block_type", "fraction")),
            ],
        ),
        (
            S::KvCapacity,
            &[
                Product(mean("kv_cache_tokens_per_block"), sum("kv_cache_max_blocks")),
                Product(
                    mean_of("kv_cache_block_metrics", "kv_cache_block_type", "tokens_per"),
                    only("kv_cache_block_metrics", "kv_cache_block_type", "max"),
                ),
            ],
        ),
        (S::PrefixQueries, &[Value(sum("prompt_tokens"))]),
        (S::PrefixHits, &[Value(sum("prompt_cached_tokens"))]),
        (S::PrefixHitRatio, &[Value(mean("kv_cache_hit_rate"))]),
        (S::PromptTokens, &[Value(sum("prompt_tokens"))]),
        (S::GeneratedTokens, &[Value(sum("generation_tokens"))]),
        (S::TtftSum, &[Value(sum("time_to_first_token_seconds_sum"))]),
        (S::TtftCount, &[Value(sum("time_to_first_token_seconds_count"))]),
        (S::DraftedTokens, &[Value(sum("spec_decode_num_draft_tokens")), Value(sum("spec_decode_drafted_tokens"))]),
        (
            S::AcceptedTokens,
            &[Value(sum("spec_decode_num_accepted_tokens")), Value(sum("spec_decode_accepted_tokens"))],
        ),
    ],
};
