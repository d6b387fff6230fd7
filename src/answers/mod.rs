//! Kept answers, with all that does I/O for the cache: in memory, by their meaning, on disk, and shared between gateways.

mod exact;
mod kept;
mod local;
mod peer_keys;
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
