//! Which backend: a pure function of what is known of each candidate, which reads no clock, draws no lots and keeps no state;
//! and, as one of the things that are known, which prompts each holds in its cache.

mod choose;
mod cost;
pub mod prefix;

pub use choose::{Choice, Draw, Reason, choose};
