//! Recording of a finished request's usage: in the usage of its key by day and serving model, and in metrics.

use super::callers::Callers;
use signalbox_journal::{CacheResult, JournalEntry};
use signalbox_prompt::prefix_stability::CacheReport;
use signalbox_quota::{Entry, Spent, Used, calendar};
use signalbox_telemetry::KeyMetrics;
use signalbox_types::{Name, Outcome, wall_clock};

impl Callers {
    /// Records the usage of a finished request.
    pub(super) fn record_usage(&self, entry: &JournalEntry, team: Option<&Name>) {
        // Names of models that do not exist are dropped: clients could send any number of them.
        let model: Name = entry.model.as_deref().filter(|_| entry.route.is_some()).unwrap_or_default().into();
        let row = |served: Name| Entry {
            day: calendar::date(wall_clock::seconds()).to_string().into(),
            key: entry.key.clone().unwrap_or_default(),
            team: team.cloned().unwrap_or_default(),
            model: model.clone(),
            served,
        };
        let served = |upstream: &Option<Name>| upstream.clone().unwrap_or_else(|| model.clone());
        let mut estimated = Spent { usd: entry.uncounted.usd, ..entry.uncounted };
        for attempt in &entry.attempts {
            let Some(usage) = &attempt.usage else { continue };
            if attempt.usage_estimated {
                estimated.tokens = estimated.tokens.saturating_add(usage.total());
                estimated.usd += attempt.cost_usd.unwrap_or(0.0);
            } else {
                self.book.add(row(served(&attempt.upstream_model)), &Used::answer(usage, attempt.cost_usd));
            }
        }
        let request = Used {
            requests: 1,
            failed: u64::from(entry.outcome != Outcome::Complete.label()),
            reused: u64::from(entry.cache.as_ref().is_some_and(CacheResult::is_free)),
            estimated_tokens: estimated.tokens,
            cost_usd: estimated.usd,
            ..Used::default()
        };
        let last = entry.last().map(|attempt| served(&attempt.upstream_model));
        self.book.add(row(last.unwrap_or_default()), &request);
    }
}

/// Counts the usage of a finished request in metrics. The figures are those of [`Callers::record_usage`].
pub(super) fn count(entry: &JournalEntry, outcome: Outcome, metrics: &KeyMetrics) {
    metrics.request(outcome);
    for attempt in entry.attempts.iter().filter(|attempt| !attempt.usage_estimated) {
        let Some(usage) = &attempt.usage else { continue };
        metrics.usage(usage);
        if let Some(CacheReport { prompt, predicted, reported }) = attempt.hits() {
            metrics.prefix(prompt, predicted, reported);
        }
    }
    metrics.cost(entry.cost_usd.unwrap_or(0.0) + entry.uncounted.usd);
}
