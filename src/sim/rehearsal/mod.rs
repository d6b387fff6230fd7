//! A policy rehearsed on a journal: engines are learned from what the journal saw of them, and the requests that came are played again
//! by the policy's own rules, on the simulation's clock.

mod ask;
mod entry;
mod fit;
mod line;
mod observe;
mod play;
mod read;
mod tally;
mod traveller;
mod trial;

pub use self::{
    ask::{Unknown, unknown},
    entry::{Entries, Entry},
    fit::{Error, FEWEST, Learned, learn},
    observe::{Seen, Watched, watch},
    play::{Play, Played, recorded},
    read::Journal,
    tally::{End, Ended, Limits, Tally},
    traveller::Missing,
};
