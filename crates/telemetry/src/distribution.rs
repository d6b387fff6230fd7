//! Histograms of `/metrics`. One without observations is not written: its buckets would be most of the page where many
//! pools are idle.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::SystemTime,
};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder},
    metrics::{MetricType, exemplar::HistogramWithExemplars, histogram::Histogram},
};

/// Label of an exemplar: the id of a trace.
type TraceLabel = [(&'static str, String); 1];

/// A histogram that is empty until its first observation.
#[derive(Clone, Debug)]
pub(super) struct Distribution<H = Histogram> {
    inner: H,
    is_used: Arc<AtomicBool>,
}

/// A distribution whose buckets lead to traces.
pub(super) type TracedDistribution = Distribution<HistogramWithExemplars<TraceLabel>>;

impl<H> Distribution<H> {
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Relaxed)
    }

    fn used(&self) {
        // Written once: the gaps between all tokens are observed here.
        if !self.is_used() {
            self.is_used.store(true, Relaxed);
        }
    }
}

impl Distribution {
    pub(super) fn new(buckets: impl IntoIterator<Item = f64>) -> Self {
        Self { inner: Histogram::new(buckets), is_used: Arc::default() }
    }

    pub(super) fn observe(&self, value: f64) {
        self.inner.observe(value);
        self.used();
    }
}

impl TracedDistribution {
    pub(super) fn traced(buckets: impl Iterator<Item = f64>) -> Self {
        Self { inner: HistogramWithExemplars::new(buckets), is_used: Arc::default() }
    }

    /// Observes a value; with a trace, it becomes the exemplar of its bucket.
    pub(super) fn observe_traced(&self, value: f64, trace: Option<u128>) {
        let label = trace.map(|trace| [("trace_id", format!("{trace:032x}"))]);
        let time = label.is_some().then(SystemTime::now);
        self.inner.observe(value, label, time);
        self.used();
    }
}

impl<H: EncodeMetric> EncodeMetric for Distribution<H> {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        self.inner.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        self.inner.metric_type()
    }

    fn is_empty(&self) -> bool {
        !self.is_used()
    }
}
