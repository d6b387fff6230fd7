//! Facts about inference engines and providers. One [`Profile`] each, in a file of `profiles/`: to support another engine,
//! add a file there, and its fixtures under `tests/`.
//!
//! [`verdict()`] reads a refusal by the wordings of all profiles, because a proxy often hides which engine answers.
//! [`read_engine_signals`] reads a metrics page by the names of the profile that it belongs to.

#![forbid(unsafe_code)]

mod context_counts;
pub mod endpoint_evidence;
mod error_words;
mod general;
mod judge;
mod metrics;
mod model_list;
mod phrases;
mod profile;
mod profiles;
mod recognise;
mod refused;
mod verdict;

pub use self::{
    context_counts::{ContextCounts, context_counts},
    judge::{verdict, verdict_of_message},
    metrics::{Fold, Labels, MetricsPage, Pick, Sample, Signal, Take, samples},
    model_list::{ModelEntry, model_list},
    profile::{ControlWords, Flag, LoadedReport, Priority, Profile, Refusal, Signs, StartReport, UsageForm},
    profiles::PROFILES,
    recognise::{metrics_paths, read_engine_signals},
    verdict::Verdict,
};

#[cfg(any(test, feature = "fuzzing"))]
pub use self::judge::fuzz_refusal;
