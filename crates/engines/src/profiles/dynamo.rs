//! NVIDIA Dynamo: the frontend in front of workers of other engines.

use crate::{Profile, Refusal, Verdict};

/// NVIDIA Dynamo: the frontend in front of workers of other engines.
pub(super) const PROFILE: Profile = Profile {
    name: "Dynamo",
    refusals: &[
        // All workers are above their thresholds.
        Refusal::said(Verdict::Full, "all workers are busy|workers are overloaded|service temporarily unavailable all")
            .at(&[503]),
        Refusal::said(Verdict::NotHere, "no instances|no responders|no workers"),
    ],
};
