//! Gateways before the same engines exchange, through one Redis-compatible server, which prompts were computed where, so that the next turn of a conversation finds its beginning whichever gateway it comes through. All of it are
//! hints: nothing waits for the server, and what is lost costs a cache hit at most.
//!
//! The prompts themselves are never sent, only hashes of their blocks, keyed with a secret of the group
//! (`placement.shared.key`) and encrypted.

mod group;
mod member;
mod message;
mod seal;
mod session;

pub use self::{group::PlacementGroup, message::fuzz_placement};
