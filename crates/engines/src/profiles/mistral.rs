//! Mistral.

use crate::{Profile, Refusal, Verdict};

/// Mistral.
pub(super) const PROFILE: Profile = Profile {
    name: "Mistral",
    refusals: &[
        Refusal::coded(Verdict::TooLong, "3051"),
        Refusal::said(Verdict::Operator, "service tier capacity exceeded for this model & billing"),
        Refusal::said(Verdict::Full, "service tier capacity exceeded"),
    ],
};
