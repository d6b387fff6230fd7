//! An answer that has begun, on its way from dispatch to the client.

use bytes::Bytes;
use http::response::Parts;

use super::{Events, Meter};
use signalbox_journal::CascadeResult;
use signalbox_types::{Endpoint, Fault, Name};
use signalbox_upstream::AnswerBody;

/// An answer that has begun. From here on the client gets this answer or an error within it.
pub(crate) struct Committed {
    /// Status and headers from upstream.
    pub(crate) head: Parts,
    pub(crate) answer: Answer,
    pub(crate) meter: Meter,
    /// API of the answer.
    pub(crate) endpoint: Endpoint,
    /// Names for the headers that report the decision.
    pub(crate) decision: Decision,
}

impl Committed {
    /// Ends the answer with this fault before the client has got any of it.
    pub(crate) fn fail(self, fault: &Fault) {
        let Self { answer, meter, .. } = self;
        // Drops the upstream response first, so that the engine stops before its permit is released.
        drop(answer);
        meter.fail(fault);
    }
}

/// The body of an answer, by how it arrives.
pub(crate) enum Answer {
    /// Complete and already inspected.
    Whole(Bytes),
    /// A stream of events, which holds those read before the first token.
    Events { events: Box<Events>, hide_usage: bool },
    /// Bytes that are passed on unread.
    Opaque(AnswerBody),
}

/// The decision that led to this answer, as its headers report it.
pub(crate) struct Decision {
    pub(crate) pool: Name,
    pub(crate) backend: Name,
    pub(crate) model: Option<Name>,
    pub(crate) reason: &'static str,
    /// Hints of the request that the backend's API cannot express, by name.
    pub(crate) dropped: Vec<String>,
    pub(crate) predicted_ttft_ms: f64,
    /// Estimated cost at each candidate, if the client asked for it.
    pub(crate) explained: Option<String>,
    /// Result of the cascade, if there was one.
    pub(crate) cascade: Option<CascadeResult>,
}
