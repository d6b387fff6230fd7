//! How long an attempt may take until its answer begins.

use std::{future::Future, time::Duration};

use http::StatusCode;
use tokio::time::{Instant, timeout_at};

use crate::{
    policy::Timeouts,
    types::{Fault, Retry, fault::DEADLINE},
};

/// An answer that comes whole shows nothing until its last token; unless the policy limits it, it gets this long at least.
const WHOLE_ANSWER: Duration = Duration::from_mins(10);

/// The moment by which an attempt's answer must have begun.
#[derive(Copy, Clone)]
pub(super) struct Deadline {
    at: Instant,
    limit: Duration,
    /// Whether it is the request's own end, after which nothing more is tried.
    total: bool,
}

impl Deadline {
    /// The deadline of an attempt that begins now, for a request of this `age`.
    pub(super) fn new(timeouts: &Timeouts, streamed: bool, age: Duration) -> Self {
        let first = if streamed { timeouts.first_token } else { timeouts.first_token.max(WHOLE_ANSWER) };
        let left = timeouts.total.map(|total| total.saturating_sub(age));
        match (left, timeouts.total) {
            (Some(left), Some(limit)) if !streamed || left < first => {
                Self { at: Instant::now() + left, limit, total: true }
            }
            _ => Self { at: Instant::now() + first, limit: first, total: false },
        }
    }

    /// Awaits `work` until the deadline.
    pub(super) async fn bound<T>(self, work: impl Future<Output = T>) -> Result<T, Fault> {
        timeout_at(self.at, work).await.map_err(|_| self.missed())
    }

    fn missed(self) -> Fault {
        let seconds = self.limit.as_secs_f64();
        if self.total {
            let message = format!("no answer came within the {seconds} s that the route allows (timeouts.total)");
            return Fault { retry: Retry::Never, ..Fault::upstream(StatusCode::GATEWAY_TIMEOUT, DEADLINE, message) };
        }
        let message = format!("the backend gave no first token within {seconds} s (timeouts.first_token)");
        Fault::upstream(StatusCode::GATEWAY_TIMEOUT, "first_token_timeout", message)
    }
}
