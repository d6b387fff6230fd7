//! What of engines' work was of use: the tokens of each attempt at a request that is over, by what came of them.
//!
//! What a complete answer took is good where it kept all objectives of its pool and of its route, and so where these have none; it is late where
//! it missed one. What everything else took is wasted: attempts that failed, were outrun or given up for a larger model's, and answers whose
//! client left. Requests of the gateway's own making are in their own metrics, and here they do not count.

use super::ErrorBudgets;
use crate::{
    journal::{AttemptEntry, JournalEntry},
    telemetry::{Metrics, Use},
    types::{Moment, Outcome, Usage},
};

/// Counts the work for a request that is over.
pub(crate) fn count((budgets, metrics): (&ErrorBudgets, &Metrics), line: &JournalEntry, outcome: Outcome, now: Moment) {
    for (at, attempt) in line.attempts.iter().enumerate() {
        let Some(usage) = taken(attempt) else { continue };
        let delivered = outcome == Outcome::Complete && line.answered == Some(at);
        let of = match delivered {
            false => Use::Wasted,
            true if budgets.in_time(line, &attempt.pool) => Use::Good,
            true => Use::Late,
        };
        // A pool that a reload took away has nothing to count with.
        if let Some(metrics) = metrics.known_pool(&attempt.pool) {
            metrics.work(usage.prompt_tokens, usage.completion_tokens, of, now);
        }
    }
}

/// What an attempt took of its engine, but for what was cached: of both what that has counted, else our estimate. One that failed before its first
/// token took nothing that anybody knows of; one that was left or outrun before it took its prompt.
fn taken(attempt: &AttemptEntry) -> Option<Usage> {
    let left = [Outcome::ClientGone, Outcome::Outrun].map(Outcome::label);
    let was_left = attempt.outcome.is_some_and(|outcome| left.contains(&outcome));
    let predicted = &attempt.predicted;
    let unread = || was_left.then_some(Usage { prompt_tokens: predicted.prompt_tokens, ..Usage::default() });
    let usage = attempt.usage.or(attempt.uncounted).or_else(unread)?;
    let cached = usage.cached_tokens.unwrap_or(predicted.cached_tokens);
    Some(Usage { prompt_tokens: usage.prompt_tokens.saturating_sub(cached), ..usage })
}
