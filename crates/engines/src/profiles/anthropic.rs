//! Anthropic.

use crate::{Profile, Refusal, Verdict};

/// Anthropic.
pub(super) const PROFILE: Profile = Profile {
    name: "Anthropic",
    refusals: &[
        Refusal::coded(Verdict::Full, "overloadederror"),
        // A body of too many bytes, which no other model takes either.
        Refusal::coded(Verdict::Request, "requesttoolarge"),
        Refusal::said(Verdict::Operator, "api usage limits|credit balance is too low"),
        Refusal::said(Verdict::Operator, "organization has been disabled|oauth token has expired"),
        Refusal::said(Verdict::Incapable, "maximum allowed number of output tokens"),
    ],
};
