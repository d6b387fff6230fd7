//! An answer that has begun, on its way from dispatch to the client.

use bytes::Bytes;
use http::response::Parts;

use super::{Events, Meter};
use crate::{
    journal::CascadeResult,
    types::{Endpoint, Fault, Name},
    upstream::AnswerBody,
};

/// An answer that has begun. From here on the client gets this answer or an error within it.
pub(in crate::gateway) struct Committed {
    /// Status and headers from upstream.
    pub(in crate::gateway) head: Parts,
    pub(in crate::gateway) answer: Answer,
    pub(in crate::gateway) meter: Meter,
    /// API of the answer.
    pub(in crate::gateway) endpoint: Endpoint,
    /// Names for the headers that report the decision.
    pub(in crate::gateway) decision: Decision,
}

impl Committed {
    /// Ends the answer with this fault before the client has got any of it.
    pub(in crate::gateway) fn fail(self, fault: &Fault) {
        let Self { answer, meter, .. } = self;
        // Drops the upstream response first, so that the engine stops before its permit is released.
        drop(answer);
        meter.fail(fault);
    }
}

/// The body of an answer, by how it arrives.
pub(in crate::gateway) enum Answer {
    /// Complete and already inspected.
    Whole(Bytes),
    /// A stream of events, which holds those read before the first token.
    Events { events: Events, hide_usage: bool },
    /// Bytes that are passed on unread.
    Opaque(AnswerBody),
}

/// The decision that led to this answer, as its headers report it.
pub(in crate::gateway) struct Decision {
    pub(in crate::gateway) pool: Name,
    pub(in crate::gateway) backend: Name,
    pub(in crate::gateway) model: Option<Name>,
    pub(in crate::gateway) reason: &'static str,
    /// Hints of the request that the backend's API cannot express, by name.
    pub(in crate::gateway) dropped: Vec<String>,
    pub(in crate::gateway) predicted_ttft_ms: f64,
    /// Estimated cost at each candidate, if the client asked for it.
    pub(in crate::gateway) explained: Option<String>,
    /// Result of the cascade, if there was one.
    pub(in crate::gateway) cascade: Option<CascadeResult>,
}
