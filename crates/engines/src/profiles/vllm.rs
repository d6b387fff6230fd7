//! vLLM.

use crate::{Profile, Refusal, Verdict};

/// vLLM.
pub(super) const PROFILE: Profile = Profile {
    name: "vLLM",
    refusals: &[
        // With `--max-num-queued-reqs`: 503 without `Retry-After`.
        Refusal::said(Verdict::Full, "engine is currently busy & cannot accept new requests").at(&[503]),
        Refusal::said(Verdict::TooLong, "decoder prompt|encoder prompt|prompt & longer than the maximum model length"),
        Refusal::said(Verdict::Incapable, "not a multimodal model"),
    ],
};
