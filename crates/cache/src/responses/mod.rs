//! Stored responses and conversations of the Responses API, for callers in front of backends that store nothing.
//!
//! | part | file |
//! |---|---|
//! | ids, and what they say | `id` |
//! | items, kept once for each owner | `item` |
//! | a Response object in pieces | `object` |
//! | the state of one owner | `space` |
//! | all owners, within a limit on bytes | `store` |
//! | lists of items, page by page | `list` |
//!
//! # Owners
//! State belongs to the caller's key. Every look-up names the owner, and another owner's state is as absent as state that
//! never was. Without keys there is one owner, `None`.
//!
//! # Histories
//! A response is stored with all items that led to it, not with a link to the response before it: each item is kept once
//! for an owner, so a turn costs its own new items and 16 bytes for every earlier one. Eviction or deletion of an earlier
//! response therefore never breaks a later one.
//!
//! # Eviction
//! Above the limit, the owner with the most bytes loses its least recently used state. An owner within an equal share of
//! the limit loses nothing to others.

#[cfg(any(test, feature = "fuzzing"))]
mod fuzz;
mod id;
mod item;
mod list;
mod object;
mod space;
mod store;

#[cfg(any(test, feature = "fuzzing"))]
pub use self::fuzz::fuzz_stored_responses;
pub use self::{
    id::{IdKind, StateId},
    item::Item,
    list::{Page, listed, named, own_id},
    object::NewResponse,
    space::{Conversation, StoredResponse},
    store::{Evicted, Owner, ResponseStore},
};
