//! Gemini API.

use crate::{Profile, Refusal, Signs, UsageForm, Verdict};
use signalbox_types::EngineApi as Api;

/// Gemini API.
pub(super) const PROFILE: Profile = Profile {
    name: "Gemini",
    signs: Signs {
        owners: &["google"],
        hosts: &[("generativelanguage.googleapis.com", "gcp.gemini")],
        headers: &[],
        routes: &[],
    },
    endpoints: &[Api::Chat, Api::Embeddings],
    refusals: &[
        Refusal::said(
            Verdict::Operator,
            "api key not valid|api key expired|api has not been used in project|service has been disabled",
        ),
        Refusal::said(Verdict::Operator, "user location is not supported|billing account"),
        // Limits of a minute, with the text that OpenAI has for an empty account.
        Refusal::coded(Verdict::RateLimited, "resourceexhausted"),
        Refusal::said(Verdict::TooLong, "input token count|prompt token count & exceeds|only supports up to"),
        Refusal::said(Verdict::Full, "model is overloaded|experiencing high demand"),
        Refusal::coded(Verdict::Broken, "cancelled|internal").at(&[499, 500]),
    ],
    usage: UsageForm {
        cached: &["prompt_tokens_details.cached_tokens"],
        written: &[],
        reasoning: &["completion_tokens_details.reasoning_tokens"],
    },
    ..Profile::UNKNOWN
};
