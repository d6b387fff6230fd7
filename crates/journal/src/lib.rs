//! The journal: one entry for each finished request, with its features, candidates, choice and outcome; never a prompt or an answer.
//!
//! [`DecisionLog`] writes entries to the journal and the access log, and keeps the latest for the page and the admin API.
//! `recorded` has the same lines as their readers see them: `signalbox replay` and `signalbox top`.

#![forbid(unsafe_code)]

pub mod access_log;
mod attempt;
mod decision_log;
mod entry;
mod explained;
pub mod recorded;
mod routing_facts;

pub use self::entry::FORMAT;
pub use self::{
    access_log::AccessLog,
    attempt::{AttemptEntry, Predicted, WeighedCandidate},
    decision_log::{DecisionLog, REMEMBERED},
    entry::{Admission, CacheResult, CascadeResult, Counterfactual, JournalEntry, NearAnswer},
    explained::{Explained, LengthChosen, ScoredComplexity, SkippedRule, TierChosen},
    routing_facts::{BlockHashes, ComplexityScore, Hash, RoutingFacts},
};
