//! Traffic of our own making: second answers that are compared with the first, within what the policy lets them cost.
//!
//! It goes where there is room at once and nobody waits, never into a queue, and is counted apart from callers' requests.

mod agreement;
mod copy;
mod judge;
mod pairs;
mod request;

pub(super) use self::{
    pairs::Pairs,
    request::{BackgroundRequests, Origin},
};
