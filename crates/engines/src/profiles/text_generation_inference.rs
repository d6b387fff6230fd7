//! Text Generation Inference and Text Embeddings Inference.

use crate::{Profile, Refusal, Verdict};

/// Text Generation Inference and Text Embeddings Inference.
pub(super) const PROFILE: Profile = Profile {
    name: "TGI",
    refusals: &[
        // Code and status of a server with all of its permits taken.
        Refusal::said(Verdict::Full, "model is overloaded").at(&[424, 429, 503]),
        Refusal::said(Verdict::TooLong, "input validation error & inputs & max new tokens|must have less than"),
        Refusal::coded(Verdict::Broken, "generation|incompletegeneration").at(&[424, 500]),
    ],
};
