//! Mistral.

use crate::{Profile, Refusal, Signs, UsageForm, Verdict};
use signalbox_types::EngineApi as Api;

/// Mistral.
pub(super) const PROFILE: Profile = Profile {
    name: "Mistral",
    signs: Signs {
        owners: &["mistralai"],
        hosts: &[("api.mistral.ai", "mistral_ai"), ("codestral.mistral.ai", "mistral_ai")],
        headers: &[("mistral-correlation-id", "")],
        routes: &[],
    },
    endpoints: &[Api::Chat, Api::Embeddings],
    refusals: &[
        Refusal::coded(Verdict::TooLong, "3051"),
        Refusal::said(Verdict::Operator, "service tier capacity exceeded for this model & billing"),
        Refusal::said(Verdict::Full, "service tier capacity exceeded"),
    ],
    usage: UsageForm { cached: &["prompt_tokens_details.cached_tokens"], written: &[], reasoning: &[] },
    ..Profile::UNKNOWN
};
