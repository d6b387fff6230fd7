//! Kept answers of several gateways, shared through one server: records by their exact keys, which are looked for when there is none in
//! memory, and a stream of what is new by its text, which every gateway reads and indexes for itself. While the server is away, nobody waits
//! for it, and nobody hears of it.
//!
//! What is there is sealed with what the gateways have in common (`cache.shared.key`), which also names it: whoever can write to the
//! server, and does not know that, can make answers disappear, and never make one up. A key that the server itself made up and kept would
//! be known to all who can read there.

mod circle;
mod follow;
mod purge_record;
mod purges;
mod seal;
mod session;
mod state;

pub(super) use self::follow::share;
pub use self::{purge_record::fuzz_shared, state::Peers};
