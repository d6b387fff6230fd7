//! The metrics of one caller: its requests, its tokens and what they cost, and how often its prompts left what engines may have cached.

use prometheus_client::metrics::counter::Counter;

use super::{
    backend::{Dollars, MOST_OUTCOMES, count, count_prefix, count_tokens},
    series::Series,
};
use crate::types::{Outcome, Usage};

/// What callers without a key are counted under.
pub const NOBODY: &str = "none";

/// The metrics of one caller.
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

    /// Counts the tokens of an answer, as its engine counted them.
    pub fn usage(&self, usage: &Usage) {
        count_tokens(&self.tokens, usage);
    }

    /// Adds what a request cost, in US dollars.
    pub fn cost(&self, usd: f64) {
        if usd.is_finite() && usd > 0.0 {
            self.cost.inc_by(usd);
        }
    }

    /// Counts a prompt that departed early from those before it, in the part of this name.
    pub fn prefix_change(&self, part: &'static str) {
        count(&self.prefix_changes, part);
    }

    /// An answer to a prompt of so many tokens reported how many of them were cached, where so many had been `predicted`.
    pub fn prefix(&self, prompt: u64, predicted: u64, reported: u64) {
        count_prefix(&self.prefix, prompt, predicted, reported);
    }

    /// Whether anything was counted.
    pub(super) fn is_used(&self) -> bool {
        !self.requests.read().is_empty()
    }
}
