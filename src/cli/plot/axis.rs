//! Axes: linear or logarithmic, with ticks at round numbers.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// Approximate number of ticks of a linear axis.
const MARKS: f64 = 5.0;

/// Range of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) struct Axis {
    range: Range<f64>,
    decades: bool,
}

impl Axis {
    /// A linear axis over `range`.
    pub(in crate::cli) fn even(range: Range<f64>) -> Self {
        Self { range, decades: false }
    }

    /// A logarithmic axis over the positive finite `values`.
    pub(in crate::cli) fn decades(values: impl Iterator<Item = f64>) -> Self {
        let values = values.filter(|value| *value > 0.0 && value.is_finite());
        let (least, greatest) =
            values.fold((f64::INFINITY, 0.0_f64), |(least, greatest), value| (least.min(value), greatest.max(value)));
        let range = if least <= greatest { least * 0.8..greatest * 1.25 } else { 0.1..10.0 };
        Self { range, decades: true }
    }

    /// Clamps `value` to the axis.
    pub(in crate::cli) fn within(&self, value: f64) -> f64 {
        value.clamp(self.range.start, self.range.end)
    }

    fn marks(&self) -> Vec<f64> {
        let Range { start, end } = self.range;
        let inside = |mark: &f64| (start..=end).contains(mark);
        if self.decades {
            let exponents = start.log10().floor() as i32..=end.log10().ceil() as i32;
            // Over many decades, only their starts get ticks.
            let digits: &[f64] = if end / start > 1e4 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let marks = exponents.flat_map(|exponent| digits.iter().map(move |digit| digit * 10_f64.powi(exponent)));
            return marks.filter(inside).collect();
        }
        let rough = (end - start) / MARKS;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        // A tick at an end counts in spite of rounding.
        let (first, last) = ((start / step - 1e-9).ceil() as i64, (end / step + 1e-9).floor() as i64);
        (first..=last).map(|mark| mark as f64 * step).collect()
    }
}

/// A tick label with as few digits as needed.
pub(in crate::cli) fn mark(value: f64) -> String {
    ((value * 1e6).round() / 1e6).to_string()
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let Range { start, end } = self.range;
        let share =
            if self.decades { (value / start).ln() / (end / start).ln() } else { (value - start) / (end - start) };
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // No minor grid lines.
        if hint.weight().allow_light_points() { Vec::new() } else { self.marks() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_numbers() {
        let ticks = |axis: Axis| axis.marks().iter().map(|value| mark(*value)).collect::<Vec<_>>().join(" ");
        assert_eq!(ticks(Axis::even(0.0..100.0)), "0 20 40 60 80 100");
        assert_eq!(ticks(Axis::even(0.5..2.0)), "0.5 1 1.5 2");
        assert_eq!(ticks(Axis::decades([0.03, 7.0].into_iter())), "0.05 0.1 0.2 0.5 1 2 5");
        assert_eq!(ticks(Axis::decades([0.01, 700.0].into_iter())), "0.01 0.1 1 10 100");
        assert_eq!(ticks(Axis::decades([f64::INFINITY, 0.0].into_iter())), "0.1 0.2 0.5 1 2 5 10");
    }
}
