//! Metrics of one route's cascade: results of the smaller model's answers, and the cost of discarded ones.

use prometheus_client::metrics::counter::Counter;

use super::{
    backend::{Dollars, count},
    series::Series,
};
use signalbox_types::Usage;

/// Metrics of one route's cascade.
#[derive(Debug)]
pub struct CascadeMetrics {
    pub(super) results: Series<&'static str, Counter>,
    pub(super) tokens: Series<&'static str, Counter>,
    pub(super) cost: Dollars,
}

impl CascadeMetrics {
    pub(super) fn new() -> Self {
        Self { results: Series::new(5), tokens: Series::new(2), cost: Dollars::default() }
    }

    /// Counts the result for an answer.
    pub fn result(&self, result: &'static str) {
        count(&self.results, result);
    }

    /// Counts an answer that was discarded for a larger model's; `usd` is its cost in US dollars, where prices are
    /// known.
    pub fn discarded(&self, usage: &Usage, usd: Option<f64>) {
        for (kind, tokens) in [("prompt", usage.prompt_tokens), ("completion", usage.completion_tokens)] {
            self.tokens.get(kind, |kind| kind, |_| Counter::default()).inc_by(tokens);
        }
        if let Some(usd) = usd.filter(|usd| usd.is_finite() && *usd > 0.0) {
            self.cost.inc_by(usd);
        }
    }
}
