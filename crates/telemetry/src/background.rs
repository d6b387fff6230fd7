//! Metrics of background requests that the gateway itself sends: purpose, cost, and results of answer pairs.

use prometheus_client::metrics::counter::Counter;
use serde::Serialize;

use super::{
    backend::{Dollars, count},
    series::Series,
};

/// Purpose of a background request.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Another tier's answer to the same prompt.
    Pair,
    /// Judging which of two answers is better.
    Judge,
    /// Regenerating the answer of a semantic hit.
    Verify,
}

/// Result of comparing two tiers' answers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PairResult {
    /// Their words agree.
    Agreed,
    /// Their words differ.
    Disagreed,
    /// The judge found them equally good.
    Same,
    /// The judge preferred the smaller model's.
    Smaller,
    /// The judge preferred the larger model's.
    Larger,
    /// Neither the comparison of their texts nor a judge decided it.
    Undecided,
    /// One answer was unreadable.
    Unread,
    /// There was no second answer: no capacity for it, or it failed.
    Failed,
}

impl Purpose {
    /// All purposes.
    const ALL: [Self; 3] = [Self::Pair, Self::Judge, Self::Verify];

    const fn label(self) -> &'static str {
        match self {
            Self::Pair => "pair",
            Self::Judge => "judge",
            Self::Verify => "verify",
        }
    }
}

impl PairResult {
    const fn label(self) -> &'static str {
        match self {
            Self::Agreed => "agreed",
            Self::Disagreed => "disagreed",
            Self::Same => "same",
            Self::Smaller => "smaller",
            Self::Larger => "larger",
            Self::Undecided => "undecided",
            Self::Unread => "unread",
            Self::Failed => "failed",
        }
    }
}

/// Metrics of background requests.
#[derive(Debug)]
pub(super) struct BackgroundMetrics {
    /// Key: (purpose, outcome).
    pub(super) requests: Series<(&'static str, &'static str), Counter>,
    pub(super) tokens: Series<&'static str, Counter>,
    pub(super) cost: Series<&'static str, Dollars>,
    pub(super) pairs: Series<&'static str, Counter>,
}

impl BackgroundMetrics {
    pub(super) fn new() -> Self {
        let purposes = Purpose::ALL.len();
        Self {
            requests: Series::new(64),
            tokens: Series::new(purposes),
            cost: Series::new(purposes),
            pairs: Series::new(16),
        }
    }

    pub(super) fn request(&self, purpose: Purpose, outcome: &'static str, tokens: u64, usd: f64) {
        let purpose = purpose.label();
        let other = |(purpose, _)| (purpose, "other");
        self.requests.get((purpose, outcome), other, |_| Counter::default()).inc();
        self.tokens.get(purpose, |purpose| purpose, |_| Counter::default()).inc_by(tokens);
        if usd.is_finite() && usd > 0.0 {
            self.cost.get(purpose, |purpose| purpose, |_| Dollars::default()).inc_by(usd);
        }
    }

    pub(super) fn pair(&self, result: PairResult) {
        count(&self.pairs, result.label());
    }
}
