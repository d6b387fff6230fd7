//! Goodput: the tokens of each attempt of a finished request, by the use of the engine's work.
//!
//! The tokens of a complete answer are good if it met all objectives of its pool and of its route (or these have none), and late if it missed
//! one. Those of attempts that failed through their engine are failed. All other tokens are wasted: attempts that lost against another attempt or were replaced by a larger model, and answers whose
//! client left. Background requests of the gateway have metrics of their own and do not count here.

use super::ErrorBudgets;
use signalbox_journal::{AttemptEntry, JournalEntry};
use signalbox_telemetry::{Metrics, Use};
use signalbox_types::{Moment, Outcome, Usage};

/// Counts the tokens of a finished request.
pub(super) fn count(
    (budgets, metrics): (&ErrorBudgets, &Metrics),
    entry: &JournalEntry,
    outcome: Outcome,
    now: Moment,
) {
    for (at, attempt) in entry.attempts.iter().enumerate() {
        let Some(usage) = computed(attempt) else { continue };
        let delivered = outcome == Outcome::Complete && entry.answered == Some(at);
        let of = match delivered {
            false if attempt.failed => Use::Failed,
            false => Use::Wasted,
            true if budgets.met_objectives(entry, &attempt.pool) => Use::Good,
            true => Use::Late,
        };
        // A pool that a reload removed has no metrics.
        if let Some(metrics) = metrics.known_pool(&attempt.pool) {
            metrics.work(usage.prompt_tokens, usage.completion_tokens, of, now);
        }
    }
}

/// Tokens that the engine computed for an attempt, without cached ones: its own count, else the gateway's estimate. `None` for an attempt that
/// failed before its first token. An attempt that was cancelled before its first token counts with its prompt.
fn computed(attempt: &AttemptEntry) -> Option<Usage> {
    let cancelled = [Outcome::ClientGone, Outcome::Outrun].map(Outcome::label);
    let was_cancelled = attempt.outcome.is_some_and(|outcome| cancelled.contains(&outcome));
    let predicted = &attempt.predicted;
    let prompt = || was_cancelled.then_some(Usage { prompt_tokens: predicted.prompt_tokens, ..Usage::default() });
    let usage = attempt.usage.or(attempt.uncounted).or_else(prompt)?;
    let cached = usage.cached_tokens.unwrap_or(predicted.cached_tokens);
    Some(Usage { prompt_tokens: usage.prompt_tokens.saturating_sub(cached), ..usage })
}
