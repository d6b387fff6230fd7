//! Groq.

use crate::{Profile, Refusal, Signs, UsageForm, Verdict};
use signalbox_types::EngineApi as Api;

/// Groq.
pub(super) const PROFILE: Profile = Profile {
    name: "Groq",
    signs: Signs { owners: &[], hosts: &[("api.groq.com", "groq")], headers: &[("x-groq-region", "")], routes: &[] },
    endpoints: &[Api::Chat, Api::Responses],
    refusals: &[
        // 413 for a request with more tokens than the account may send in a minute.
        Refusal::said(Verdict::RateLimited, "request too large & tokens per minute|tpm"),
        Refusal::said(Verdict::Operator, "model & decommissioned"),
        Refusal::coded(Verdict::Full, "capacityexceeded").at(&[498]),
    ],
    usage: UsageForm {
        cached: &["prompt_tokens_details.cached_tokens"],
        written: &[],
        reasoning: &["completion_tokens_details.reasoning_tokens"],
    },
    ..Profile::UNKNOWN
};
