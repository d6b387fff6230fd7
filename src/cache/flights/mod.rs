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

mod board;
mod flight;
mod passenger;
mod pilot;

pub use self::{
    flight::{End, Entry, FlightKey, Flights},
    passenger::{Begun, Next, Passenger},
    pilot::{Others, Pilot},
};

#[cfg(test)]
mod tests;
