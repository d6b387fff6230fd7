//! llama.cpp, also as a router.

use crate::{
    ControlWords, LoadedReport, MetricsPage, Profile, Refusal, Signal as S, Signs, StartReport,
    Take::{Sum, Value},
    UsageForm, Verdict,
    metrics::page::{mean, sum},
};
use signalbox_types::{EngineApi as Api, EngineKind};

/// llama.cpp, also as a router.
pub(super) const PROFILE: Profile = Profile {
    name: "llama.cpp",
    signs: Signs {
        owners: &["llamacpp"],
        hosts: &[],
        headers: &[("server", "llama.cpp")],
        routes: &["/props", "/slots"],
    },
    port: Some(8080),
    metrics: Some(METRICS),
    start: StartReport::Props,
    loaded: Some(LoadedReport::Models),
    endpoints: &[Api::Chat, Api::Completions, Api::Embeddings, Api::Responses, Api::Messages, Api::Tokenize],
    refusals: &[
        Refusal::coded(Verdict::TooLong, "exceedcontextsizeerror"),
        Refusal::said(
            Verdict::TooLong,
            "increase the physical batch size|context shift is disabled|context size has been exceeded",
        ),
        // While weights are read, and while a router starts another model.
        Refusal::said(Verdict::NotHere, "loading model").at(&[500, 503]),
        Refusal::said(
            Verdict::NotHere,
            "unable to start process|upstream command exited|model is not loaded|failed to load",
        ),
        Refusal::said(Verdict::Full, "no slot available|slot unavailable"),
        // No prompt of a caller makes a server with one pooled model generate.
        Refusal::said(Verdict::Incapable, "start it with").at(&[400, 500, 501]),
    ],
    control: ControlWords { members: &["id_slot"], headers: &[] },
    usage: UsageForm { cached: &["prompt_tokens_details.cached_tokens"], written: &[], reasoning: &[] },
    heartbeat: Some(":"),
    ..Profile::UNKNOWN
};

const METRICS: MetricsPage = MetricsPage {
    kind: EngineKind::LlamaCpp,
    path: "/metrics",
    port: None,
    flag: Some("--metrics"),
    prefixes: &["llamacpp"],
    rank: None,
    signals: &[
        (S::Running, &[Value(sum("requests_processing"))]),
        (S::Waiting, &[Value(sum("requests_deferred"))]),
        (S::KvUsage, &[Value(mean("kv_cache_usage_ratio"))]),
        // Cached tokens are not among those processed.
        (S::PrefixQueries, &[Sum(&[sum("prompt_tokens_cached"), sum("prompt_tokens")])]),
        (S::PrefixHits, &[Value(sum("prompt_tokens_cached"))]),
        (S::PromptTokens, &[Value(sum("prompt_tokens"))]),
        (S::GeneratedTokens, &[Value(sum("tokens_predicted"))]),
        (S::Drafts, &[Value(sum("spec_decode_num_drafts"))]),
        (S::DraftedTokens, &[Value(sum("spec_decode_num_draft_tokens"))]),
        (S::AcceptedTokens, &[Value(sum("spec_decode_num_accepted_tokens"))]),
    ],
};
