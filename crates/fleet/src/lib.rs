//! Live state of engines and backends: load, readings, breakers, learned speeds. It outlives a change of policy.

#![forbid(unsafe_code)]

mod account;
mod breaker;
mod by_holder;
mod computed_prompts;
mod credential;
mod engine;
mod external_prompts;
mod external_requests;
mod learned;
mod ledger;
mod load;
mod load_time;
mod outputs;
mod peer_load;
mod place;
mod pool;
mod pool_forecast;
mod refused_endpoints;
mod registry;
mod resident;
mod room;
pub mod route_selection;
mod served_apis;
mod shortlist;
mod snapshot;
mod speculative_decoding;
mod ticket;

pub use account::Account;
pub use breaker::{Breaker, BreakerState, Failure};
pub use computed_prompts::{BackendKey, ComputedPrompt, EngineKey, Outbox};
pub use credential::{Credential, Refused};
pub use engine::{Contexts, Engine, Reading};
pub use learned::{Learned, PoolLearned};
pub use ledger::{Ledger, View, Work};
pub use load::Load;
pub use load_time::LoadTime;
pub use outputs::PoolOutputs;
pub use peer_load::EngineLoad;
pub use place::{Placement, PlacementQuery, Scratch};
pub use pool::{Backend, Pool};
pub use pool_forecast::PoolForecast;
pub use refused_endpoints::LeftOut;
use refused_endpoints::{RefusalEvidence, RefusedEndpoints};
pub use registry::Registry;
pub use resident::EngineModels;
use room::Room;
pub use served_apis::{ApiChange, MissingApi, ServedApis};
pub use snapshot::Snapshot;
pub use ticket::{Forecast, Ticket};
