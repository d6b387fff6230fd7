//! Plain vocabulary shared by all rooms: calls, faults, outcomes, usage, prices, tokens, engine signals and time.

#![forbid(unsafe_code)]

pub mod aim;
pub mod answer_model;
pub mod base_path;
pub mod candidate;
pub mod check;
pub mod clock;
pub mod complexity;
pub mod encoding;
pub mod endpoint;
pub mod engine_api;
pub mod engine_id;
pub mod fault;
pub mod gaps;
pub mod model_glob;
pub mod money;
pub mod object;
pub mod outcome;
pub mod outline;
mod overload;
pub mod part;
pub mod prompt;
pub mod redis_server;
pub mod signals;
pub mod tokens;
pub mod usage;
pub mod wall_clock;

pub use aim::Aim;
pub use answer_model::AnswerModel;
pub use candidate::{Candidate, Strategy};
pub use check::{Check, Checks};
pub use clock::{Clock, Moment};
pub use complexity::{Complexity, Contribution};
pub use encoding::Encoding;
pub use endpoint::Endpoint;
pub use engine_api::{EngineApi, Presence};
pub use engine_id::{EngineId, Payer};
pub use fault::{Blame, Fault, Retry};
pub use gaps::Gaps;
pub use model_glob::ModelGlob;
pub use money::{Price, dollars};
pub use outcome::Outcome;
pub use outline::{Effort, Outline};
pub use overload::Overload;
pub use part::{Head, HeadEnd, Located, Part};
pub use prompt::{Layout, Passage, Prompt};
pub use redis_server::{ClientTls, RedisAddressError, RedisLogin, RedisServer, RedisTopology};
pub use signals::{Drafted, Drafting, EngineKind, EngineSignals, GpuSignals};
pub use tokens::Tokens;
pub use usage::Usage;

/// A cheaply cloned, shared name (of a pool, a backend, an engine, a model).
pub type Name = std::sync::Arc<str>;
