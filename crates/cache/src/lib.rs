//! Answer cache: decides which requests may share an answer, which stored one is close enough, and with what
//! confidence.
//!
//! Nothing here does I/O, starts a task or reads a clock. Embedders and record stores are implemented above, behind
//! traits.

#![forbid(unsafe_code)]

pub mod codec;
pub mod confidence;
mod directives;
pub mod eligible;
mod embedder;
pub mod evidence;
mod exact;
pub mod guard;
pub mod index;
mod key;
mod normal;
mod record;
pub mod responses;
pub mod semantic;
pub mod single_flight;
mod tags;

#[cfg(any(test, feature = "fuzzing"))]
pub use self::directives::fuzz_directives;
pub use self::{
    directives::{Directives, InvalidDirective, SharingLimit},
    eligible::Bypass,
    embedder::{EmbedError, Embedder},
    exact::{Eviction, ExactCache, Found, Missing, Purge},
    key::{CompatKey, ExactKey, KeyParts, Keys, ScopeId},
    normal::normal,
    record::{Kept, Origin, Record},
    tags::Tags,
};
