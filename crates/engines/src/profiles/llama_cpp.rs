//! llama.cpp, also as a router, and llama-swap.

use crate::{Profile, Refusal, Verdict};

/// llama.cpp, also as a router, and llama-swap.
pub(super) const PROFILE: Profile = Profile {
    name: "llama.cpp",
    refusals: &[
        Refusal::coded(Verdict::TooLong, "exceedcontextsizeerror"),
        Refusal::said(
            Verdict::TooLong,
            "increase the physical batch size|context shift is disabled|context size has been exceeded",
        ),
        // While weights are read, and while a router starts another model.
        Refusal::said(Verdict::NotHere, "loading model").at(&[500, 503]),
        Refusal::said(
            Verdict::NotHere,
            "unable to start process|upstream command exited|model is not loaded|failed to load",
        ),
        Refusal::said(Verdict::Full, "no slot available|slot unavailable"),
        // No prompt of a caller makes a server with one pooled model generate.
        Refusal::said(Verdict::Incapable, "start it with").at(&[400, 500, 501]),
    ],
};
