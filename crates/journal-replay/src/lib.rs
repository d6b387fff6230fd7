//! Replay of a journal under another policy: learns each engine from the attempts that the journal has of it, and plays the recorded
//! requests by the policy's own rules on the simulation's clock.

#![forbid(unsafe_code)]

mod entry;
mod fit;
mod observe;
mod play;
mod read;
mod replayed_request;
mod tally;
mod trial;
mod unrecorded;

pub use self::{
    entry::Entries,
    fit::{Error, Learned, MIN_ANSWERS, learn},
    observe::{Watched, watch},
    play::{Play, Played, recorded},
    read::Journal,
    replayed_request::Missing,
    tally::Tally,
    unrecorded::unrecorded,
};
