//! SGLang and its router.

use crate::{
    ControlWords, Flag, MetricsPage, Priority, Profile, Refusal, Signal as S, Signs,
    Take::{Product, Ratio, Sum, Value},
    UsageForm, Verdict,
    metrics::page::{Pick, label, mean, only, sum},
};
use signalbox_types::{EngineApi as Api, EngineKind};

/// SGLang and its router.
pub(super) const PROFILE: Profile = Profile {
    name: "SGLang",
    signs: Signs { owners: &["sglang"], hosts: &[], headers: &[], routes: &["/server_info", "/get_server_info"] },
    port: Some(30000),
    metrics: Some(METRICS),
    endpoints: &[Api::Chat, Api::Completions, Api::Embeddings, Api::Responses, Api::Messages, Api::Tokenize],
    refusals: &[
        // With `--max-queued-requests`.
        Refusal::said(Verdict::Full, "request queue is full|queue is full|aborted by priority").at(&[503]),
        Refusal::said(Verdict::TooLong, "longer than the models context length"),
        // The router, while its circuits are open or its workers are starting.
        Refusal::said(Verdict::NotHere, "no available workers|no workers available").at(&[503]),
    ],
    control: ControlWords {
        members: &[
            "priority",
            "bootstrap_host",
            "bootstrap_port",
            "bootstrap_room",
            "routed_dp_rank",
            "data_parallel_rank",
            "disagg_prefill_dp_rank",
            "custom_logit_processor",
        ],
        headers: &["x-override-*"],
    },
    priority: Some(Priority { member: "priority", lowest_first: false, flag: "--enable-priority-scheduling" }),
    usage: UsageForm {
        cached: &["prompt_tokens_details.cached_tokens"],
        written: &[],
        reasoning: &["reasoning_tokens"],
    },
    flags: &[Flag {
        name: "--enable-cache-report",
        lacks: "`usage` has no cached tokens, and they are charged as others",
        reported_by: Some(("/server_info", "enable_cache_report")),
    }],
    ..Profile::UNKNOWN
};

const METRICS: MetricsPage = MetricsPage {
    kind: EngineKind::Sglang,
    path: "/metrics",
    port: None,
    flag: Some("--enable-metrics"),
    prefixes: &["sglang"],
    rank: Some("dp_rank"),
    signals: &[
        (S::Running, &[Value(undivided("num_running_reqs"))]),
        (
            S::Waiting,
            &[Sum(&[
                undivided("num_queue_reqs"),
                undivided("num_grammar_queue_reqs"),
                undivided("num_paused_reqs"),
                // With prefill and decode on separate servers, each has its own queues.
                undivided("num_prefill_bootstrap_queue_reqs"),
                undivided("num_prefill_prealloc_queue_reqs"),
                undivided("num_prefill_inflight_queue_reqs"),
                undivided("num_decode_prealloc_queue_reqs"),
                undivided("num_decode_host_receive_queue_reqs"),
                undivided("num_decode_transfer_queue_reqs"),
            ])],
        ),
        (
            S::KvUsage,
            &[
                Value(mean("token_usage")),
                Ratio(sum("num_used_tokens"), sum("max_total_num_tokens")),
                Ratio(sum("kv_used_tokens"), sum("max_total_num_tokens")),
            ],
        ),
        (
            S::KvCapacity,
            &[
                Value(sum("max_total_num_tokens")),
                Product(label("cache_config_info", "page_size"), label("cache_config_info", "num_pages")),
                Product(mean("page_size"), sum("num_pages")),
                Sum(&[sum("kv_used_tokens"), sum("kv_available_tokens"), sum("kv_evictable_tokens")]),
            ],
        ),
        (S::PrefixQueries, &[Value(sum("prompt_tokens"))]),
        (S::PrefixHits, &[Value(sum("cached_tokens"))]),
        (S::PrefixHitRatio, &[Value(mean("cache_hit_rate"))]),
        (S::Preemptions, &[Value(sum("num_retracted_requests")), Value(sum("num_retracted_reqs"))]),
        (S::PromptTokens, &[Value(sum("prompt_tokens"))]),
        (S::GeneratedTokens, &[Value(sum("generation_tokens"))]),
        (S::TtftSum, &[Value(sum("time_to_first_token_seconds_sum"))]),
        (S::TtftCount, &[Value(sum("time_to_first_token_seconds_count"))]),
        (S::AcceptRatio, &[Value(mean("spec_accept_rate"))]),
        (S::AcceptLength, &[Value(mean("spec_accept_length"))]),
    ],
};

/// With priorities enabled, the gauges are exported per priority, and for all with the label empty.
const fn undivided(name: &'static str) -> Pick {
    only(name, "priority", "")
}
