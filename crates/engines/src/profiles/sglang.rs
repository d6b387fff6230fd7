//! SGLang and its router.

use crate::{Profile, Refusal, Verdict};

/// SGLang and its router.
pub(super) const PROFILE: Profile = Profile {
    name: "SGLang",
    refusals: &[
        // With `--max-queued-requests`.
        Refusal::said(Verdict::Full, "request queue is full|queue is full|aborted by priority").at(&[503]),
        Refusal::said(Verdict::TooLong, "longer than the models context length"),
        // The router, while its circuits are open or its workers are starting.
        Refusal::said(Verdict::NotHere, "no available workers|no workers available").at(&[503]),
    ],
};
