//! Kept answers, with the cache's I/O: by exact key and by meaning in memory, on disk, and shared between gateways.

mod exact;
mod kept;
mod local;
mod peers;
mod persist;
mod semantic;
mod semantic_lookup;
mod semantic_store;
mod warm_start;

pub use self::{
    exact::AnswerCache,
    kept::Answers,
    local::LocalAnswers,
    peers::{Peers, fuzz_shared},
    persist::{Disk, Loaded},
    semantic::SemanticAnswers,
};
pub(crate) use self::{
    exact::Head,
    semantic::Said,
    semantic_lookup::{Hit, Looked, Pending, Sought, look},
    semantic_store::{Answered, keep, learn, verify},
};
