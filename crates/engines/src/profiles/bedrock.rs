//! Amazon Bedrock.

use crate::{Profile, Refusal, Verdict};

/// Amazon Bedrock.
pub(super) const PROFILE: Profile = Profile {
    name: "Bedrock",
    refusals: &[
        Refusal::coded(Verdict::NotHere, "modelnotreadyexception"),
        Refusal::coded(Verdict::RateLimited, "throttlingexception"),
        Refusal::coded(
            Verdict::Operator,
            "accessdeniedexception|servicequotaexceededexception|unrecognizedclientexception|expiredtokenexception",
        ),
        Refusal::said(Verdict::TooLong, "input is too long for requested model|expected maxlength & actual"),
        Refusal::said(
            Verdict::Operator,
            "isnt supported & throughput|account is not authorized|model use case details",
        ),
    ],
};
