//! Writer of a shared request's log.

use std::{
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
};

use super::flight::{End, Entry, Flight, SingleFlight, Slot};
use signalbox_types::Fault;

/// Most takeovers by another request before all readers fail.
const MOST_TAKEOVERS: u32 = 2;

/// Writes the log. Dropping it before the [end](Leader::end) breaks the answer off, or lets another reader take
/// over.
#[derive(Debug)]
pub struct Leader<H> {
    pub(super) flight: Arc<Flight<H>>,
    pub(super) flights: Weak<SingleFlight<H>>,
    pub(super) over: bool,
}

/// Consequence of a failure for readers whose requests were not sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Others {
    /// Their requests would fail in the same way.
    Fail,
    /// They may succeed; the leader has failed.
    TakeOver,
    /// They may succeed; the leader waits with them.
    TakeOverForAll,
}

impl<H> Leader<H> {
    /// Records the head: the answer has begun.
    pub fn begin(&self, head: H) {
        let mut state = self.flight.state.lock();
        state.head = Some(head.into());
        state.wake_all();
    }

    /// Writes a part of the answer once there is room for it.
    pub fn poll_write(&self, entry: &mut Option<Entry>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.flight.state.lock();
        let state = &mut *state;
        let size = entry.as_ref().map_or(0, |entry| entry.bytes.len());
        if state.bytes + size > self.flight.most {
            state.closed = true;
            state.trim();
        }
        if state.bytes + size > self.flight.most && !state.log.is_empty() {
            let end = state.dropped + state.log.len();
            if state.readers().any(|(_, slot)| slot.read == end) {
                let first = state.dropped;
                let slow = |slot: &&mut Slot| !slot.too_slow && slot.read == first;
                for slot in state.slots.iter_mut().flatten().filter(slow) {
                    slot.too_slow = true;
                    slot.waker.take().into_iter().for_each(Waker::wake);
                }
                state.trim();
            }
            if state.bytes + size > self.flight.most && !state.log.is_empty() {
                state.leader = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
        if let Some(entry) = entry.take() {
            state.bytes += entry.bytes.len();
            state.log.push_back(entry);
            state.wake_all();
        }
        Poll::Ready(())
    }

    /// True if the log still holds everything: a reader that joins now gets the whole answer.
    pub fn is_whole(&self) -> bool {
        !self.flight.state.lock().closed
    }

    /// Polls until no reader is left.
    pub fn poll_abandoned(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.flight.state.lock();
        if state.readers().next().is_none() {
            return Poll::Ready(());
        }
        state.leader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Ends the answer. Readers that join later still read all of it, until the writer is dropped.
    pub fn end(&mut self, end: End) {
        let mut state = self.flight.state.lock();
        state.end = Some(end);
        state.wake_all();
        self.over = true;
    }

    /// Fails the request before its answer has begun. `others` says if another reader's request may succeed and the
    /// leader waits for it.
    pub fn fail(mut self, fault: Fault, others: Others) {
        self.over = true;
        let mut state = self.flight.state.lock();
        let led = state.leading;
        state.takeovers += 1;
        let may = others != Others::Fail && state.takeovers <= MOST_TAKEOVERS;
        if may && state.call() {
            if others == Others::TakeOver
                && let Some(Some(slot)) = led.map(|led| &mut state.slots[led])
            {
                slot.failed = Some(fault.clone().into());
                slot.waker.take().into_iter().for_each(Waker::wake);
            }
            state.cause = Some(fault.into());
            return;
        }
        state.failed = Some(fault.into());
        state.closed = true;
        state.wake_all();
        drop(state);
        self.remove();
    }

    fn remove(&self) {
        if let Some(flights) = self.flights.upgrade() {
            flights.remove(&self.flight);
        }
    }
}

impl<H> Drop for Leader<H> {
    fn drop(&mut self) {
        let mut state = self.flight.state.lock();
        if !self.over {
            // Its task ended unexpectedly.
            if state.head.is_none() {
                state.takeovers += 1;
                let fault = Fault::gateway(http::StatusCode::INTERNAL_SERVER_ERROR, "internal", "the request was lost");
                if state.takeovers <= MOST_TAKEOVERS && state.call() {
                    state.cause = Some(fault.into());
                    return;
                }
                state.failed = Some(fault.into());
            } else {
                state.end = Some(End::Broken("internal"));
            }
            state.wake_all();
        } else if state.head.is_none() {
            // The failure was reported already.
            return;
        }
        state.closed = true;
        drop(state);
        self.remove();
    }
}
