//! Alibaba Model Studio (Qwen).

use crate::{Profile, Refusal, Verdict};

/// Alibaba Model Studio (Qwen).
pub(super) const PROFILE: Profile = Profile {
    name: "Qwen",
    refusals: &[
        Refusal::said(Verdict::TooLong, "range of input length"),
        Refusal::coded(Verdict::Operator, "arrearage|prepaidbilloverdue|postpaidbilloverdue|commoditynotpurchased"),
        Refusal::coded(Verdict::Request, "datainspectionfailed"),
        Refusal::coded(
            Verdict::RateLimited,
            "throttlingratequota|throttlingburstrate|throttlingallocationquota|limitrequests",
        ),
    ],
};
