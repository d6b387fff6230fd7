//! Equal requests that are under way at once share one: what its answer brings is written into a log, and everybody reads from there at
//! a pace of their own.
//!
//! Whoever comes first leads; their request is carried by a [`Pilot`], which writes. Those who come later begin with the log's first
//! entry. The log is bounded: once it is full, nobody joins any more, what all have read is dropped, and the pilot waits for the slowest
//! only while everybody is behind. One who holds up somebody who has read everything is put off instead. When the last one leaves, the
//! pilot is told, and with it goes the request.
//!
//! A pilot that fails before the answer has begun is replaced: another passenger's request takes its place, a bounded number of times.

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
