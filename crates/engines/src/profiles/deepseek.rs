//! The provider `DeepSeek`.

use crate::{Profile, Signs, UsageForm};
use signalbox_types::EngineApi as Api;

/// The provider `DeepSeek`.
pub(super) const PROFILE: Profile = Profile {
    name: "DeepSeek",
    signs: Signs { owners: &["deepseek"], hosts: &[("api.deepseek.com", "deepseek")], headers: &[], routes: &[] },
    endpoints: &[Api::Chat, Api::Completions],
    usage: UsageForm {
        cached: &["prompt_cache_hit_tokens", "prompt_tokens_details.cached_tokens"],
        written: &[],
        reasoning: &["completion_tokens_details.reasoning_tokens"],
    },
    heartbeat: Some(": keep-alive"),
    ..Profile::UNKNOWN
};
