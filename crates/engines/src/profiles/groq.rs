//! Groq.

use crate::{Profile, Refusal, Verdict};

/// Groq.
pub(super) const PROFILE: Profile = Profile {
    name: "Groq",
    refusals: &[
        // 413 for a request with more tokens than the account may send in a minute.
        Refusal::said(Verdict::RateLimited, "request too large & tokens per minute|tpm"),
        Refusal::said(Verdict::Operator, "model & decommissioned"),
        Refusal::coded(Verdict::Full, "capacityexceeded").at(&[498]),
    ],
};
