//! What routes learn of their own traffic: labels from callers, and from conversations that ask again, become weights of a route's own for
//! scoring prompts, once held-out labels show that they are better; and the boundary between short and long prompts.

mod recent;
mod routes;
mod stored;
mod tier_learning;

pub(crate) use self::recent::Decided;
pub use self::{
    routes::Learning,
    stored::{StoreError, Stored, Tally},
    tier_learning::{RouteStatus, TierLearning},
};
