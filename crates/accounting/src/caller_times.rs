//! Times of a finished request as its caller saw them, by route and by the source of its answer.

use signalbox_journal::JournalEntry;
use signalbox_telemetry::{Metrics, Source};
use signalbox_types::{Moment, Outcome};

/// Counts a finished request that had an answer, or the first token of one.
pub(super) fn count(metrics: &Metrics, entry: &JournalEntry, outcome: Outcome, now: Moment) {
    let Some(source) = source(entry) else { return };
    let is_complete = outcome == Outcome::Complete;
    let first = entry.ttft_ms.filter(|_| entry.stream);
    if !is_complete && first.is_none() {
        return;
    }
    let times = metrics.caller(entry.route.as_ref(), source);
    if let Some(first) = first {
        times.first_token(first / 1e3, now);
    }
    if is_complete {
        times.whole(entry.e2e_ms / 1e3, now);
    }
}

/// The source of an answer; `None` where there was none.
fn source(entry: &JournalEntry) -> Option<Source> {
    match entry.cache.as_ref().filter(|cache| cache.is_free()).map(|cache| cache.result) {
        Some("hit-exact") => Some(Source::Exact),
        Some("hit-semantic") => Some(Source::Semantic),
        Some("coalesced") => Some(Source::Coalesced),
        _ => entry.answered.map(|_| Source::Engine),
    }
}
