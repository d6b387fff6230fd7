//! Alibaba Model Studio (Qwen).

use crate::{Profile, Refusal, Signs, UsageForm, Verdict};
use signalbox_types::EngineApi as Api;

/// Alibaba Model Studio (Qwen).
pub(super) const PROFILE: Profile = Profile {
    name: "Qwen",
    signs: Signs {
        owners: &[],
        hosts: &[("dashscope.aliyuncs.com", "alibaba_cloud"), ("dashscope-intl.aliyuncs.com", "alibaba_cloud")],
        headers: &[],
        routes: &[],
    },
    endpoints: &[Api::Chat, Api::Completions, Api::Embeddings],
    refusals: &[
        Refusal::said(Verdict::TooLong, "range of input length"),
        Refusal::coded(Verdict::Operator, "arrearage|prepaidbilloverdue|postpaidbilloverdue|commoditynotpurchased"),
        Refusal::coded(Verdict::Request, "datainspectionfailed"),
        Refusal::coded(
            Verdict::RateLimited,
            "throttlingratequota|throttlingburstrate|throttlingallocationquota|limitrequests",
        ),
    ],
    usage: UsageForm {
        cached: &["prompt_tokens_details.cached_tokens"],
        written: &[],
        reasoning: &["completion_tokens_details.reasoning_tokens"],
    },
    ..Profile::UNKNOWN
};
