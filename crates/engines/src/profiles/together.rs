//! Together AI.

use crate::{Profile, Signs, UsageForm};
use signalbox_types::EngineApi as Api;

/// Together AI.
pub(super) const PROFILE: Profile = Profile {
    name: "Together",
    signs: Signs {
        owners: &[],
        hosts: &[("api.together.xyz", "together_ai"), ("api.together.ai", "together_ai")],
        headers: &[],
        routes: &[],
    },
    endpoints: &[Api::Chat, Api::Completions, Api::Embeddings],
    usage: UsageForm {
        cached: &["cached_tokens", "prompt_tokens_details.cached_tokens"],
        written: &[],
        reasoning: &["reasoning_tokens", "completion_tokens_details.reasoning_tokens"],
    },
    ..Profile::UNKNOWN
};
