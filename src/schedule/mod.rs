//! Which backend: a pure function of what is known of each candidate. It reads no clock, draws no lots and keeps no state.

mod choose;
mod cost;

pub use choose::{Choice, Draw, Reason, choose};
