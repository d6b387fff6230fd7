//! Cohere.

use crate::{Profile, Refusal, Signs, Verdict};
use signalbox_types::EngineApi as Api;

/// Cohere.
pub(super) const PROFILE: Profile = Profile {
    name: "Cohere",
    signs: Signs {
        owners: &[],
        hosts: &[("api.cohere.com", "cohere"), ("api.cohere.ai", "cohere")],
        headers: &[],
        routes: &[],
    },
    endpoints: &[Api::Chat, Api::Embeddings],
    refusals: &[
        Refusal::said(Verdict::TooLong, "too many tokens & prompt|limit|total number"),
        Refusal::said(Verdict::Operator, "trial key|blocked this api token"),
    ],
    ..Profile::UNKNOWN
};
