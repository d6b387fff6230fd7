//! Kept answers, with the cache's I/O: by exact key and by meaning in memory, on disk, and shared between gateways.

#![forbid(unsafe_code)]

mod exact;
mod kept;
mod local;
mod peers;
mod persist;
mod semantic;
mod semantic_lookup;
mod semantic_store;
mod warm_start;

#[cfg(any(test, feature = "fuzzing"))]
pub use self::peers::fuzz_shared;
pub use self::{
    exact::AnswerCache,
    kept::Answers,
    local::LocalAnswers,
    peers::Peers,
    persist::{DiskAnswers, WarmStartCounts},
    semantic::SemanticAnswers,
};
pub use self::{
    exact::Head,
    semantic::HitLabel,
    semantic_lookup::{Hit, LookupOutcome, Miss, PendingEntry, SemanticQuery, eligible_text, lookup_semantic},
    semantic_store::{EngineAnswer, record_label, store_semantic, verify_hit},
};
