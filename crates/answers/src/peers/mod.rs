//! Kept answers shared by several gateways through one Redis-compatible server: answers by exact key, which are looked up after a miss in
//! memory, and a stream of new semantic entries, which each gateway reads and indexes for itself. While the server is unreachable, lookups do
//! not wait for it and callers see no error.
//!
//! Values are authenticated, and keys are derived, with a secret of the group (`cache.shared.key`). An attacker who can write to the server
//! without the secret can delete answers but cannot forge one. The secret is not stored on the server, where all its readers would know it.

mod apply_policy;
mod envelope;
mod group;
mod purge_record;
mod purges;
mod session;
mod state;

pub(super) use self::apply_policy::share;
#[cfg(any(test, feature = "fuzzing"))]
pub use self::purge_record::fuzz_shared;
pub use self::state::Peers;
