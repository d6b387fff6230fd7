//! Single flight: identical concurrent requests share one. Its answer is written into a log, which every reader reads
//! at its own pace.
//!
//! The first request leads; a [`Leader`] carries it and writes the log. Later ones follow from the log's first
//! entry. The log is bounded. Once it is full, no further reader may join, entries that all have read are dropped, and
//! the writer waits for the slowest reader only while all are behind. A reader that delays one that has read everything
//! is cut off instead. When the last reader leaves, the writer is notified and the request is cancelled.
//!
//! A leader that fails before the answer has begun is replaced: another reader's request takes its place, a bounded
//! number of times.

mod flight;
mod leader;
mod reader;

use std::sync::Arc;

use self::flight::{Flight, Slot};
pub use self::{
    flight::{End, Entry, FlightKey, SingleFlight},
    leader::{Leader, Others},
    reader::{Next, Reader, Start},
};

impl<H> SingleFlight<H> {
    /// Joins the followers of an identical request, or leads with a writer for the caller to run.
    pub fn join(self: &Arc<Self>, key: FlightKey) -> (Reader<H>, Option<Leader<H>>) {
        let mut flight = self.table.entry(key).or_insert_with(|| Flight::new(Some(key), self.most));
        if let Some(slot) = flight.add_reader() {
            return (self.reader(&flight, slot), None);
        }
        *flight = Flight::new(Some(key), self.most);
        self.lead(&flight)
    }

    /// Leads a request that no other may join.
    pub fn alone(self: &Arc<Self>) -> (Reader<H>, Option<Leader<H>>) {
        self.lead(&Flight::new(None, self.most))
    }

    fn lead(self: &Arc<Self>, flight: &Arc<Flight<H>>) -> (Reader<H>, Option<Leader<H>>) {
        let mut state = flight.state.lock();
        state.slots.push(Some(Slot { sent: true, ..Slot::default() }));
        state.leading = Some(0);
        drop(state);
        let leader = Leader { flight: flight.clone(), flights: Arc::downgrade(self), over: false };
        (self.reader(flight, 0), Some(leader))
    }

    fn reader(self: &Arc<Self>, flight: &Arc<Flight<H>>, slot: usize) -> Reader<H> {
        Reader { flight: flight.clone(), flights: Arc::downgrade(self), slot }
    }
}

#[cfg(test)]
mod tests;
