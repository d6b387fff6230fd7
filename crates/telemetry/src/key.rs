//! Metrics of one caller: requests, tokens, cost, and prompts that abandoned a cached prefix.

use prometheus_client::metrics::counter::Counter;

use super::{
    backend::{Dollars, MOST_OUTCOMES, count, count_prefix, count_tokens},
    series::Series,
};
use signalbox_types::{Outcome, Usage};

/// Label of callers without a key.
pub const NO_KEY: &str = "none";

/// Metrics of one caller.
#[derive(Debug)]
pub struct KeyMetrics {
    pub(super) requests: Series<&'static str, Counter>,
    pub(super) tokens: Series<&'static str, Counter>,
    pub(super) cost: Dollars,
    pub(super) prefix_changes: Series<&'static str, Counter>,
    pub(super) prefix: Series<&'static str, Counter>,
}

impl KeyMetrics {
    pub(super) fn new() -> Self {
        Self {
            requests: Series::new(MOST_OUTCOMES),
            tokens: Series::new(4),
            cost: Dollars::default(),
            prefix_changes: Series::new(4),
            prefix: Series::new(3),
        }
    }

    /// Counts a request that ended.
    pub fn request(&self, outcome: Outcome) {
        count(&self.requests, outcome.label());
    }

    /// Counts an answer's tokens, as its engine reported them.
    pub fn usage(&self, usage: &Usage) {
        count_tokens(&self.tokens, usage);
    }

    /// Adds the cost of a request, in US dollars.
    pub fn cost(&self, usd: f64) {
        if usd.is_finite() && usd > 0.0 {
            self.cost.inc_by(usd);
        }
    }

    /// Counts a prompt that diverged early from previous ones, in the named part.
    pub fn prefix_change(&self, part: &'static str) {
        count(&self.prefix_changes, part);
    }

    /// Counts the cached tokens of an answer to a prompt of `prompt` tokens: as `predicted` and as `reported`.
    pub fn prefix(&self, prompt: u64, predicted: u64, reported: u64) {
        count_prefix(&self.prefix, prompt, predicted, reported);
    }

    /// True if anything was counted.
    pub(super) fn is_used(&self) -> bool {
        !self.requests.read().is_empty()
    }
}
