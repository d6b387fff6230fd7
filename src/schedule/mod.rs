//! Which backend: a pure function of what is known of each candidate; and what is learned for it: how long each will take, and
//! which prompts each holds in its cache; whether a request goes at all, waits, or goes twice; and which of a route's tiers serves it.
//! Nothing here reads a clock or draws lots, and the choice itself keeps no state.

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
pub use cost::{Around, cost};
