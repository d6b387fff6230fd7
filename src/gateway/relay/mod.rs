//! The response path: relays an answer to the client unchanged while a meter in its body measures it.

mod broadcast;
mod committed;
mod events;
mod gauges;
mod head;
mod meter;
mod plain;
mod replay;
mod resume;
mod store;
mod stream;
mod subscriber;
mod timeouts;

pub(super) use self::{
    broadcast::broadcast,
    committed::{Answer, Committed, Decision},
    events::{Events, Held, cut, is_generation},
    gauges::Gauges,
    meter::Meter,
    replay::Replay,
    resume::{Broken, Rest, ResumeStream},
    store::{AnswerStore, KeptAs},
    subscriber::{Share, subscribe},
};
use self::{plain::Plain, resume::ResumeSource, stream::Stream, timeouts::StreamTimeouts};
use super::{Reply, record::Served, stages::Call};
use crate::policy::Route;

/// Builds the reply. `rescue` fetches the rest of a stream that breaks off.
pub(super) fn reply(committed: Committed, call: &Call, route: &Route, rescue: Option<Box<dyn ResumeStream>>) -> Reply {
    let Committed { head, answer, mut meter, decision } = committed;
    meter.commit(call.read_at);
    call.record.note(|line| line.status = head.status.as_u16());
    let passed = decision.cascade.is_none_or(|cascade| matches!(cascade.result, "kept" | "escalated"));
    call.record.serve(Served { pool: decision.pool.clone(), backend: decision.backend.clone(), passed });
    let headers = head::headers(&head, call, route, &decision, &meter);
    let left = route.timeouts.total.map(|total| total.saturating_sub(meter.age()));
    let patience = || StreamTimeouts::new(route.timeouts.idle, left);
    let body = match answer {
        Answer::Whole(bytes) => axum::body::Body::new(Plain::new(http_body_util::Full::new(bytes), meter, None)),
        Answer::Opaque(body) => axum::body::Body::new(Plain::new(body, meter, Some(patience()))),
        Answer::Events { events, hide_usage } => {
            let resume = rescue.map(|rescue| Box::new(ResumeSource::new(rescue)));
            axum::body::Body::new(Stream::new(events, meter, hide_usage, patience(), resume))
        }
    };
    let mut reply = Reply::new(body);
    *reply.status_mut() = head.status;
    *reply.headers_mut() = headers;
    reply
}
