//! State that routes learn from their own traffic: weights that score the complexity of prompts, and the boundary between short and long prompts.
//!
//! Labels come from callers, from conversations that ask again, and from pairs of answers. A route uses its own weights once held-out labels
//! show that they are better.

#![forbid(unsafe_code)]

mod recent;
mod routes;
mod stored;
mod tier_learning;

pub use self::recent::TierDecision;
pub use self::{
    routes::Learning,
    stored::{LearningFile, LoadError, Tally},
    tier_learning::{RouteStatus, TierLearning},
};
