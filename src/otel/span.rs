//! A span in the gateway's own form, independent of export formats.

use std::time::SystemTime;

use crate::{protocol::TraceContext, types::Name};

/// A completed span.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its trace, and its own id.
    pub context: TraceContext,
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
    /// Kind of error, if any.
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
}
