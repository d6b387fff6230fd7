//! The engines and backends as they live: what is under way on each, what they said of themselves, what was learned of them.
//! It outlives a change of policy.

mod breaker;
mod engine;
mod pool;
mod registry;
mod snapshot;
mod ticket;

pub use breaker::Breaker;
pub use engine::{Engine, Load, Reading};
pub use pool::{Backend, Pool};
pub use registry::{Learned, Registry};
pub use snapshot::Snapshot;
pub use ticket::Ticket;
