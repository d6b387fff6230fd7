//! Vertex AI, whose errors are those of the Gemini API.

use crate::{Profile, Signs, UsageForm};
use signalbox_types::EngineApi as Api;

/// Vertex AI, whose errors are those of the Gemini API.
pub(super) const PROFILE: Profile = Profile {
    name: "Vertex AI",
    signs: Signs { owners: &[], hosts: &[("aiplatform.googleapis.com", "gcp.vertex_ai")], headers: &[], routes: &[] },
    endpoints: &[Api::Chat],
    usage: UsageForm {
        cached: &["prompt_tokens_details.cached_tokens"],
        written: &[],
        reasoning: &["completion_tokens_details.reasoning_tokens"],
    },
    ..Profile::UNKNOWN
};
