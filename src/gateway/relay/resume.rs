//! What is kept of a stream while it passes, so that the rest of it can be had from elsewhere if it breaks off.

use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::{Committed, Meter, timeouts::StreamTimeouts};
use crate::{
    protocol::{Event, EventFacts, continuation::StreamAdapter},
    types::{Fault, fault::STALLED},
};

/// Longest answer whose text is kept, in bytes; a longer one is not taken up again.
const LONGEST: usize = 256 << 10;

/// Gets the rest of an answer.
pub(in crate::gateway) trait ResumeStream: Send {
    /// True if another backend in good standing may have it.
    fn has_other(&self) -> bool;

    /// The rest of an answer that broke off; `None` where it cannot be had.
    fn rescue(self: Box<Self>, broken: Broken) -> BoxFuture<'static, Option<Rest>>;
}

/// An answer that broke off.
pub(in crate::gateway) struct Broken {
    /// The text that the caller has.
    pub(in crate::gateway) said: String,
    /// About how many tokens that is.
    pub(in crate::gateway) tokens: u64,
    /// True if its backend fell silent: it is not asked again while another one exists.
    pub(in crate::gateway) stalled: bool,
    /// When the rest must have begun: the caller has been waiting since the last event.
    pub(in crate::gateway) until: Instant,
}

/// The rest of an answer.
pub(in crate::gateway) struct Rest {
    pub(in crate::gateway) committed: Committed,
    /// What of it the caller has: nothing where the model went on, all that was said where it began again.
    pub(in crate::gateway) repeats: String,
    /// Tokens that its usage does not count.
    pub(in crate::gateway) before: u64,
    /// Who can get the rest, should this break off, too.
    pub(in crate::gateway) next: Option<Box<dyn ResumeStream>>,
}

/// A stream's line to whoever can get the rest of it.
pub(super) struct ResumeSource {
    rescue: Option<Box<dyn ResumeStream>>,
    /// The answer's text so far, as the inside of a JSON string.
    said: Vec<u8>,
    /// Tokens that the caller had when a stream broke off last.
    received: u64,
    /// One of its events, to be taken as the pattern for others.
    pattern: Option<Bytes>,
    /// The rest that is being fetched, and the fault that made it necessary.
    fetching: Option<(BoxFuture<'static, Option<Rest>>, Fault)>,
    /// What makes the rest fit, and the fault that made it necessary.
    tailor: Option<StreamAdapter>,
    cause: Option<Fault>,
}

impl ResumeSource {
    pub(super) fn new(rescue: Box<dyn ResumeStream>) -> Self {
        Self {
            rescue: Some(rescue),
            said: Vec::new(),
            received: 0,
            pattern: None,
            fetching: None,
            tailor: None,
            cause: None,
        }
    }

    /// Notes what an event from upstream says.
    fn note(&mut self, data: &[u8], seen: &EventFacts) {
        if self.rescue.is_none() {
            return;
        }
        match &seen.text_at {
            Some(at) => {
                // Without its quotes.
                self.said.extend_from_slice(&data[at.start + 1..at.end - 1]);
                if self.pattern.is_none() {
                    self.pattern = Some(Bytes::copy_from_slice(data));
                }
            }
            // It says something that is no text.
            None if seen.token => self.rescue = None,
            None => {}
        }
        if self.said.len() > LONGEST {
            self.rescue = None;
        }
        if self.rescue.is_none() {
            self.said = Vec::new();
        }
    }

    /// An event as the caller is to have it; `None` where it has all of it already.
    ///
    /// # Errors
    /// The fault of the stream that broke off, where the rest turns out to be of another answer.
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
                self.rescue = None;
                let cause = self.cause.take().unwrap_or_else(|| super::cut("before its end"));
                Err(Fault { message: format!("{}; {differs}", cause.message).into(), ..cause })
            }
        }
    }

    /// Begins to fetch the rest after `fault`, within the client's `patience`; gives the fault back where it cannot be had. The attempt
    /// that failed is over.
    pub(super) fn begin(&mut self, meter: &mut Meter, fault: Fault, patience: &StreamTimeouts) -> Result<(), Fault> {
        let quoted = [b"\"", &*self.said, b"\""].concat();
        let (Some(rescue), Ok(mut said)) = (self.rescue.take(), serde_json::from_slice::<String>(&quoted)) else {
            return Err(fault);
        };
        // The caller has what a stream before this one said, and this one had not said again.
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
        let stalled = fault.kind == STALLED || patience.is_stalled();
        let broken = Broken { said, tokens, stalled, until: patience.idle_until() };
        self.fetching = Some((rescue.rescue(broken), fault));
        Ok(())
    }

    /// True if another backend in good standing may have the rest.
    pub(super) fn has_other(&self) -> bool {
        self.rescue.as_ref().is_some_and(|rescue| rescue.has_other())
    }

    /// True if the rest may be had at all.
    pub(super) fn is_live(&self) -> bool {
        self.rescue.is_some()
    }

    /// Whether what passes is the rest of another stream.
    pub(super) fn is_tailored(&self) -> bool {
        self.tailor.is_some()
    }

    /// Whether the rest is being fetched.
    pub(super) fn is_fetching(&self) -> bool {
        self.fetching.is_some()
    }

    /// Waits for the rest. The fault is that of the stream that broke off.
    pub(super) fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Result<Committed, Fault>> {
        let Some((rest, fault)) = &mut self.fetching else { return Poll::Pending };
        let Poll::Ready(rest) = rest.as_mut().poll(cx) else { return Poll::Pending };
        let fault = fault.clone();
        self.fetching = None;
        let Some(Rest { committed, repeats, before, next }) = rest else { return Poll::Ready(Err(fault)) };
        self.tailor = Some(StreamAdapter::new(self.pattern.as_deref().unwrap_or_default(), &repeats, before));
        self.rescue = next;
        self.cause = Some(fault);
        if !repeats.is_empty() {
            // It is all said again.
            self.said.clear();
        }
        Poll::Ready(Ok(committed))
    }

    /// Nobody waits for the rest any more.
    pub(super) fn give_up(&mut self) {
        (self.rescue, self.fetching) = (None, None);
    }
}
