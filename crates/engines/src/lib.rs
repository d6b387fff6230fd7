//! Facts about inference engines and providers. One [`Profile`] each, in a file of `profiles/`: to support another engine,
//! add a file there.
//!
//! [`verdict()`] reads a refusal by the wordings of all profiles, because a proxy often hides which engine answers.

#![forbid(unsafe_code)]

mod context_counts;
pub mod endpoint_evidence;
mod error_words;
mod general;
mod judge;
mod phrases;
mod profile;
mod profiles;
mod refused;
mod verdict;

pub use self::{
    context_counts::{ContextCounts, context_counts},
    judge::{verdict, verdict_of_message},
    profile::{Profile, Refusal},
    verdict::Verdict,
};

#[cfg(any(test, feature = "fuzzing"))]
pub use self::judge::fuzz_refusal;
