//! vLLM.

use crate::{
    ControlWords, Flag, MetricsPage, Priority, Profile, Refusal, Signal as S, Signs,
    Take::{Product, Sum, Value},
    UsageForm, Verdict,
    metrics::page::{label, mean, mean_of, sum},
};
use signalbox_types::{EngineApi as Api, EngineKind};

/// vLLM.
pub(super) const PROFILE: Profile = Profile {
    name: "vLLM",
    signs: Signs { owners: &["vllm"], hosts: &[], headers: &[], routes: &["/version", "/is_sleeping"] },
    port: Some(8000),
    metrics: Some(METRICS),
    endpoints: &[Api::Chat, Api::Completions, Api::Embeddings, Api::Responses, Api::Messages, Api::Tokenize],
    refusals: &[
        // With `--max-num-queued-reqs`: 503 without `Retry-After`.
        Refusal::said(Verdict::Full, "engine is currently busy & cannot accept new requests").at(&[503]),
        Refusal::said(Verdict::TooLong, "decoder prompt|encoder prompt|prompt & longer than the maximum model length"),
        Refusal::said(Verdict::Incapable, "not a multimodal model"),
    ],
    control: ControlWords {
        members: &["priority", "kv_transfer_params", "ec_transfer_params"],
        headers: &["x-data-parallel-rank"],
    },
    priority: Some(Priority { member: "priority", lowest_first: true, flag: "--scheduling-policy priority" }),
    usage: UsageForm { cached: &["prompt_tokens_details.cached_tokens"], written: &[], reasoning: &[] },
    flags: &[Flag {
        name: "--enable-prompt-tokens-details",
        lacks: "`usage` has no cached tokens, and they are charged as others",
        reported_by: None,
    }],
    ..Profile::UNKNOWN
};

const METRICS: MetricsPage = MetricsPage {
    kind: EngineKind::Vllm,
    path: "/metrics",
    port: None,
    flag: None,
    prefixes: &["vllm"],
    rank: Some("engine"),
    signals: &[
        (S::Running, &[Value(sum("num_requests_running"))]),
        (S::Waiting, &[Value(sum("num_requests_waiting")), Value(sum("num_requests_waiting_by_reason"))]),
        (S::KvUsage, &[Value(mean("kv_cache_usage_perc")), Value(mean("gpu_cache_usage_perc"))]),
        (
            S::KvCapacity,
            &[
                // Blocks of hybrid models are not all of one kind: their number times their size is too much.
                Value(label("cache_config_info", "kv_cache_size_tokens")),
                Product(label("cache_config_info", "block_size"), label("cache_config_info", "num_gpu_blocks")),
            ],
        ),
        (S::PrefixQueries, &[Value(sum("prefix_cache_queries")), Value(sum("gpu_prefix_cache_queries"))]),
        (
            S::PrefixHits,
            &[
                // The store beside the cache is asked for what the cache lacks.
                Sum(&[sum("prefix_cache_hits"), sum("external_prefix_cache_hits")]),
                Value(sum("gpu_prefix_cache_hits")),
            ],
        ),
        (S::PrefixHitRatio, &[Value(mean("gpu_prefix_cache_hit_rate"))]),
        (S::Preemptions, &[Value(sum("num_preemptions"))]),
        (S::PromptTokens, &[Value(sum("prompt_tokens"))]),
        (S::GeneratedTokens, &[Value(sum("generation_tokens"))]),
        (S::TtftSum, &[Value(sum("time_to_first_token_seconds_sum"))]),
        (S::TtftCount, &[Value(sum("time_to_first_token_seconds_count"))]),
        // Not in every build.
        (S::QueuedTokens, &[Value(sum("num_queue_tokens")), Value(sum("num_waiting_tokens"))]),
        (S::Drafts, &[Value(sum("spec_decode_num_drafts"))]),
        (S::DraftedTokens, &[Value(sum("spec_decode_num_draft_tokens"))]),
        (S::AcceptedTokens, &[Value(sum("spec_decode_num_accepted_tokens"))]),
        (S::Awake, &[Value(mean_of("engine_sleep_state", "sleep_state", "awake"))]),
    ],
};
