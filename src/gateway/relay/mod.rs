//! The way back: the answer passes through as it came, while the meter rides along.

mod events;
mod head;
mod meter;
mod plain;
mod stream;

pub(super) use self::{
    events::Events,
    head::is_events,
    meter::{Gauges, Meter},
};
use self::{plain::Plain, stream::Stream};
use super::{Reply, stages::Admitted};

/// An answer that has begun: from here on it is this one or an error within it.
pub(super) struct Committed {
    /// Status and headers from upstream.
    pub(super) head: http::response::Parts,
    pub(super) answer: Answer,
    pub(super) meter: Meter,
    /// Names for the headers that tell of the decision.
    pub(super) decision: Decision,
}

/// The three ways in which an answer comes.
pub(super) enum Answer {
    /// Whole, and looked through.
    Whole(bytes::Bytes),
    /// As events; those before the first token are held in it.
    Events { events: Events, hide_usage: bool },
    /// As bytes that are passed on without being read.
    Opaque(reqwest::Body),
}

/// Which decision led here.
pub(super) struct Decision {
    pub(super) pool: crate::types::Name,
    pub(super) backend: crate::types::Name,
    pub(super) model: Option<crate::types::Name>,
    pub(super) reason: &'static str,
}

/// Makes the reply. The place among the requests under way is given back when its body is over.
pub(super) fn reply(committed: Committed, admitted: Admitted) -> Reply {
    let Committed { head, answer, mut meter, decision } = committed;
    let Admitted { call, route, permit } = admitted;
    meter.commit(permit, call.read_at);
    call.record.note(|line| line.status = head.status.as_u16());
    let headers = head::headers(&head, &call, &route, &decision, &meter);
    let body = match answer {
        Answer::Whole(bytes) => axum::body::Body::new(Plain::new(http_body_util::Full::new(bytes), meter)),
        Answer::Opaque(body) => axum::body::Body::new(Plain::new(body, meter)),
        Answer::Events { events, hide_usage } => {
            let total = route.timeouts.total.map(|total| total.saturating_sub(meter.age()));
            axum::body::Body::new(Stream::new(events, meter, hide_usage, route.timeouts.idle, total))
        }
    };
    let mut reply = Reply::new(body);
    *reply.status_mut() = head.status;
    *reply.headers_mut() = headers;
    reply
}
