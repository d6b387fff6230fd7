//! Live state of engines and backends: load, readings, breakers, learned speeds. It outlives a change of policy.

mod account;
mod breaker;
mod company;
mod credential;
mod drafts;
mod engine;
mod learned;
mod ledger;
mod load;
mod others;
mod outlook;
mod outputs;
mod place;
mod pool;
mod registry;
mod snapshot;
mod ticket;
pub mod way;

pub use account::Account;
pub use breaker::{Breaker, BreakerState, Failure};
pub use credential::{Credential, Refused};
pub use engine::{Contexts, Engine, Reading};
pub use learned::{Learned, PoolLearned};
pub use ledger::{Ledger, View, Work};
pub use load::Load;
pub use outlook::Outlook;
pub use outputs::PoolOutputs;
pub use place::{Ask, Placement, Scratch};
pub use pool::{Backend, Pool};
pub use registry::Registry;
pub use snapshot::Snapshot;
pub use ticket::{Forecast, Ticket};
