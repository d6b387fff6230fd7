//! Zhipu (GLM).

use crate::{Profile, Refusal, Signs, UsageForm, Verdict};
use signalbox_types::EngineApi as Api;

/// Zhipu (GLM).
pub(super) const PROFILE: Profile = Profile {
    name: "GLM",
    signs: Signs {
        owners: &[],
        hosts: &[("open.bigmodel.cn", "z_ai"), ("api.z.ai", "z_ai")],
        headers: &[],
        routes: &[],
    },
    endpoints: &[Api::Chat, Api::Embeddings],
    refusals: &[
        Refusal::coded(Verdict::TooLong, "1261"),
        Refusal::coded(Verdict::Operator, "1000|1001|1002|1003|1110|1111|1112|1113|1121|1211|1220|1308|1309"),
        Refusal::coded(Verdict::RateLimited, "1302|1303|1304"),
        Refusal::coded(Verdict::Full, "1305|1312"),
        Refusal::coded(Verdict::Request, "1301"),
    ],
    usage: UsageForm {
        cached: &["prompt_tokens_details.cached_tokens"],
        written: &[],
        reasoning: &["completion_tokens_details.reasoning_tokens"],
    },
    ..Profile::UNKNOWN
};
