//! Ollama.

use crate::{Profile, Refusal, Verdict};

/// Ollama.
pub(super) const PROFILE: Profile = Profile {
    name: "Ollama",
    refusals: &[
        Refusal::said(Verdict::Full, "server busy & maximum pending requests exceeded"),
        Refusal::said(
            Verdict::NotHere,
            "llm server loading model|model requires more system memory|error loading model|runner process",
        ),
    ],
};
