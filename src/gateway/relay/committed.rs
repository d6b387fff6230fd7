//! An answer that has begun, on its way from dispatch to the client.

use bytes::Bytes;
use http::response::Parts;

use super::{Events, Meter};
use crate::{journal::CascadeResult, types::Name};

/// An answer that has begun: from here on it is this one or an error within it.
pub(in crate::gateway) struct Committed {
    /// Status and headers from upstream.
    pub(in crate::gateway) head: Parts,
    pub(in crate::gateway) answer: Answer,
    pub(in crate::gateway) meter: Meter,
    /// Names for the headers that tell of the decision.
    pub(in crate::gateway) decision: Decision,
}

/// The three ways in which an answer comes.
pub(in crate::gateway) enum Answer {
    /// Whole, and looked through.
    Whole(Bytes),
    /// As events; those before the first token are held in it.
    Events { events: Events, hide_usage: bool },
    /// As bytes that are passed on without being read.
    Opaque(reqwest::Body),
}

/// Which decision led here.
pub(in crate::gateway) struct Decision {
    pub(in crate::gateway) pool: Name,
    pub(in crate::gateway) backend: Name,
    pub(in crate::gateway) model: Option<Name>,
    pub(in crate::gateway) reason: &'static str,
    pub(in crate::gateway) predicted_ttft_ms: f64,
    /// What each candidate would have cost, where the client asked for it.
    pub(in crate::gateway) explained: Option<String>,
    /// What a cascade made of the answer.
    pub(in crate::gateway) cascade: Option<CascadeResult>,
}
