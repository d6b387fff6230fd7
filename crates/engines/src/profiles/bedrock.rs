//! Amazon Bedrock.

use crate::{Profile, Refusal, Signs, UsageForm, Verdict};
use signalbox_types::EngineApi as Api;

/// Amazon Bedrock.
pub(super) const PROFILE: Profile = Profile {
    name: "Bedrock",
    signs: Signs {
        owners: &[],
        hosts: &[("amazonaws.com", "aws.bedrock")],
        headers: &[("x-amzn-requestid", "")],
        routes: &[],
    },
    endpoints: &[Api::Chat, Api::Responses, Api::Messages],
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
    usage: UsageForm {
        cached: &["prompt_tokens_details.cached_tokens", "cache_read_input_tokens"],
        written: &["cache_creation_input_tokens"],
        reasoning: &["completion_tokens_details.reasoning_tokens"],
    },
    ..Profile::UNKNOWN
};
