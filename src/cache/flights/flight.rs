//! A request that is shared: its log, and who reads it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    task::Waker,
};

use dashmap::DashMap;

use crate::{
    cache::key::ExactKey,
    measure::lock,
    types::{Fault, Usage},
};

/// Requests that may share: those that ask for the same, in the same form, of the same backends.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlightKey {
    /// What is asked for.
    pub key: ExactKey,
    /// Whether it is to be streamed.
    pub stream: bool,
    /// A hash over the backends whose answers may be given.
    pub acceptable: u64,
}

/// Requests under way, and who shares them. `H` is the head of an answer.
#[derive(Debug)]
pub struct Flights<H> {
    pub(super) table: DashMap<FlightKey, Arc<Flight<H>>>,
    /// Most bytes that a log holds.
    pub(super) most: usize,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its bytes, as they came.
    pub bytes: bytes::Bytes,
    /// Whether it carries something that the model wrote.
    pub token: bool,
    /// Whether it carries the usage and nothing else.
    pub only_usage: bool,
    /// Token counts that it reports.
    pub usage: Option<Usage>,
}

/// How an answer ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It is complete.
    Complete,
    /// It broke off; the entries say so as far as they can. The word is the fault's kind.
    Broken(&'static str),
}

#[derive(Debug)]
pub(super) struct Flight<H> {
    pub(super) key: Option<FlightKey>,
    pub(super) most: usize,
    pub(super) state: Mutex<State<H>>,
}

#[derive(Debug)]
pub(super) struct State<H> {
    pub(super) head: Option<Arc<H>>,
    pub(super) failed: Option<Box<Fault>>,
    /// Why another was called upon: what those who cannot take over are told, should nobody else be left.
    pub(super) cause: Option<Box<Fault>>,
    pub(super) log: VecDeque<Entry>,
    /// How many entries were dropped from the log's front.
    pub(super) dropped: usize,
    /// Bytes in the log.
    pub(super) bytes: usize,
    pub(super) end: Option<End>,
    /// By their numbers; `None` for those who left.
    pub(super) seats: Vec<Option<Seat>>,
    /// Whose request is on its way.
    pub(super) flying: Option<usize>,
    /// Who is to take over.
    pub(super) called: Option<usize>,
    pub(super) takeovers: u32,
    /// Nobody joins any more.
    pub(super) closed: bool,
    /// Wakes the pilot when there is room, or nobody is left.
    pub(super) pilot: Option<Waker>,
}

#[derive(Debug, Default)]
pub(super) struct Seat {
    /// How many entries it has read.
    pub(super) read: usize,
    pub(super) waker: Option<Waker>,
    /// Its own request was sent, and is not to be sent again.
    pub(super) sent: bool,
    /// Its own request failed in a way that concerns nobody else.
    pub(super) failed: Option<Box<Fault>>,
    pub(super) too_slow: bool,
}

impl<H> Flights<H> {
    /// None yet, with logs of at most so many bytes.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { table: DashMap::new(), most })
    }

    /// How many requests are shared, or may be.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether none is under way.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub(super) fn remove(&self, flight: &Arc<Flight<H>>) {
        if let Some(key) = &flight.key {
            self.table.remove_if(key, |_, known| Arc::ptr_eq(known, flight));
        }
    }
}

impl<H> Flight<H> {
    pub(super) fn new(key: Option<FlightKey>, most: usize) -> Arc<Self> {
        let state = State {
            head: None,
            failed: None,
            cause: None,
            log: VecDeque::new(),
            dropped: 0,
            bytes: 0,
            end: None,
            seats: Vec::new(),
            flying: None,
            called: None,
            takeovers: 0,
            closed: false,
            pilot: None,
        };
        Arc::new(Self { key, most, state: Mutex::new(state) })
    }

    /// A seat among those who read; `None` where nobody may join, or nobody has begun.
    pub(super) fn join(&self) -> Option<usize> {
        let mut state = lock(&self.state);
        if state.closed || state.seats.is_empty() {
            return None;
        }
        state.seats.push(Some(Seat::default()));
        Some(state.seats.len() - 1)
    }
}

impl<H> State<H> {
    pub(super) fn aboard(&self) -> impl Iterator<Item = (usize, &Seat)> {
        self.seats.iter().enumerate().filter_map(|(at, seat)| Some((at, seat.as_ref()?)))
    }

    pub(super) fn wake_all(&mut self) {
        self.seats.iter_mut().flatten().filter_map(|seat| seat.waker.take()).for_each(Waker::wake);
    }

    pub(super) fn wake_pilot(&mut self) {
        self.pilot.take().into_iter().for_each(Waker::wake);
    }

    /// Calls upon another to take over, whose own request was not sent yet; whether there is one.
    pub(super) fn call(&mut self) -> bool {
        self.flying = None;
        let other = self.aboard().find(|(_, seat)| !seat.sent).map(|(at, _)| at);
        self.called = other;
        let Some(called) = self.called else { return false };
        if let Some(seat) = &mut self.seats[called] {
            seat.waker.take().into_iter().for_each(Waker::wake);
        }
        true
    }

    /// Drops from the log what everybody has read.
    pub(super) fn trim(&mut self) {
        let slowest = self.aboard().filter(|(_, seat)| !seat.too_slow).map(|(_, seat)| seat.read).min();
        let slowest = slowest.unwrap_or(self.dropped + self.log.len());
        while self.dropped < slowest {
            let Some(entry) = self.log.pop_front() else { return };
            self.bytes -= entry.bytes.len();
            self.dropped += 1;
        }
    }
}
