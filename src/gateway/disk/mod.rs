//! Kept answers on disk, where the policy asks for it: written as they are kept, deleted as they are forgotten, and read back in the
//! background at the start. Nobody who waits for an answer waits for any of it.

mod follow;
mod load;
mod off;
mod shelf;
mod state;

pub use self::{
    follow::keep_on_disk,
    state::{Disk, Loaded},
};
