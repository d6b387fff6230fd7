//! A long interval while it lasts: parts of quotients, and counts of durations. What is added up are counts; a mean of
//! quantiles would be no quantile.

use std::collections::BTreeMap;

use super::interval::{Interval, Path, Row, quantiles};
use signalbox_measure::Sketch;

/// Sums over the intervals so far.
#[derive(Default)]
pub(super) struct Open {
    /// Number of the interval, counted from 1970.
    number: u32,
    quotients: BTreeMap<Path, (f64, f64)>,
    sketches: BTreeMap<Path, Box<Sketch>>,
}

impl Open {
    /// Adds a short interval to the long one with this number.
    pub(super) fn add(&mut self, number: u32, interval: Interval) {
        self.number = number;
        for (path, over, under) in interval.quotients {
            let sum = self.quotients.entry(path).or_default();
            *sum = (sum.0 + over, sum.1 + under);
        }
        for (path, sketch) in interval.sketches {
            self.sketches.entry(path).or_default().merge(&sketch);
        }
    }

    /// Ends the interval if it is not the one with this number; returns its own number and its row.
    pub(super) fn close_before(&mut self, number: u32) -> Option<(u32, Row)> {
        if self.quotients.is_empty() || self.number == number {
            return None;
        }
        let closed = std::mem::take(self);
        Some((closed.number, closed.row()))
    }

    /// Values of the interval so far.
    pub(super) fn row(&self) -> Row {
        let quotients = self.quotients.iter().map(|(path, (over, under))| (path.clone(), over / under));
        let sketches = self.sketches.iter().flat_map(|(path, sketch)| quantiles(path, sketch));
        quotients.chain(sketches).collect()
    }
}
