//! OpenAI, Azure OpenAI, and providers with their errors.

use crate::{Profile, Refusal, Verdict};

/// OpenAI, Azure OpenAI, and providers with their errors.
pub(super) const PROFILE: Profile = Profile {
    name: "OpenAI, Azure",
    refusals: &[
        // The same text as for a rate: only the code tells them apart.
        Refusal::coded(Verdict::Operator, "insufficientquota|billinghardlimitreached|billingnotactive"),
        Refusal::said(Verdict::TooLong, "exceed the configured limit & tokens"),
        Refusal::coded(Verdict::Operator, "deploymentdisabled|subscriptiondisabled"),
    ],
};
