//! Offline evaluation tools, outside the serving path: the ranking of prompts by complexity, and the semantic cache replayed on labelled pairs.

#![forbid(unsafe_code)]

pub mod cache_eval;
pub mod cache_replay;
pub mod evaluate;
