//! The provider `OpenRouter`.

use crate::{Profile, Signs, UsageForm};
use signalbox_types::EngineApi as Api;

/// The provider `OpenRouter`.
pub(super) const PROFILE: Profile = Profile {
    name: "OpenRouter",
    signs: Signs { owners: &[], hosts: &[("openrouter.ai", "openrouter")], headers: &[], routes: &[] },
    endpoints: &[Api::Chat, Api::Completions, Api::Embeddings, Api::Responses, Api::Messages],
    usage: UsageForm {
        cached: &["prompt_tokens_details.cached_tokens"],
        written: &["prompt_tokens_details.cache_write_tokens"],
        reasoning: &["completion_tokens_details.reasoning_tokens"],
    },
    heartbeat: Some(": OPENROUTER PROCESSING"),
    ..Profile::UNKNOWN
};
