//! Background traffic of the gateway: second answers that are compared with the first, within the cost that the policy
//! allows.
//!
//! It is sent only if there is room at once and no request waits. It never enters a queue and is counted apart from
//! callers' requests.

mod agreement;
mod copy;
mod errand;
mod judge;
mod pairs;

pub(super) use self::{
    errand::{Errands, Origin},
    pairs::Pairs,
};
