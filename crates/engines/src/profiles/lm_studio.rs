//! LM Studio.

use crate::{Profile, Refusal, Verdict};

/// LM Studio.
pub(super) const PROFILE: Profile = Profile {
    name: "LM Studio",
    refusals: &[
        Refusal::said(Verdict::TooLong, "tokens to keep|trying to keep the first & context"),
        Refusal::said(
            Verdict::NotHere,
            "no models loaded|model unloaded|model is unloaded|model has crashed|failed to load model",
        ),
    ],
};
