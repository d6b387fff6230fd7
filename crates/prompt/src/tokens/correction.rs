//! Learns the difference between counted and reported tokens as a line: it covers unknown templates, tools and
//! tokenizers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use signalbox_measure::Rls;

/// Number of prompts after which the learned line narrows a range.
const ENOUGH: u64 = 20;
/// Number of prompts from which the line is used: a single report may be an engine's mistake.
const FEW: u64 = 5;
/// A report that differs from the count by more than this factor has another cause (an image, a truncated prompt).
const FARTHEST: f64 = 8.0;
/// Bounds of the line's coefficients.
const OFFSETS: (f64, f64) = (0.0, 4096.0);
const RATIOS: (f64, f64) = (0.25, 4.0);
/// Prior standard deviations of the line: tokens of offset, and ratio.
const SPREAD: [f64; 2] = [64.0, 0.3];
/// Remembers about the last five hundred prompts.
const FORGETTING: f64 = 0.998;

/// `reported = offset + ratio · counted`, learned online by recursive least squares. Read without a lock.
#[derive(Debug)]
pub(super) struct Correction {
    line: Mutex<Rls<2>>,
    offset: AtomicU64,
    ratio: AtomicU64,
    samples: AtomicU64,
}

/// A snapshot of the line.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Line {
    offset: f64,
    ratio: f64,
}

impl Correction {
    pub(super) fn new() -> Self {
        Self {
            line: Mutex::new(Rls::new([0.0, 1.0], SPREAD, FORGETTING)),
            offset: AtomicU64::new(0.0_f64.to_bits()),
            ratio: AtomicU64::new(1.0_f64.to_bits()),
            samples: AtomicU64::new(0),
        }
    }

    /// Learns that `counted` tokens were reported as `reported`.
    pub(super) fn learn(&self, counted: u64, reported: u64) {
        let (x, y) = (counted as f64, reported as f64);
        // A few tokens of text may carry a template of a hundred.
        if counted == 0 || reported == 0 || x > y * FARTHEST || y > x * FARTHEST + OFFSETS.1 {
            return;
        }
        let mut line = self.line.lock();
        let expected = line.predict(&[1.0, x]).max(1.0);
        line.observe(&[1.0, x], y, expected);
        let [offset, ratio] = *line.coefficients();
        self.offset.store(offset.clamp(OFFSETS.0, OFFSETS.1).to_bits(), Relaxed);
        self.ratio.store(ratio.clamp(RATIOS.0, RATIOS.1).to_bits(), Relaxed);
        self.samples.fetch_add(1, Relaxed);
    }

    /// True if enough prompts were learned from.
    pub(super) fn is_learned(&self) -> bool {
        self.samples.load(Relaxed) >= ENOUGH
    }

    /// The line; that of equal counts until enough is known.
    pub(super) fn line(&self) -> Line {
        if self.samples.load(Relaxed) < FEW {
            return Line { offset: 0.0, ratio: 1.0 };
        }
        let read = |bits: &AtomicU64| f64::from_bits(bits.load(Relaxed));
        Line { offset: read(&self.offset), ratio: read(&self.ratio) }
    }
}

impl Line {
    /// The expected report for `counted` tokens.
    pub(super) fn at(self, counted: u64) -> u64 {
        if counted == 0 { 0 } else { (self.offset + self.ratio * counted as f64).round() as u64 }
    }

    /// The most counted tokens for which no more than `limit` are reported.
    pub(super) fn within(self, limit: u64) -> u64 {
        let mut counted = ((limit as f64 + 0.5 - self.offset) / self.ratio).max(0.0) as u64;
        // Rounding may be off by one either way.
        while counted > 0 && self.at(counted) > limit {
            counted -= 1;
        }
        // Far above any prompt.
        while counted < u64::MAX / 8 && self.at(counted + 1) <= limit {
            counted += 1;
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_template_is_learned() {
        let (correction, mut dice) = (Correction::new(), fastrand::Rng::with_seed(1));
        assert_eq!(correction.line().at(100), 100);
        assert!(!correction.is_learned());
        for _ in 0..300 {
            let counted = dice.u64(20..4_000);
            correction.learn(counted, 30 + counted * 11 / 10);
        }
        assert!(correction.is_learned());
        for counted in [50, 500, 5_000, 50_000] {
            let (want, got) = (30 + counted * 11 / 10, correction.line().at(counted));
            assert!(got.abs_diff(want) <= 3 + want / 50, "{got} for {want}");
        }
        assert_eq!(correction.line().at(0), 0);
    }

    #[test]
    fn a_single_report_changes_nothing() {
        let correction = Correction::new();
        correction.learn(10, 300);
        assert_eq!(correction.line(), Line { offset: 0.0, ratio: 1.0 });
        (0..FEW).for_each(|_| correction.learn(10, 300));
        assert!(correction.line().at(10) > 20);
    }

    #[test]
    fn implausible_reports_are_ignored() {
        let correction = Correction::new();
        for (counted, reported) in [(0, 10), (10, 0), (1_000, 20), (1_000, 100_000)] {
            correction.learn(counted, reported);
        }
        assert_eq!(correction.line(), Line { offset: 0.0, ratio: 1.0 });
    }

    proptest! {
        #[test]
        fn limits_are_inverted_exactly(offset in 0.0..4096.0_f64, ratio in 0.25..4.0_f64, limit in 0_u64..2_000_000) {
            let line = Line { offset, ratio };
            let most = line.within(limit);
            prop_assert!(line.at(most) <= limit);
            prop_assert!(line.at(most + 1) > limit);
        }
    }
}
