//! A streamed answer: events go out as they come, byte for byte; a stream that breaks ends in an error, never in silence.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep, sleep};

use super::{
    Events, Meter,
    events::{cut, is_generation},
};
use crate::{
    protocol::{Event, Seen, error},
    types::{Fault, Outcome},
};

/// How long the upstream may take to close after it said that it is done.
const LINGER: Duration = Duration::from_secs(1);

/// The body of a streamed answer.
pub(super) struct Stream {
    events: Events,
    meter: Meter,
    /// Whether the usage chunk is kept from the client, who did not ask for it.
    hide_usage: bool,
    idle: Duration,
    /// When the last event with data came. The timer is not reset for each: it looks here when it fires.
    last_event: Instant,
    timer: Pin<Box<Sleep>>,
    total: Option<Pin<Box<Sleep>>>,
    /// The choices begun and those finished, a bit for each.
    choices: (u64, u64),
    end: End,
    over: bool,
}

/// What the upstream has said of the answer's end so far.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// Nothing: if it stops now, it was cut.
    Missing,
    /// The content is complete.
    Finished,
    /// The stream is at its end.
    Done,
    /// It failed, by its own word.
    Failed,
}

impl Stream {
    pub(super) fn new(events: Events, meter: Meter, hide_usage: bool, idle: Duration, total: Option<Duration>) -> Self {
        Self {
            events,
            meter,
            hide_usage,
            idle,
            last_event: Instant::now(),
            timer: Box::pin(sleep(idle)),
            total: total.map(|total| Box::pin(sleep(total))),
            choices: (0, 0),
            end: End::Missing,
            over: false,
        }
    }

    /// Notes what an event says; whether it goes to the client.
    fn pass(&mut self, seen: &Seen, held: bool) -> bool {
        if !held {
            self.meter.read(seen);
        }
        self.note_end(seen);
        if seen.token {
            self.meter.hand();
        }
        !(seen.only_usage && self.hide_usage)
    }

    fn note_end(&mut self, seen: &Seen) {
        let (begun, finished) = &mut self.choices;
        *begun |= seen.choices;
        *finished |= seen.finished_choices;
        let open = *begun & !*finished != 0;
        self.end = match self.end {
            _ if seen.error.is_some() => End::Failed,
            end if seen.done => end.max(End::Done),
            End::Missing if seen.finished && !open => End::Finished,
            End::Finished if open => End::Missing,
            end => end,
        };
        if self.end >= End::Done {
            self.timer.as_mut().reset(Instant::now() + LINGER);
        }
        if self.end == End::Done {
            // A client may leave once it has read so much: it was served.
            self.meter.finish(Outcome::Complete);
        }
    }

    /// The end of the upstream's stream: what it means depends on what came before.
    fn end(&mut self) -> Option<Bytes> {
        self.over = true;
        match self.end {
            End::Missing if is_generation(self.events.endpoint()) => {
                return Some(self.break_off(&cut("before its end")));
            }
            End::Missing | End::Finished | End::Done => self.meter.finish(Outcome::Complete),
            End::Failed => self.meter.finish(Outcome::Failed("upstream_error")),
        }
        None
    }

    /// Ends the stream with an error that the client can read, and without `[DONE]`.
    fn break_off(&mut self, fault: &Fault) -> Bytes {
        self.over = true;
        self.meter.finish(Outcome::Failed(fault.kind));
        error::event(self.events.endpoint(), fault)
    }

    /// Whether time is up, and why.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<Option<Fault>> {
        if let Some(total) = &mut self.total
            && total.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Some(late(
                "deadline",
                "the answer took longer than the route allows (timeouts.total)",
            )));
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if self.end >= End::Done {
                return Poll::Ready(None);
            }
            let due = self.last_event + self.idle;
            if due <= Instant::now() {
                if self.end == End::Finished {
                    return Poll::Ready(None);
                }
                let message = format!("the backend sent nothing for {} s (timeouts.idle)", self.idle.as_secs_f64());
                return Poll::Ready(Some(late("stream_stalled", message)));
            }
            self.timer.as_mut().reset(due);
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            let held = self.events.has_held();
            match self.events.poll_next(cx) {
                Poll::Ready(Some(Ok((Event { raw }, seen)))) => {
                    if seen != Seen::default() {
                        self.last_event = Instant::now();
                    }
                    if self.pass(&seen, held) {
                        return Poll::Ready(Some(raw));
                    }
                }
                // A connection that breaks after the end has been said takes nothing away.
                Poll::Ready(Some(Err(_))) if self.end >= End::Done => return Poll::Ready(self.end()),
                Poll::Ready(Some(Err(fault))) => return Poll::Ready(Some(self.break_off(&fault))),
                Poll::Ready(None) => return Poll::Ready(self.end()),
                Poll::Pending => {
                    return match ready!(self.poll_time(cx)) {
                        Some(fault) => Poll::Ready(Some(self.break_off(&fault))),
                        None => Poll::Ready(self.end()),
                    };
                }
            }
        }
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.over {
            return Poll::Ready(None);
        }
        let bytes = ready!(self.poll_event(cx));
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.over
    }
}

fn late(kind: &'static str, message: impl Into<std::borrow::Cow<'static, str>>) -> Fault {
    Fault::upstream(StatusCode::GATEWAY_TIMEOUT, kind, message)
}
