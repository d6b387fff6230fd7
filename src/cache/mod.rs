//! Answers that are given again: which requests may share one, which one is near enough, and how sure that is.
//!
//! Nothing here does I/O, starts a task or reads a clock. What makes vectors and what stores records stand above, behind traits.

pub mod codec;
pub mod confidence;
mod directives;
pub mod eligible;
mod embedder;
pub mod evidence;
mod exact;
pub mod flights;
pub mod guard;
pub mod index;
mod kept;
mod key;
mod record;
pub mod semantic;
mod tags;

pub use self::{
    directives::{Directives, Misread, Most, fuzz_directives},
    eligible::Bypass,
    embedder::{EmbedError, Embedder},
    exact::{Eviction, ExactCache, Found, Missing, Purge, SHARDS},
    kept::Kept,
    key::{Asked, CompatKey, ExactKey, Keys, ScopeId},
    record::{Origin, Record},
    tags::Tags,
};
