//! Figures of one short interval, and their columns.

use std::time::Duration;

use signalbox_measure::{Sketch, Span};
use signalbox_types::Name;

/// Length of a short interval: that of a slot of the windows of latencies, which are read once they are complete.
pub(crate) const FINE: Duration = Span::Minute.slot();

/// The name of a column: its place in the answer.
pub(super) type Path = Vec<Name>;
/// Values of one row by column.
pub(super) type Row = Vec<(Path, f64)>;

/// Figures of one short interval.
#[derive(Default)]
pub(super) struct Interval {
    /// Quotients: rates (a count by seconds), ratios (a count by a count) and levels (a value by 1). Longer intervals add up both parts.
    pub(super) quotients: Vec<(Path, f64, f64)>,
    /// Durations in seconds, of which quantiles in milliseconds are kept.
    pub(super) sketches: Vec<(Path, Sketch)>,
}

impl Interval {
    /// Values of the interval.
    pub(super) fn row(&self) -> Row {
        let quotients = self.quotients.iter().map(|(path, over, under)| (path.clone(), over / under));
        quotients.chain(self.sketches.iter().flat_map(|(path, sketch)| quantiles(path, sketch))).collect()
    }
}

/// Quantiles in milliseconds, each below `path`; none without samples.
pub(super) fn quantiles(path: &Path, sketch: &Sketch) -> impl Iterator<Item = (Path, f64)> {
    let found = sketch.summary().map(|it| [("p50", it.p50), ("p95", it.p95), ("p99", it.p99)]);
    let own = |(name, seconds): (&str, f64)| (path.iter().cloned().chain([name.into()]).collect(), seconds * 1e3);
    found.into_iter().flatten().map(own)
}
