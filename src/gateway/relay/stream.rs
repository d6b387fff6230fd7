//! A streamed answer: events go out as they come, byte for byte; a stream that breaks ends in an error, never in silence.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame};

use super::{
    Events, Meter,
    events::{cut, is_generation},
    patience::Patience,
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
    patience: Patience,
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
    pub(super) fn new(events: Events, meter: Meter, hide_usage: bool, patience: Patience) -> Self {
        Self { events, meter, hide_usage, patience, choices: (0, 0), end: End::Missing, over: false }
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
        let before = self.end;
        self.end = match before {
            _ if seen.error.is_some() => End::Failed,
            end if seen.done => end.max(End::Done),
            End::Missing if seen.finished && !open => End::Finished,
            End::Finished if open => End::Missing,
            end => end,
        };
        if self.end >= End::Done && before < End::Done {
            self.patience.shorten(LINGER);
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

    /// Time is up: it matters only where something is missing.
    fn expire(&mut self, fault: &Fault) -> Option<Bytes> {
        if self.end >= End::Finished { self.end() } else { Some(self.break_off(fault)) }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(fault) = self.patience.overdue() {
                return Poll::Ready(self.expire(&fault));
            }
            // What follows the end goes on for as long as the upstream may take to close, however busy it is.
            if self.end >= End::Done
                && let Poll::Ready(fault) = self.patience.poll(cx)
            {
                return Poll::Ready(self.expire(&fault));
            }
            let held = self.events.has_held();
            match self.events.poll_next(cx) {
                Poll::Ready(Some(Ok((Event { raw }, seen)))) => {
                    if seen.alive && self.end < End::Done {
                        self.patience.heard();
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
                    let fault = ready!(self.patience.poll(cx));
                    return Poll::Ready(self.expire(&fault));
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
