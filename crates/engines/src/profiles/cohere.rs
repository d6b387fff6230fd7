//! Cohere.

use crate::{Profile, Refusal, Verdict};

/// Cohere.
pub(super) const PROFILE: Profile = Profile {
    name: "Cohere",
    refusals: &[
        Refusal::said(Verdict::TooLong, "too many tokens & prompt|limit|total number"),
        Refusal::said(Verdict::Operator, "trial key|blocked this api token"),
    ],
};
