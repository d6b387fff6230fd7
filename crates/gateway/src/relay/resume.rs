//! Records a stream as it passes, so that another backend can supply the rest if it breaks off.

use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::{Committed, Meter, timeouts::StreamTimeouts};
use signalbox_protocol::{Event, EventFacts, continuation::StreamAdapter};
use signalbox_types::{Fault, fault::STALLED};

/// Longest answer whose text is recorded, in bytes. A longer stream is not resumed.
const MAX_RESUMABLE_BYTES: usize = 256 << 10;

/// Fetches the rest of an answer.
pub(crate) trait ResumeStream: Send {
    /// True if another healthy backend can supply it.
    fn has_other(&self) -> bool;

    /// Fetches the rest of an answer that broke off; `None` if that fails.
    fn resume(self: Box<Self>, broken: Broken) -> BoxFuture<'static, Option<Rest>>;
}

/// An answer that broke off.
pub(crate) struct Broken {
    /// The text that the client has received.
    pub(crate) said: String,
    /// Its approximate length in tokens.
    pub(crate) tokens: u64,
    /// True if the backend fell silent. It is not retried while there is another one.
    pub(crate) stalled: bool,
    /// Latest start of the rest: the client has been waiting since the last event.
    pub(crate) until: Instant,
}

/// The rest of an answer.
pub(crate) struct Rest {
    pub(crate) committed: Committed,
    /// The part that the client already has: empty if the model continued, the whole text so far if it started over.
    pub(crate) repeats: String,
    /// Tokens sent before, which its usage does not include.
    pub(crate) before: u64,
    /// Fetches the next part if this one breaks off too.
    pub(crate) next: Option<Box<dyn ResumeStream>>,
}

/// State for resuming a stream.
pub(super) struct ResumeSource {
    resumer: Option<Box<dyn ResumeStream>>,
    /// The answer's text so far, as the content of a JSON string.
    said: Vec<u8>,
    /// Tokens that the client had when a stream last broke off.
    received: u64,
    /// An event of the first stream, whose identifying members the resumed events take.
    pattern: Option<Bytes>,
    /// The pending rest, and the fault that made it necessary.
    fetching: Option<(BoxFuture<'static, Option<Rest>>, Fault)>,
    /// Adapts the events of the rest to the first stream; `cause` is the fault that made it necessary.
    tailor: Option<StreamAdapter>,
    cause: Option<Fault>,
}

impl ResumeSource {
    pub(super) fn new(resumer: Box<dyn ResumeStream>) -> Self {
        Self {
            resumer: Some(resumer),
            said: Vec::new(),
            received: 0,
            pattern: None,
            fetching: None,
            tailor: None,
            cause: None,
        }
    }

    /// Records the text of an upstream event. An event with anything but text makes the stream unresumable.
    fn note(&mut self, data: &[u8], seen: &EventFacts) {
        if self.resumer.is_none() {
            return;
        }
        match &seen.text_at {
            Some(at) => {
                // The quotes are left out.
                self.said.extend_from_slice(&data[at.start + 1..at.end - 1]);
                if self.pattern.is_none() {
                    self.pattern = Some(Bytes::copy_from_slice(data));
                }
            }
            // A token that is not text cannot be replayed.
            None if seen.token => self.resumer = None,
            None => {}
        }
        if self.said.len() > MAX_RESUMABLE_BYTES {
            self.resumer = None;
        }
        if self.resumer.is_none() {
            self.said = Vec::new();
        }
    }

    /// Returns the bytes to send for an event; `None` if the client already has all of it.
    ///
    /// # Errors
    /// The fault of the stream that broke off, if the rest belongs to a different answer.
    pub(super) fn pass(&mut self, event: Event, seen: &EventFacts) -> Result<Option<Bytes>, Fault> {
        let Some(tailor) = &mut self.tailor else {
            if let Some(data) = event.data() {
                self.note(&data, seen);
            }
            return Ok(Some(event.raw));
        };
        let Some(data) = event.data() else { return Ok(Some(event.raw)) };
        match tailor.fit(&data) {
            Ok(fitted) => {
                let data = data.into_owned();
                self.note(&data, seen);
                Ok(fitted)
            }
            Err(differs) => {
                self.resumer = None;
                let cause = self.cause.take().unwrap_or_else(|| super::cut("before its end"));
                Err(Fault { message: format!("{}; {differs}", cause.message).into(), ..cause })
            }
        }
    }

    /// Starts to fetch the rest after `fault`, within the limits of `timeouts`, and ends the failed attempt.
    ///
    /// # Errors
    /// Returns `fault` if the stream cannot be resumed.
    pub(super) fn begin(&mut self, meter: &mut Meter, fault: Fault, timeouts: &StreamTimeouts) -> Result<(), Fault> {
        let quoted = [b"\"", &*self.said, b"\""].concat();
        let (Some(resumer), Ok(mut said)) = (self.resumer.take(), serde_json::from_slice::<String>(&quoted)) else {
            return Err(fault);
        };
        // The client also has the text of the previous stream that this one had not repeated yet.
        let unrepeated = self.tailor.as_ref().map_or("", StreamAdapter::still_expected);
        said.push_str(unrepeated);
        if self.pattern.is_none() {
            return Err(fault);
        }
        if unrepeated.is_empty() {
            self.received = meter.received() + self.tailor.as_ref().map_or(0, StreamAdapter::before);
        }
        let tokens = self.received;
        meter.break_off(&fault);
        let stalled = fault.kind == STALLED || timeouts.is_stalled();
        let broken = Broken { said, tokens, stalled, until: timeouts.idle_until() };
        self.fetching = Some((resumer.resume(broken), fault));
        Ok(())
    }

    /// True if another healthy backend can supply the rest.
    pub(super) fn has_other(&self) -> bool {
        self.resumer.as_ref().is_some_and(|resumer| resumer.has_other())
    }

    /// True if the stream can be resumed at all.
    pub(super) fn is_live(&self) -> bool {
        self.resumer.is_some()
    }

    /// True if the current stream is the rest of another one.
    pub(super) fn is_tailored(&self) -> bool {
        self.tailor.is_some()
    }

    /// True while the rest is being fetched.
    pub(super) fn is_fetching(&self) -> bool {
        self.fetching.is_some()
    }

    /// Waits for the rest.
    ///
    /// # Errors
    /// The fault of the stream that broke off, if there is no rest.
    pub(super) fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Result<Committed, Fault>> {
        let Some((rest, fault)) = &mut self.fetching else { return Poll::Pending };
        let Poll::Ready(rest) = rest.as_mut().poll(cx) else { return Poll::Pending };
        let fault = fault.clone();
        self.fetching = None;
        let Some(Rest { committed, repeats, before, next }) = rest else { return Poll::Ready(Err(fault)) };
        self.tailor = Some(StreamAdapter::new(self.pattern.as_deref().unwrap_or_default(), &repeats, before));
        self.resumer = next;
        self.cause = Some(fault);
        if !repeats.is_empty() {
            // The new stream repeats the text from its start.
            self.said.clear();
        }
        Poll::Ready(Ok(committed))
    }

    /// Stops fetching the rest and gives up resuming.
    pub(super) fn give_up(&mut self) {
        (self.resumer, self.fetching) = (None, None);
    }
}
