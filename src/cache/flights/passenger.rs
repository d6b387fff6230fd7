//! One of those who share a request.

use std::{
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use super::{
    flight::{End, Entry, Flight, Flights},
    pilot::Pilot,
};
use crate::{measure::lock, types::Fault};

/// One who shares a request; dropping it leaves.
#[derive(Debug)]
pub struct Passenger<H> {
    pub(super) flight: Arc<Flight<H>>,
    pub(super) flights: Weak<Flights<H>>,
    pub(super) seat: usize,
}

/// What a passenger reads next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A part of the answer.
    Entry(Entry),
    /// There is no more.
    End(End),
    /// What would come next is gone: this reader was too slow for the others.
    TooSlow,
}

/// What a passenger hears before the answer begins.
#[derive(Debug)]
pub enum Begun<H> {
    /// The answer has begun.
    Head(Arc<H>),
    /// There will be none.
    Failed(Box<Fault>),
    /// This passenger's own request is to be sent now, for everybody.
    TakeOver(Pilot<H>),
}

impl<H> Passenger<H> {
    /// Whether it is this passenger's own request that is on its way.
    pub fn leads(&self) -> bool {
        lock(&self.flight.state).flying == Some(self.seat)
    }

    /// Who else waits for the answer, or reads it, at present.
    pub fn others(&self) -> usize {
        lock(&self.flight.state).aboard().count().saturating_sub(1)
    }

    /// What comes first: the answer's head, a failure, or the call to take over.
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

    /// The next part of the answer.
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
        // Those who are left have been sent already, and wait for nobody.
        let stranded = called && !state.call();
        if state.aboard().next().is_none() {
            // Whoever asks for the same from now on asks anew.
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
