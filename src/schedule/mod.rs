//! Which backend: a pure function of what is known of each candidate, and what is learned of how long it will take. Nothing
//! here reads a clock or draws lots, and the choice itself keeps no state.

mod choose;
mod cost;
pub mod predict;

pub use choose::{Choice, Draw, Reason, choose};
