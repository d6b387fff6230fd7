//! How long a request may take until its answer begins, whoever gives it.

use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;

use crate::{
    policy::Timeouts,
    types::{Fault, Retry, fault::DEADLINE},
};

/// How long a request without a limit of its own is waited for: where nobody else is left to ask, an answer that comes late is
/// better than none, but one that has not begun by then never will.
const LONGEST: Duration = Duration::from_mins(10);

/// The moment by which a request's answer must have begun.
#[derive(Copy, Clone)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    limit: Duration,
    /// Whether it is the limit that the policy sets.
    total: bool,
}

impl Deadline {
    /// The deadline of a request of this `age`.
    pub(super) fn new(timeouts: &Timeouts, age: Duration) -> Self {
        let limit = timeouts.total.unwrap_or(LONGEST);
        Self { at: Instant::now() + limit.saturating_sub(age), limit, total: timeouts.total.is_some() }
    }

    /// What to tell when it has passed.
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
