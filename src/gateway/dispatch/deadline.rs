//! Deadline for the beginning of an answer, over all attempts at a request.

use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;

use crate::{
    policy::Timeouts,
    types::{Fault, Retry, fault::DEADLINE},
};

/// Limit for a request whose route sets none. If no other backend is left, a late answer is better than none, but one
/// that has not begun by then never will.
const LONGEST: Duration = Duration::from_mins(10);

/// Moment by which an answer must have begun.
#[derive(Copy, Clone)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    limit: Duration,
    /// True if the policy sets the limit.
    total: bool,
}

impl Deadline {
    /// Computes the deadline of a request of this `age`.
    pub(super) fn new(timeouts: &Timeouts, age: Duration) -> Self {
        let limit = timeouts.total.unwrap_or(LONGEST);
        Self { at: Instant::now() + limit.saturating_sub(age), limit, total: timeouts.total.is_some() }
    }

    /// Fault for a missed deadline.
    pub(super) fn missed(self) -> Fault {
        let seconds = self.limit.as_secs_f64();
        let (kind, message) = if self.total {
            (DEADLINE, format!("no answer came within the {seconds} s that the route allows (timeouts.total)"))
        } else {
            ("first_token_timeout", format!("no backend gave a first token within {seconds} s"))
        };
        Fault { retry: Retry::Never, ..Fault::upstream(StatusCode::GATEWAY_TIMEOUT, kind, message) }
    }
}
