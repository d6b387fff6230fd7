//! Offline evaluation tools, outside the serving path: the ranking of prompts by complexity, and the semantic cache replayed on labelled pairs.

pub(crate) mod cache_eval;
pub mod cache_replay;
pub mod evaluate;
