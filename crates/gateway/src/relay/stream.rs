//! Relays a streamed answer event by event, byte for byte. A broken stream ends with an error event, never silently.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame};

use super::{
    Answer, Committed, Events, Meter,
    events::{cut, is_generation},
    resume::ResumeSource,
    timeouts::StreamTimeouts,
};
use crate::refusal::reported;
use signalbox_protocol::{ErrorForm, Event, EventFacts, error};
use signalbox_types::{Blame, Endpoint, Fault, Outcome, fault::DEADLINE};

/// Fractions of the idle limit after which a silent stream is resumed: the first on another backend, the second on its
/// own if there is no other. The remainder is left for the resumption, so that the client waits no longer than the
/// limit in total.
const LEAVES: f64 = 0.5;
const RETURNS: f64 = 0.75;
/// Time the upstream has to close the connection after it reported the end.
const LINGER: Duration = Duration::from_secs(1);

/// The body of a streamed answer.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the stream")]
pub(super) struct Stream {
    events: Box<Events>,
    meter: Meter,
    /// True if the usage chunk is hidden from the client, which did not ask for it.
    hide_usage: bool,
    timeouts: StreamTimeouts,
    /// Resumes the stream if it breaks off.
    resume: Option<Box<ResumeSource>>,
    /// Choices begun and choices finished, one bit each.
    choices: (u64, u64),
    end: End,
    /// True if the stream fell silent and no other backend was available at that time.
    returns: bool,
    /// True if the engine cut the answer off with a finish reason, after which its stream ends as always.
    is_aborted: bool,
    over: bool,
}

/// The end of the answer, as far as the upstream has reported it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// Not reported: a stream that stops now was cut.
    Missing,
    /// The content is complete.
    Finished,
    /// The stream has ended.
    Done,
    /// The upstream reported an error.
    Failed,
}

impl Stream {
    pub(super) fn new(
        events: Box<Events>,
        meter: Meter,
        hide_usage: bool,
        timeouts: StreamTimeouts,
        resume: Option<Box<ResumeSource>>,
    ) -> Self {
        Self {
            events,
            meter,
            hide_usage,
            timeouts,
            resume,
            choices: (0, 0),
            end: End::Missing,
            returns: false,
            is_aborted: false,
            over: false,
        }
    }

    /// Records an event. Returns the bytes to send to the client, if any.
    fn pass(&mut self, event: Event, seen: &EventFacts, held: bool) -> Result<Option<Bytes>, Fault> {
        if !held {
            self.meter.read(seen);
        }
        let raw = match &mut self.resume {
            Some(resume) => resume.pass(event, seen)?,
            None => Some(event.raw),
        };
        self.note_end(seen);
        self.is_aborted |= seen.error.as_ref().is_some_and(|error| error.form == ErrorForm::Aborted);
        if seen.token {
            self.meter.hand();
        }
        Ok(raw.filter(|_| !(seen.only_usage && self.hide_usage)))
    }

    /// Resumes a broken stream if possible, else ends it with an error event.
    fn begin_resume(&mut self, fault: Fault) -> Option<Bytes> {
        match &mut self.resume {
            Some(resume) => match resume.begin(&mut self.meter, fault, &self.timeouts) {
                Ok(()) => {
                    // The engine permit is already released; this releases the connection.
                    self.events.stop();
                    None
                }
                Err(fault) => Some(self.break_off(&fault)),
            },
            None => Some(self.break_off(&fault)),
        }
    }

    /// Switches to the resumed stream.
    fn resumed(&mut self, committed: Committed) -> Option<Bytes> {
        let Committed { answer, meter, .. } = committed;
        let before = std::mem::replace(&mut self.meter, meter);
        self.meter.take_over(before);
        match answer {
            Answer::Events { events, hide_usage } => (self.events, self.hide_usage) = (events, hide_usage),
            Answer::Whole(_) | Answer::Opaque(_) => return Some(self.break_off(&cut("before its end"))),
        }
        self.timeouts.restart();
        self.choices = (0, 0);
        None
    }

    fn note_end(&mut self, seen: &EventFacts) {
        let (begun, finished) = &mut self.choices;
        *begun |= seen.choices;
        *finished |= seen.finished_choices;
        let open = *begun & !*finished != 0;
        let before = self.end;
        self.end = match before {
            End::Failed => End::Failed,
            _ if seen.error.is_some() => End::Failed,
            end if seen.done => end.max(End::Done),
            End::Missing if seen.finished && !open => End::Finished,
            End::Finished if open => End::Missing,
            end => end,
        };
        if self.end >= End::Done && before < End::Done {
            self.timeouts.shorten(LINGER);
        }
        if self.end == End::Done {
            // The client may disconnect after this event, and has been served.
            self.meter.finish(Outcome::Complete);
        }
    }

    /// Handles the end of the upstream's stream, by what was reported before it.
    fn end(&mut self) -> Option<Bytes> {
        if self.end == End::Missing && is_generation(self.events.endpoint()) {
            return self.begin_resume(cut("before its end"));
        }
        self.over = true;
        if self.end == End::Failed {
            self.meter.finish(Outcome::Failed("upstream_error"));
            return None;
        }
        self.meter.finish(Outcome::Complete);
        // Some engines leave out the event that says that the answer is over.
        if self.end == End::Finished { closing(self.events.endpoint()) } else { None }
    }

