//! Settlement of a finished request: each count is updated once.

use std::sync::Arc;

use http::StatusCode;

use super::{
    BackgroundBudget, CallerReservation, Callers, ErrorBudgets, PrefixStability, background_budget::RequestCost,
    caller_times, goodput, usage_record,
};
use signalbox_journal::JournalEntry;
use signalbox_measure::Rate;
use signalbox_policy::Policy;
use signalbox_telemetry::Metrics;
use signalbox_types::{Endpoint, Moment, Outcome, fault::STOPPED};

/// All accounts of finished requests. It outlives policies. Shared by reference between threads.
pub struct Accounting {
    /// Keys and teams: limits, budgets and usage.
    pub callers: Arc<Callers>,
    /// The error budgets of pools and routes.
    pub error_budgets: ErrorBudgets,
    /// Stability of callers' prompt prefixes.
    pub prefix_stability: PrefixStability,
    /// The budget of background requests.
    pub background: Arc<BackgroundBudget>,
    /// Finished requests per second.
    pub rate: Rate,
    metrics: Metrics,
}

/// A finished request.
pub struct FinishedRequest<'a> {
    /// Its line of the journal.
    pub entry: &'a JournalEntry,
    /// The endpoint that was called.
    pub endpoint: Endpoint,
    /// Its end.
    pub outcome: Outcome,
    /// The reservation on the limits of the request's caller, if the request has one.
    pub reservation: Option<&'a CallerReservation>,
    /// The time at which it ended.
    pub now: Moment,
}

impl Accounting {
    /// Empty accounts, which also count in `metrics`.
    pub fn new(metrics: Metrics) -> Self {
        Self {
            callers: Arc::default(),
            error_budgets: ErrorBudgets::default(),
            prefix_stability: PrefixStability::default(),
            background: Arc::default(),
            rate: Rate::new(),
            metrics,
        }
    }

    /// Applies the objectives and the background budget of another policy.
    pub fn apply_policy(&self, policy: &Policy, now: Moment) {
        self.error_budgets.apply_policy(policy, now);
        self.background.apply_policy(policy.background.as_ref());
    }

    /// Counts a finished request.
    pub fn settle(&self, finished: &FinishedRequest<'_>) {
        let FinishedRequest { entry, endpoint, outcome, reservation, now } = *finished;
        let cost = RequestCost::total(&entry.attempts);
        if let Some(purpose) = entry.background {
            self.background.spend(cost);
            self.metrics.background(purpose, outcome, cost.tokens, cost.dollars);
            return;
        }
        self.callers.record_usage(entry, reservation.and_then(CallerReservation::team));
        let of_key = reservation.map_or_else(|| self.metrics.keyless(), CallerReservation::metrics);
        usage_record::count(entry, outcome, of_key);
        self.prefix_stability.record_hits(entry);
        self.background.earn(cost);
        self.metrics.request(Some(endpoint), entry.route.as_ref(), status(entry, outcome), outcome);
        if outcome == Outcome::ClientGone {
            self.metrics.client_gone(entry.stage);
        }
        self.error_budgets.settle(entry, outcome, now);
        goodput::count((&self.error_budgets, &self.metrics), entry, outcome, now);
        caller_times::count(&self.metrics, entry, outcome, now);
        self.rate.record(1, now);
    }
}

/// The status that is counted. A client that left before there was an answer never saw one: 499, as nginx logs it.
fn status(entry: &JournalEntry, outcome: Outcome) -> StatusCode {
    let unseen = match outcome {
        Outcome::Failed(STOPPED) => 503,
        Outcome::Failed(_) => 500,
        _ => 499,
    };
    StatusCode::from_u16(if entry.status == 0 { unseen } else { entry.status }).unwrap_or_default()
}
