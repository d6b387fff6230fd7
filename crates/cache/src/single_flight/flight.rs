//! A shared request: its log and its readers.

use std::{collections::VecDeque, sync::Arc, task::Waker};

use parking_lot::Mutex;

use dashmap::DashMap;

use crate::key::ExactKey;
use signalbox_types::{Fault, Usage};

/// Key of requests that may share: identical, in the same form, for the same backends.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlightKey {
    /// Key of the request.
    pub key: ExactKey,
    /// True for a streamed answer.
    pub stream: bool,
    /// Hash over the backends whose answers are acceptable.
    pub acceptable: u64,
}

/// Requests under way and their readers. `H` is the head of an answer.
#[derive(Debug)]
pub struct SingleFlight<H> {
    pub(super) table: DashMap<FlightKey, Arc<Flight<H>>>,
    /// Limit on the bytes of a log.
    pub(super) most: usize,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The part's bytes as received.
    pub bytes: bytes::Bytes,
    /// True if the part carries model output.
    pub token: bool,
    /// True if the part carries only the usage.
    pub only_usage: bool,
    /// Token counts that the part reports.
    pub usage: Option<Usage>,
}

/// End of an answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The answer is complete.
    Complete,
    /// The answer broke off; the entries say so as far as they can. Holds the kind of the fault.
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
    /// Fault that caused the last takeover: returned to readers that cannot take over, should no other be left.
    pub(super) cause: Option<Box<Fault>>,
    pub(super) log: VecDeque<Entry>,
    /// Entries dropped from the front of the log.
    pub(super) dropped: usize,
    /// Bytes in the log.
    pub(super) bytes: usize,
    pub(super) end: Option<End>,
    /// Readers by number; `None` for those that left.
    pub(super) slots: Vec<Option<Slot>>,
    /// Reader whose request is under way.
    pub(super) leading: Option<usize>,
    /// Reader that is to take over.
    pub(super) called: Option<usize>,
    pub(super) takeovers: u32,
    /// True if no further reader may join.
    pub(super) closed: bool,
    /// Wakes the leader's writer when there is room, or no reader is left.
    pub(super) leader: Option<Waker>,
}

#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Number of entries read.
    pub(super) read: usize,
    pub(super) waker: Option<Waker>,
    /// True if the reader's own request was sent and must not be sent again.
    pub(super) sent: bool,
    /// Failure of the reader's own request that concerns no other reader.
    pub(super) failed: Option<Box<Fault>>,
    pub(super) too_slow: bool,
}

impl<H> SingleFlight<H> {
    /// Creates an empty table with logs of at most `most` bytes.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { table: DashMap::new(), most })
    }

    /// Number of requests that are or may be shared.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// True if no request is under way.
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
            slots: Vec::new(),
            leading: None,
            called: None,
            takeovers: 0,
            closed: false,
            leader: None,
        };
        Arc::new(Self { key, most, state: Mutex::new(state) })
    }

    /// Adds a reader. Returns `None` if none may join or the request has no reader.
    pub(super) fn add_reader(&self) -> Option<usize> {
        let mut state = self.state.lock();
        if state.closed || state.slots.is_empty() {
            return None;
        }
        state.slots.push(Some(Slot::default()));
        Some(state.slots.len() - 1)
    }
}

impl<H> State<H> {
    pub(super) fn readers(&self) -> impl Iterator<Item = (usize, &Slot)> {
        self.slots.iter().enumerate().filter_map(|(at, slot)| Some((at, slot.as_ref()?)))
    }

    pub(super) fn wake_all(&mut self) {
        self.slots.iter_mut().flatten().filter_map(|slot| slot.waker.take()).for_each(Waker::wake);
    }

    pub(super) fn wake_leader(&mut self) {
        self.leader.take().into_iter().for_each(Waker::wake);
    }

    /// Calls on another reader, whose own request was not sent yet, to take over. Returns false if there is none.
    pub(super) fn call(&mut self) -> bool {
        self.leading = None;
        let other = self.readers().find(|(_, slot)| !slot.sent).map(|(at, _)| at);
        self.called = other;
        let Some(called) = self.called else { return false };
        if let Some(slot) = &mut self.slots[called] {
            slot.waker.take().into_iter().for_each(Waker::wake);
        }
        true
    }

    /// Drops entries that all readers have read.
    pub(super) fn trim(&mut self) {
        let slowest = self.readers().filter(|(_, slot)| !slot.too_slow).map(|(_, slot)| slot.read).min();
        let slowest = slowest.unwrap_or(self.dropped + self.log.len());
        while self.dropped < slowest {
            let Some(entry) = self.log.pop_front() else { return };
            self.bytes -= entry.bytes.len();
            self.dropped += 1;
        }
    }
}