    /// True if an error event is handled here instead of passed on.
    fn may_take_over(&self) -> bool {
        self.may_be_resumed() || self.resume.as_ref().is_some_and(|resume| resume.is_tailored())
    }

    fn may_be_resumed(&self) -> bool {
        self.end == End::Missing && self.resume.as_ref().is_some_and(|resume| resume.is_live())
    }

    /// Ends the stream with an error event and without `[DONE]`.
    fn break_off(&mut self, fault: &Fault) -> Bytes {
        self.over = true;
        self.meter.finish(Outcome::Failed(fault.kind));
        error::event(self.events.endpoint(), fault)
    }

    /// Handles a timeout. It is an error only if part of the answer is missing.
    fn expire(&mut self, fault: &Fault) -> Option<Bytes> {
        if self.end >= End::Finished {
            return self.end();
        }
        // The total limit leaves no time to resume.
        if fault.kind == DEADLINE { Some(self.break_off(fault)) } else { self.begin_resume(fault.clone()) }
    }

    /// Waits for the rest of the answer while it is being fetched. Returns the error event to send if there is none.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(resume) = self.resume.as_mut().filter(|resume| resume.is_fetching()) else {
            return Poll::Ready(None);
        };
        if let Some(fault) = self.timeouts.overdue() {
            resume.give_up();
            return Poll::Ready(Some(self.break_off(&fault)));
        }
        match resume.poll_rest(cx) {
            Poll::Ready(Ok(committed)) => Poll::Ready(self.resumed(committed)),
            Poll::Ready(Err(fault)) => Poll::Ready(Some(self.break_off(&fault))),
            Poll::Pending => self.timeouts.poll_total(cx).map(|fault| {
                self.resume.iter_mut().for_each(|resume| resume.give_up());
                Some(self.break_off(&fault))
            }),
        }
    }

    /// Waits until the silence is long enough to give up on the stream.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Fault> {
        let is_live = self.may_be_resumed();
        let Some(resume) = self.resume.as_ref().filter(|_| is_live) else { return self.timeouts.poll(cx) };
        if !self.returns {
            let fault = ready!(self.timeouts.poll_part(cx, LEAVES));
            if resume.has_other() {
                return Poll::Ready(fault);
            }
            self.returns = true;
        }
        self.timeouts.poll_part(cx, RETURNS)
    }

    /// Handles an event from upstream. Returns the bytes to send to the client, if any.
    fn take(&mut self, event: Event, seen: &EventFacts, held: bool) -> Option<Bytes> {
        if self.end == End::Failed && !self.is_aborted {
            // Nothing follows an error: what looks like an end would hide it.
            return None;
        }
        if seen.alive && self.end < End::Done {
            self.timeouts.restart();
            self.returns = false;
        }
        // An engine's error is not passed on if the stream can be resumed, or if it would appear as part of a resumed
        // answer.
        if let Some(fault) = seen.error.as_ref().filter(|_| self.may_take_over()).map(reported) {
            let is_final = fault.blame == Blame::Client || !self.may_be_resumed();
            return if is_final { Some(self.break_off(&fault)) } else { self.begin_resume(fault) };
        }
        match self.pass(event, seen, held) {
            Ok(raw) => {
                if raw.is_some() && seen.alive {
                    self.timeouts.passed();
                }
                raw
            }
            Err(fault) => {
                self.meter.set_aside();
                Some(self.break_off(&fault))
            }
        }
    }

    /// Records that the upstream lives. While a resumed stream repeats what the caller has, that is no news for the caller.
    fn note_alive(&mut self) {
        self.timeouts.is_alive();
        if !self.resume.as_ref().is_some_and(|resume| resume.is_tailored()) {
            self.timeouts.passed();
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(last) = ready!(self.poll_rest(cx)) {
                return Poll::Ready(Some(last));
            }
            if self.over {
                return Poll::Ready(None);
            }
            if let Some(fault) = self.timeouts.overdue() {
                return Poll::Ready(self.expire(&fault));
            }
            // After the reported end the upstream has limited time to close, even if it keeps sending.
            if self.end >= End::Done
                && let Poll::Ready(fault) = self.timeouts.poll(cx)
            {
                return Poll::Ready(self.expire(&fault));
            }
            let held = self.events.has_held();
            let polled = self.events.poll_next(cx);
            if self.events.take_alive() && self.end < End::Done {
                self.note_alive();
            }
            let sent = match polled {
                Poll::Ready(Some(Ok((event, seen)))) => self.take(event, &seen, held),
                // After the reported end, a broken connection loses nothing.
                Poll::Ready(Some(Err(_))) if self.end >= End::Finished => self.end(),
                Poll::Ready(Some(Err(fault))) => self.begin_resume(fault),
                Poll::Ready(None) => self.end(),
                Poll::Pending => {
                    let fault = ready!(self.poll_silence(cx));
                    self.expire(&fault)
                }
            };
            if sent.is_some() {
                return Poll::Ready(sent);
            }
        }
    }
}

/// The event that ends a complete stream of this API.
fn closing(endpoint: Endpoint) -> Option<Bytes> {
    match endpoint {
        Endpoint::Chat | Endpoint::Completions => Some(Bytes::from_static(b"data: [DONE]\n\n")),
        Endpoint::Messages => Some(Bytes::from_static(b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")),
        _ => None,
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
