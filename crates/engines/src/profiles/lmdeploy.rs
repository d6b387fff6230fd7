//! LMDeploy.

use crate::{
    ControlWords, MetricsPage, Profile, Signal as S, Signs,
    Take::{Sum, Value},
    UsageForm,
    metrics::page::{mean, sum},
};
use signalbox_types::{EngineApi as Api, EngineKind};

/// LMDeploy.
pub(super) const PROFILE: Profile = Profile {
    name: "LMDeploy",
    signs: Signs { owners: &["lmdeploy"], hosts: &[], headers: &[], routes: &[] },
    port: Some(23333),
    metrics: Some(METRICS),
    endpoints: &[Api::Chat, Api::Completions],
    control: ControlWords { members: &["migration_request", "with_cache", "preserve_cache"], headers: &[] },
    usage: UsageForm { cached: &["prompt_tokens_details.cached_tokens"], written: &[], reasoning: &[] },
    ..Profile::UNKNOWN
};

const METRICS: MetricsPage = MetricsPage {
    kind: EngineKind::LmDeploy,
    path: "/metrics",
    port: None,
    flag: None,
    prefixes: &["lmdeploy"],
    rank: Some("engine"),
    signals: &[
        (S::Running, &[Value(sum("num_requests_running"))]),
        // Requests that wait for a handle are not yet counted as waiting in the engine.
        (S::Waiting, &[Sum(&[sum("num_requests_waiting"), sum("num_api_requests_waiting")])]),
        (S::KvUsage, &[Value(mean("gpu_cache_usage_perc"))]),
        (S::PrefixQueries, &[Value(sum("prompt_tokens"))]),
        (S::PrefixHits, &[Value(sum("cached_tokens"))]),
        (S::PrefixHitRatio, &[Value(mean("prefix_cache_hit_rate"))]),
        (S::PromptTokens, &[Value(sum("prompt_tokens"))]),
        (S::GeneratedTokens, &[Value(sum("generation_tokens"))]),
        (S::TtftSum, &[Value(sum("time_to_first_token_seconds_sum"))]),
        (S::TtftCount, &[Value(sum("time_to_first_token_seconds_count"))]),
        (S::Drafts, &[Value(sum("spec_decode_num_drafts"))]),
        (S::DraftedTokens, &[Value(sum("spec_decode_num_draft_tokens"))]),
        (S::AcceptedTokens, &[Value(sum("spec_decode_num_accepted_tokens"))]),
    ],
};
