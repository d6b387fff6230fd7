//! Measurements of a request for OpenTelemetry's own histograms.

use std::time::Duration;

use crate::types::Name;

/// Measurements of a completed request.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Operation: `chat`, `text_completion`, `embeddings`, …
    pub operation: &'static str,
    /// Model as the client named it, if the policy knows that name; others would create unlimited series.
    pub request_model: Option<Name>,
    /// Model name upstream.
    pub response_model: Option<Name>,
    /// Provider of the model.
    pub provider: Option<&'static str>,
    /// Kind of error, if any.
    pub error: Option<&'static str>,
    /// Time from arrival to the end.
    pub duration: Duration,
    /// Time from arrival to the first forwarded token.
    pub first_token: Option<Duration>,
    /// Time per token after the first.
    pub per_token: Option<Duration>,
    /// Token counts.
    pub tokens: Option<Tokens>,
}

/// Tokens of a request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Tokens of its prompt.
    pub input: u64,
    /// Tokens of its answer.
    pub output: u64,
}
