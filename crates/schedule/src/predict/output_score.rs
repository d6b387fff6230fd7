//! Accuracy of forecast answer lengths.

use std::collections::VecDeque;

use super::OutputForecast;

/// Number of answers in the score.
const KEPT: usize = 512;

/// Accuracy of recent forecasts.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct OutputAccuracy {
    /// Share of answers no longer than their predicted 90th percentile; 0.9 is ideal.
    pub coverage: f64,
    /// Median of |predicted median ÷ length − 1|.
    pub relative_error: f64,
}

/// The last 512 answers compared with their forecasts (4 KB).
#[derive(Clone, Debug, Default)]
pub struct OutputScore {
    /// Relative error of each, and whether the percentile covered it; oldest first.
    judged: VecDeque<(f32, bool)>,
}

impl OutputScore {
    /// Compares a `forecast` with an answer of `tokens` tokens. Skips answers whose limit lies below the predicted
    /// percentile, since these could not exceed it.
    pub fn judge(&mut self, forecast: &OutputForecast, tokens: u64) {
        if forecast.limit.is_some_and(|limit| limit as f64 <= forecast.p90) {
            return;
        }
        let length = tokens.max(1) as f64;
        if self.judged.len() == KEPT {
            self.judged.pop_front();
        }
        self.judged.push_back(((forecast.median / length - 1.0).abs() as f32, length <= forecast.p90));
    }

    /// Current accuracy; `None` before the first comparison.
    pub fn accuracy(&self) -> Option<OutputAccuracy> {
        let covered = self.judged.iter().filter(|(_, covered)| *covered).count();
        let mut errors: Vec<f32> = self.judged.iter().map(|(error, _)| *error).collect();
        let middle = errors.len() / 2;
        (!errors.is_empty()).then(|| OutputAccuracy {
            coverage: covered as f64 / self.judged.len() as f64,
            relative_error: f64::from(*errors.select_nth_unstable_by(middle, f32::total_cmp).1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forecast(limit: Option<u64>) -> OutputForecast {
        OutputForecast { limit, mean: 0.0, median: 100.0, p90: 300.0 }
    }

    #[test]
    fn accuracy_is_the_coverage_and_median_error_of_the_last_answers() {
        let mut score = OutputScore::default();
        assert_eq!(score.accuracy(), None);
        for _ in 0..KEPT {
            score.judge(&forecast(None), 10_000);
        }
        for tokens in [80, 100, 200, 1_000].repeat(KEPT / 4) {
            score.judge(&forecast(Some(2_000)), tokens);
        }
        let accuracy = score.accuracy().unwrap();
        assert!((accuracy.coverage - 0.75).abs() < 1e-9, "{accuracy:?}");
        assert!((accuracy.relative_error - 0.5).abs() < 1e-6, "{accuracy:?}");
    }

    #[test]
    fn an_answer_that_could_not_be_too_long_is_not_judged() {
        let mut score = OutputScore::default();
        score.judge(&forecast(Some(300)), 300);
        score.judge(&forecast(Some(16)), 16);
        assert_eq!(score.accuracy(), None);
        score.judge(&forecast(Some(301)), 0);
        assert!((score.accuracy().unwrap().coverage - 1.0).abs() < 1e-9);
    }
}
