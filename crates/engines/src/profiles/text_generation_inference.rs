//! Text Generation Inference and Text Embeddings Inference.

use crate::{
    MetricsPage, Profile, Refusal, Signal as S, Signs,
    Take::{Ratio, Value},
    Verdict,
    metrics::page::sum,
};
use signalbox_types::{EngineApi as Api, EngineKind};

/// Text Generation Inference and Text Embeddings Inference.
pub(super) const PROFILE: Profile = Profile {
    name: "TGI",
    signs: Signs { owners: &[], hosts: &[], headers: &[], routes: &["/info"] },
    port: Some(3000),
    metrics: Some(METRICS),
    endpoints: &[Api::Chat, Api::Completions, Api::Embeddings, Api::Tokenize],
    refusals: &[
        // Code and status of a server with all of its permits taken.
        Refusal::said(Verdict::Full, "model is overloaded").at(&[424, 429, 503]),
        Refusal::said(Verdict::TooLong, "input validation error & inputs & max new tokens|must have less than"),
        Refusal::coded(Verdict::Broken, "generation|incompletegeneration").at(&[424, 500]),
    ],
    ..Profile::UNKNOWN
};

const METRICS: MetricsPage = MetricsPage {
    kind: EngineKind::Tgi,
    path: "/metrics",
    port: None,
    flag: None,
    prefixes: &["tgi"],
    rank: None,
    signals: &[
        (S::Running, &[Value(sum("batch_current_size"))]),
        (S::Waiting, &[Value(sum("queue_size"))]),
        // Tokens that the running batch may grow to: a substitute, since it exports no cache usage.
        (S::KvUsage, &[Ratio(sum("batch_current_max_tokens"), sum("batch_max_total_tokens"))]),
        (S::KvCapacity, &[Value(sum("batch_max_total_tokens"))]),
    ],
};
