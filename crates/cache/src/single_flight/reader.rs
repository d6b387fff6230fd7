//! A reader of a shared request.

use std::{
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use super::{
    flight::{End, Entry, Flight, SingleFlight},
    leader::Leader,
};
use signalbox_types::Fault;

/// A reader of a shared request; dropping it leaves.
#[derive(Debug)]
pub struct Reader<H> {
    pub(super) flight: Arc<Flight<H>>,
    pub(super) flights: Weak<SingleFlight<H>>,
    pub(super) slot: usize,
}

/// Next item for a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A part of the answer.
    Entry(Entry),
    /// The answer has ended.
    End(End),
    /// The next part was dropped: this reader was too slow for the others.
    TooSlow,
}

/// First event for a reader.
#[derive(Debug)]
pub enum Start<H> {
    /// The answer has begun.
    Head(Arc<H>),
    /// There will be no answer.
    Failed(Box<Fault>),
    /// This reader's own request is to be sent now, for all.
    TakeOver(Leader<H>),
}

impl<H> Reader<H> {
    /// True if this reader's own request is under way.
    pub fn leads(&self) -> bool {
        self.flight.state.lock().leading == Some(self.slot)
    }

    /// Number of other readers at present.
    pub fn others(&self) -> usize {
        self.flight.state.lock().readers().count().saturating_sub(1)
    }

    /// Polls for the first event: the answer's head, a failure, or the call to take over.
    pub fn poll_start(&mut self, cx: &mut Context<'_>) -> Poll<Start<H>> {
        let mut state = self.flight.state.lock();
        if let Some(head) = &state.head {
            return Poll::Ready(Start::Head(head.clone()));
        }
        if let Some(fault) = &state.failed {
            return Poll::Ready(Start::Failed(fault.clone()));
        }
        if state.called == Some(self.slot) {
            state.called = None;
            state.leading = Some(self.slot);
            state.slots[self.slot].iter_mut().for_each(|slot| slot.sent = true);
            drop(state);
            let leader = Leader { flight: self.flight.clone(), flights: self.flights.clone(), over: false };
            return Poll::Ready(Start::TakeOver(leader));
        }
        let Some(slot) = &mut state.slots[self.slot] else { return Poll::Pending };
        if let Some(fault) = &slot.failed {
            return Poll::Ready(Start::Failed(fault.clone()));
        }
        slot.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Polls for the next part of the answer.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        let mut state = self.flight.state.lock();
        let state = &mut *state;
        let Some(slot) = &mut state.slots[self.slot] else { return Poll::Pending };
        if slot.too_slow {
            return Poll::Ready(Next::TooSlow);
        }
        if let Some(entry) = state.log.get(slot.read - state.dropped) {
            slot.read += 1;
            let entry = entry.clone();
            if state.closed {
                state.trim();
            }
            state.wake_leader();
            return Poll::Ready(Next::Entry(entry));
        }
        if let Some(end) = state.end {
            return Poll::Ready(Next::End(end));
        }
        slot.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<H> Drop for Reader<H> {
    fn drop(&mut self) {
        let mut state = self.flight.state.lock();
        state.slots[self.slot] = None;
        let called = state.called == Some(self.slot);
        // The remaining readers' requests were sent already, and none is under way.
        let stranded = called && !state.call();
        if state.readers().next().is_none() {
            // Identical requests from now on start anew.
            state.closed = true;
            let over = state.end.is_some();
            state.wake_leader();
            drop(state);
            if let Some(flights) = self.flights.upgrade().filter(|_| !over) {
                flights.remove(&self.flight);
            }
            return;
        }
        if stranded {
            state.failed = state.cause.take();
            state.closed = true;
            state.wake_all();
            drop(state);
            if let Some(flights) = self.flights.upgrade() {
                flights.remove(&self.flight);
            }
            return;
        }
        if state.closed {
            state.trim();
        }
        state.wake_leader();
    }
}
