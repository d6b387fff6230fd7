//! TensorRT-LLM.

use crate::{Profile, Refusal, Verdict};

/// TensorRT-LLM.
pub(super) const PROFILE: Profile = Profile {
    name: "TensorRT-LLM",
    refusals: &[
        Refusal::said(
            Verdict::TooLong,
            "sum of prompt length|prompt length & exceed max num tokens|exceed max seq len|exceeds maximum input length",
        ),
        Refusal::said(Verdict::TooLong, "default max tokens & should be greater than"),
    ],
};
