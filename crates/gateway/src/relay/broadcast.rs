//! The task that runs a shared request. It owns the answer from upstream, with the meter in its body, and writes it to
//! the log that all readers follow. It ends with the answer, or when no reader is left.

use std::{future::Future, future::poll_fn, pin::Pin, pin::pin, task::Poll};

use bytes::Bytes;
use http_body::Body as _;

use super::{AnswerStore, cut};
use crate::{Reply, reply::is_events};
use signalbox_answers::Head;
use signalbox_cache::single_flight::{End, Entry, Leader, Others};
use signalbox_protocol::{Event, EventReader, answer};
use signalbox_types::{Blame, Fault, fault::DEADLINE};

/// Runs the shared request whose reply is `answer`.
pub(crate) async fn broadcast(
    mut leader: Leader<Head>,
    keeper: AnswerStore,
    answer: impl Future<Output = Result<Reply, Fault>>,
) {
    let replied = {
        let mut answer = pin!(answer);
        poll_fn(|cx| match answer.as_mut().poll(cx) {
            Poll::Ready(replied) => Poll::Ready(Some(replied)),
            Poll::Pending => leader.poll_abandoned(cx).map(|()| None),
        })
        .await
    };
    let reply = match replied {
        // Dropping the future cancels the request.
        None => return,
        Some(Err(fault)) => {
            let others = others(&fault);
            return leader.fail(fault, others);
        }
        Some(Ok(reply)) => reply,
    };
    let (parts, body) = reply.into_parts();
    let events = is_events(&parts.headers);
    leader.begin(Head { status: parts.status, headers: parts.headers, price: keeper.price() });
    let reader = EventReader::new(keeper.endpoint());
    let mut pump = Broadcast { leader: &mut leader, keeper, reader, events, broken: None };
    if let Some(end) = pump.run(body).await {
        leader.end(end);
    }
}

/// Decides what a failure before the answer means for the other readers.
fn others(fault: &Fault) -> Others {
    match fault.blame {
        Blame::Client => Others::Fail,
        // The leader ran out of its own time, or found no room.
        _ if fault.kind == DEADLINE => Others::TakeOver,
        Blame::Gateway => Others::TakeOver,
        Blame::Upstream => Others::TakeOverForAll,
    }
}

struct Broadcast<'a> {
    leader: &'a mut Leader<Head>,
    keeper: AnswerStore,
    reader: EventReader,
    events: bool,
    /// Kind of the fault that an error event in the answer reported.
    broken: Option<&'static str>,
}

impl Broadcast<'_> {
    /// Reads to the end; `None` if no reader is left.
    async fn run(&mut self, mut body: axum::body::Body) -> Option<End> {
        loop {
            let leader = &self.leader;
            let next = poll_fn(|cx| match Pin::new(&mut body).poll_frame(cx) {
                Poll::Ready(frame) => Poll::Ready(Some(frame)),
                Poll::Pending => leader.poll_abandoned(cx).map(|()| None),
            });
            match next.await? {
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.write(bytes).await?;
                    }
                }
                Some(Err(_)) => return Some(End::Broken(cut("").kind)),
                None => break,
            }
        }
        if let Some(kind) = self.broken {
            return Some(End::Broken(kind));
        }
        self.keeper.keep().await;
        Some(End::Complete)
    }

    async fn write(&mut self, bytes: Bytes) -> Option<()> {
        let entry = if self.events { self.event(bytes).await } else { self.whole(bytes) };
        let mut entry = Some(entry);
        let leader = &self.leader;
        poll_fn(|cx| match leader.poll_write(&mut entry, cx) {
            Poll::Ready(()) => Poll::Ready(Some(())),
            Poll::Pending => leader.poll_abandoned(cx).map(|()| None),
        })
        .await
    }

    async fn event(&mut self, bytes: Bytes) -> Entry {
        let event = Event { raw: bytes };
        let seen = event.data().map(|data| self.reader.read(&data)).unwrap_or_default();
        if seen.error.is_some() {
            self.broken = Some(cut("").kind);
        }
        // Keep-alive comments are not part of the answer.
        if event.data().is_some() {
            self.keeper.push(&event);
        }
        if seen.done && self.broken.is_none() {
            // Readers may leave once they have this event.
            self.keeper.keep().await;
        }
        Entry { bytes: event.raw, token: seen.token, only_usage: seen.only_usage, usage: seen.usage }
    }

    fn whole(&mut self, bytes: Bytes) -> Entry {
        let usage = answer::read_whole(self.keeper.endpoint(), &bytes).ok().and_then(|whole| whole.usage);
        self.keeper.whole(&bytes);
        Entry { bytes, token: true, only_usage: false, usage }
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn only_what_an_engine_did_is_tried_again_for_all() {
        let fault = |make: fn(StatusCode, &'static str, &'static str) -> Fault, kind| {
            others(&make(StatusCode::BAD_GATEWAY, kind, ""))
        };
        assert_eq!(fault(Fault::client, "upstream_refused"), Others::Fail);
        assert_eq!(fault(Fault::gateway, "queue_timeout"), Others::TakeOver);
        assert_eq!(fault(Fault::upstream, DEADLINE), Others::TakeOver);
        assert_eq!(fault(Fault::upstream, "connection_lost"), Others::TakeOverForAll);
    }
}
