//! A span as the gateway makes it, before it is anybody's format.

use std::time::SystemTime;

use crate::{protocol::TraceContext, types::Name};

/// A span that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its trace, and its own id.
    pub context: TraceContext,
    /// The span that it is part of, and whether that is somebody else's.
    pub parent: Option<(u64, bool)>,
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// When it began.
    pub began: SystemTime,
    /// When it ended.
    pub ended: SystemTime,
    /// What is known of it.
    pub attributes: Vec<(&'static str, Value)>,
    /// What went wrong, where something did.
    pub error: Option<&'static str>,
}

/// What a span is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request that came.
    Server,
    /// A request that was sent.
    Client,
    /// Work within.
    Internal,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A word that is known to the compiler.
    Word(&'static str),
    /// A name of the policy's.
    Name(Name),
    /// A text.
    Text(String),
    /// A count.
    Count(u64),
    /// Some quantity.
    Number(f64),
}
