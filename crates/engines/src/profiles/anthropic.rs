//! Anthropic.

use crate::{Profile, Refusal, Signs, UsageForm, Verdict};
use signalbox_types::EngineApi as Api;

/// Anthropic.
pub(super) const PROFILE: Profile = Profile {
    name: "Anthropic",
    signs: Signs {
        owners: &[],
        hosts: &[("api.anthropic.com", "anthropic")],
        headers: &[("anthropic-organization-id", "")],
        routes: &[],
    },
    endpoints: &[Api::Chat, Api::Messages],
    refusals: &[
        Refusal::coded(Verdict::Full, "overloadederror"),
        // A body of too many bytes, which no other model takes either.
        Refusal::coded(Verdict::Request, "requesttoolarge"),
        Refusal::said(Verdict::Operator, "api usage limits|credit balance is too low"),
        Refusal::said(Verdict::Operator, "organization has been disabled|oauth token has expired"),
        Refusal::said(Verdict::Incapable, "maximum allowed number of output tokens"),
    ],
    usage: UsageForm {
        cached: &["cache_read_input_tokens"],
        written: &["cache_creation_input_tokens"],
        reasoning: &["output_tokens_details.thinking_tokens"],
    },
    heartbeat: Some("event: ping"),
    ..Profile::UNKNOWN
};
