//! A reader of a shared request.

use std::{
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use super::{
    flight::{End, Entry, Flight, Flights},
    pilot::Pilot,
};
use crate::{measure::lock, types::Fault};

/// A reader of a shared request; dropping it leaves.
#[derive(Debug)]
pub struct Passenger<H> {
    pub(super) flight: Arc<Flight<H>>,
    pub(super) flights: Weak<Flights<H>>,
    pub(super) seat: usize,
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
pub enum Begun<H> {
    /// The answer has begun.
    Head(Arc<H>),
    /// There will be no answer.
    Failed(Box<Fault>),
    /// This reader's own request is to be sent now, for all.
    TakeOver(Pilot<H>),
}

impl<H> Passenger<H> {
    /// True if this reader's own request is under way.
    pub fn leads(&self) -> bool {
        lock(&self.flight.state).flying == Some(self.seat)
    }

    /// Number of other readers at present.
    pub fn others(&self) -> usize {
        lock(&self.flight.state).aboard().count().saturating_sub(1)
    }

    /// Polls for the first event: the answer's head, a failure, or the call to take over.
    pub fn poll_begun(&mut self, cx: &mut Context<'_>) -> Poll<Begun<H>> {
        let mut state = lock(&self.flight.state);
        if let Some(head) = &state.head {
            return Poll::Ready(Begun::Head(head.clone()));
        }
        if let Some(fault) = &state.failed {
            return Poll::Ready(Begun::Failed(fault.clone()));
        }
        if state.called == Some(self.seat) {
            state.called = None;
            state.flying = Some(self.seat);
            state.seats[self.seat].iter_mut().for_each(|seat| seat.sent = true);
            drop(state);
            let pilot = Pilot { flight: self.flight.clone(), flights: self.flights.clone(), over: false };
            return Poll::Ready(Begun::TakeOver(pilot));
        }
        let Some(seat) = &mut state.seats[self.seat] else { return Poll::Pending };
        if let Some(fault) = &seat.failed {
            return Poll::Ready(Begun::Failed(fault.clone()));
        }
        seat.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Polls for the next part of the answer.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        let mut state = lock(&self.flight.state);
        let state = &mut *state;
        let Some(seat) = &mut state.seats[self.seat] else { return Poll::Pending };
        if seat.too_slow {
            return Poll::Ready(Next::TooSlow);
        }
        if let Some(entry) = state.log.get(seat.read - state.dropped) {
            seat.read += 1;
            let entry = entry.clone();
            if state.closed {
                state.trim();
            }
            state.wake_pilot();
            return Poll::Ready(Next::Entry(entry));
        }
        if let Some(end) = state.end {
            return Poll::Ready(Next::End(end));
        }
        seat.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<H> Drop for Passenger<H> {
    fn drop(&mut self) {
        let mut state = lock(&self.flight.state);
        state.seats[self.seat] = None;
        let called = state.called == Some(self.seat);
        // The remaining readers' requests were sent already, and none is under way.
        let stranded = called && !state.call();
        if state.aboard().next().is_none() {
            // Identical requests from now on start anew.
            state.closed = true;
            let over = state.end.is_some();
            state.wake_pilot();
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
        state.wake_pilot();
    }
}
