//! Spans and measurements of completed requests, independent of export formats.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use signalbox_protocol::TraceContext;
use signalbox_types::Name;

/// A completed span.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its trace, and its own id.
    pub context: TraceContext,
    /// `tracestate` of its caller.
    pub state: Option<Arc<str>>,
    /// Id of its parent span; true if the parent belongs to another process.
    pub parent: Option<(u64, bool)>,
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Start time.
    pub began: SystemTime,
    /// End time.
    pub ended: SystemTime,
    /// Attributes.
    pub attributes: Vec<(&'static str, Value)>,
    /// Kind of error, if the span counts as one; its attributes may give one that does not.
    pub error: Option<&'static str>,
}

/// Kind of span.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An incoming request.
    Server,
    /// An outgoing request.
    Client,
    /// Internal work.
    Internal,
}

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A static string.
    Word(&'static str),
    /// A name from the policy.
    Name(Name),
    /// A text.
    Text(String),
    /// A count.
    Count(u64),
    /// A number.
    Number(f64),
    /// True or false.
    Flag(bool),
    /// Several texts.
    Texts(Vec<String>),
}

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
