//! Gateways before the same engines exchange, through one Redis-compatible server, what each has under way there, and
//! which prompts were computed where: so the next turn of a conversation finds its beginning whichever gateway it comes
//! through. All of it are hints: no request waits for the server, and what is lost costs time at most.
//!
//! The prompts themselves are never sent, only hashes of their blocks, keyed with a secret of the group
//! (`placement.shared.key`) and encrypted.

#![forbid(unsafe_code)]

mod group;
mod member;
mod message;
mod seal;
mod session;

pub use self::group::PlacementGroup;
#[cfg(any(test, feature = "fuzzing"))]
pub use self::message::fuzz_placement;
