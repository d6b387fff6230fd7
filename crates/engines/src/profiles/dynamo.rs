//! NVIDIA Dynamo: the frontend in front of workers of other engines.

use crate::{
    ControlWords, MetricsPage, Profile, Refusal, Signal as S, Signs,
    Take::{Value, Without},
    UsageForm, Verdict,
    metrics::page::{mean, sum},
};
use signalbox_types::{EngineApi as Api, EngineKind};

/// NVIDIA Dynamo: the frontend in front of workers of other engines.
pub(super) const PROFILE: Profile = Profile {
    name: "Dynamo",
    signs: Signs { owners: &["nvidia"], hosts: &[], headers: &[("x-dynamo-request-id", "")], routes: &["/live"] },
    metrics: Some(METRICS),
    endpoints: &[Api::Chat, Api::Completions, Api::Embeddings, Api::Responses, Api::Messages],
    refusals: &[
        // All workers are above their thresholds.
        Refusal::said(Verdict::Full, "all workers are busy|workers are overloaded|service temporarily unavailable all")
            .at(&[503]),
        Refusal::said(Verdict::NotHere, "no instances|no responders|no workers"),
    ],
    control: ControlWords {
        members: &["nvext"],
        headers: &["x-dynamo-*", "x-worker-instance-id", "x-prefill-instance-id", "x-dp-rank", "x-prefill-dp-rank"],
    },
    usage: UsageForm { cached: &["prompt_tokens_details.cached_tokens"], written: &[], reasoning: &[] },
    ..Profile::UNKNOWN
};

const METRICS: MetricsPage = MetricsPage {
    kind: EngineKind::Dynamo,
    path: "/metrics",
    port: None,
    flag: None,
    prefixes: &["dynamo_frontend", "dynamo_component"],
    rank: None,
    signals: &[
        // The queue counts requests until their first token, which are under way as well.
        (
            S::Running,
            &[
                Without(sum("inflight_requests"), sum("queued_requests")),
                Without(sum("active_requests"), sum("queued_requests")),
                Value(sum("inflight_requests")),
            ],
        ),
        (S::Waiting, &[Value(sum("queued_requests"))]),
        (S::KvUsage, &[Value(mean("kvstats_gpu_cache_usage_percent"))]),
        (S::PrefixHitRatio, &[Value(mean("kvstats_gpu_prefix_cache_hit_rate"))]),
        (S::PromptTokens, &[Value(sum("input_sequence_tokens_sum"))]),
        (S::GeneratedTokens, &[Value(sum("output_tokens"))]),
        (S::TtftSum, &[Value(sum("time_to_first_token_seconds_sum"))]),
        (S::TtftCount, &[Value(sum("time_to_first_token_seconds_count"))]),
    ],
};
