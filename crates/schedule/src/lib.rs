//! Scheduling decisions as pure functions of the known state of each candidate: the choice of a backend, predictions of
//! latency and answer length, the index of cached prefixes, admission, retries and hedges, and the choice of a tier.
//! Nothing here reads a clock or draws random numbers, and the choice itself keeps no state.

#![forbid(unsafe_code)]

pub mod admission;
pub mod affinity;
pub mod boundary;
pub mod budget;
mod choose;
mod cost;
pub mod hedge;
pub mod predict;
pub mod prefix;
pub mod retry;
pub mod spill;
pub mod tiers;

pub use choose::{Choice, Draw, Reason, choose};
pub use cost::cost;
