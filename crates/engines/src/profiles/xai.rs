//! xAI.

use crate::{Profile, Signs, UsageForm};
use signalbox_types::EngineApi as Api;

/// xAI.
pub(super) const PROFILE: Profile = Profile {
    name: "xAI",
    signs: Signs { owners: &["xai"], hosts: &[("api.x.ai", "x_ai")], headers: &[], routes: &[] },
    endpoints: &[Api::Chat, Api::Completions, Api::Responses, Api::Messages],
    usage: UsageForm {
        cached: &["prompt_tokens_details.cached_tokens"],
        written: &[],
        reasoning: &["completion_tokens_details.reasoning_tokens"],
    },
    ..Profile::UNKNOWN
};
