//! Background traffic of the gateway: second answers that are compared with the first, within the cost that the policy
//! allows.
//!
//! It is sent only if there is room at once and no request waits. It never enters a queue and is counted apart from
//! callers' requests.

mod agreement;
mod copy;
mod judge;
mod pairs;
mod request;

pub(super) use self::{
    pairs::Pairs,
    request::{BackgroundRequests, Origin},
};
