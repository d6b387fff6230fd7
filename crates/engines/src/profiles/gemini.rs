//! Gemini API and Vertex AI.

use crate::{Profile, Refusal, Verdict};

/// Gemini API and Vertex AI.
pub(super) const PROFILE: Profile = Profile {
    name: "Gemini, Vertex AI",
    refusals: &[
        Refusal::said(
            Verdict::Operator,
            "api key not valid|api key expired|api has not been used in project|service has been disabled",
        ),
        Refusal::said(Verdict::Operator, "user location is not supported|billing account"),
        // Limits of a minute, with the text that OpenAI has for an empty account.
        Refusal::coded(Verdict::RateLimited, "resourceexhausted"),
        Refusal::said(Verdict::TooLong, "input token count|prompt token count & exceeds|only supports up to"),
        Refusal::said(Verdict::Full, "model is overloaded|experiencing high demand"),
        Refusal::coded(Verdict::Broken, "cancelled|internal").at(&[499, 500]),
    ],
};
