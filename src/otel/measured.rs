//! What is measured of a request for OpenTelemetry's own histograms.

use std::time::Duration;

use crate::types::Name;

/// A request that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// What was done: `chat`, `text_completion`, `embeddings`, …
    pub operation: &'static str,
    /// The model as the client named it, where the policy knows that name; others would be series without end.
    pub request_model: Option<Name>,
    /// The model's name upstream.
    pub response_model: Option<Name>,
    /// Who ran it.
    pub provider: Option<&'static str>,
    /// What went wrong, where something did.
    pub error: Option<&'static str>,
    /// From arrival to the end.
    pub duration: Duration,
    /// From arrival to the first token handed on.
    pub first_token: Option<Duration>,
    /// For each token after the first.
    pub per_token: Option<Duration>,
    /// Its tokens.
    pub tokens: Option<Tokens>,
}

/// Tokens of a request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Of its prompt.
    pub input: u64,
    /// Of its answer.
    pub output: u64,
}
