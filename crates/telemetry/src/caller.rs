//! Times as callers see them, by route and by the source of the answer: queues and caches of the gateway included.

use std::sync::Arc;

use prometheus_client::metrics::histogram::Histogram;

use super::backend::{E2E, TTFT};
use signalbox_measure::Window;
use signalbox_types::{Moment, Name};

/// Source of an answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// An engine worked for this request.
    Engine,
    /// A kept answer to an equal request.
    Exact,
    /// A kept answer to a request of the same meaning.
    Semantic,
    /// An equal request that was under way.
    Coalesced,
}

impl Source {
    /// Label for metrics and the page.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Exact => "exact",
            Self::Semantic => "semantic",
            Self::Coalesced => "coalesced",
        }
    }
}

/// Times of the answers of one route from one source, in seconds from the request on.
#[derive(Debug)]
pub struct CallerMetrics {
    pub(super) ttft_seconds: Histogram,
    pub(super) e2e_seconds: Histogram,
    /// Times to first token.
    pub ttft: Window,
    /// Whole answers.
    pub e2e: Window,
}

/// Metrics of one source of a route's answers.
pub type CallerTimes = (Name, Source, Arc<CallerMetrics>);

impl CallerMetrics {
    pub(super) fn new() -> Self {
        Self {
            ttft_seconds: Histogram::new(TTFT),
            e2e_seconds: Histogram::new(E2E),
            ttft: Window::new(),
            e2e: Window::new(),
        }
    }

    /// Records that a caller had the first token of its stream `seconds` after its request.
    pub fn first_token(&self, seconds: f64, now: Moment) {
        self.ttft_seconds.observe(seconds);
        self.ttft.record(seconds, now);
    }

    /// Records that a caller had a complete answer `seconds` after its request.
    pub fn whole(&self, seconds: f64, now: Moment) {
        self.e2e_seconds.observe(seconds);
        self.e2e.record(seconds, now);
    }
}
