//! What a request that is over used, as the book of usage has it, each answer by the model that gave it, and as metrics have it.

use std::sync::atomic::Ordering::Relaxed;

use super::callers::Callers;
use crate::{
    journal::{JournalEntry, Reused},
    prompt::prefix_stability::CacheReport,
    quota::{Entry, Spent, Used, calendar},
    telemetry::KeyMetrics,
    types::{Name, Outcome, wall_clock},
};

impl Callers {
    /// Notes what a request used that is over.
    pub(crate) fn note(&self, line: &JournalEntry, team: Option<&Name>) {
        if !self.notes.load(Relaxed) {
            return;
        }
        // What does not exist is named in endless ways.
        let model: Name = line.model.as_deref().filter(|_| line.route.is_some()).unwrap_or_default().into();
        let entry = |served: Name| Entry {
            day: calendar::date(wall_clock::seconds()).to_string().into(),
            key: line.key.clone().unwrap_or_default(),
            team: team.cloned().unwrap_or_default(),
            model: model.clone(),
            served,
        };
        let served = |upstream: &Option<Name>| upstream.clone().unwrap_or_else(|| model.clone());
        let mut estimated = Spent { usd: line.uncounted.usd, ..line.uncounted };
        for attempt in &line.attempts {
            let Some(usage) = &attempt.usage else { continue };
            if attempt.usage_estimated {
                estimated.tokens = estimated.tokens.saturating_add(usage.total());
                estimated.usd += attempt.cost_usd.unwrap_or(0.0);
            } else {
                self.book.add(entry(served(&attempt.upstream_model)), &Used::answer(usage, attempt.cost_usd));
            }
        }
        let request = Used {
            requests: 1,
            failed: u64::from(line.outcome != Outcome::Complete.label()),
            reused: u64::from(line.reused.as_ref().is_some_and(Reused::is_free)),
            estimated_tokens: estimated.tokens,
            cost_usd: estimated.usd,
            ..Used::default()
        };
        let last = line.last().map(|attempt| served(&attempt.upstream_model));
        self.book.add(entry(last.unwrap_or_default()), &request);
    }
}

/// Counts what a request used that is over, for metrics: the same as in the book, whether or not that is kept.
pub(crate) fn count(line: &JournalEntry, outcome: Outcome, metrics: &KeyMetrics) {
    metrics.request(outcome);
    for attempt in line.attempts.iter().filter(|attempt| !attempt.usage_estimated) {
        let Some(usage) = &attempt.usage else { continue };
        metrics.usage(usage);
        if let Some(CacheReport { prompt, predicted, reported }) = attempt.hits() {
            metrics.prefix(prompt, predicted, reported);
        }
    }
    metrics.cost(line.cost_usd.unwrap_or(0.0) + line.uncounted.usd);
}
