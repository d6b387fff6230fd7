//! Moonshot (Kimi).

use crate::{Profile, Signs, UsageForm};
use signalbox_types::EngineApi as Api;

/// Moonshot (Kimi).
pub(super) const PROFILE: Profile = Profile {
    name: "Moonshot",
    signs: Signs {
        owners: &["moonshot"],
        hosts: &[("api.moonshot.ai", "moonshot_ai"), ("api.moonshot.cn", "moonshot_ai")],
        headers: &[],
        routes: &[],
    },
    endpoints: &[Api::Chat],
    usage: UsageForm {
        cached: &["cached_tokens", "prompt_tokens_details.cached_tokens"],
        written: &[],
        reasoning: &[],
    },
    ..Profile::UNKNOWN
};
