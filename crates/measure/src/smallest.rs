//! The smallest of recent samples, for quantities with a fixed minimum and additive delays, such as network round
//! trips.

use std::time::Duration;

use parking_lot::Mutex;

use signalbox_types::Moment;

/// Number of samples kept.
const SAMPLES: usize = 8;

/// The smallest of the last eight samples within a span. A sample that is not a finite number above zero is dropped.
#[derive(Debug)]
pub struct Smallest {
    span: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    samples: [Option<(Moment, f64)>; SAMPLES],
    next: usize,
}

impl Smallest {
    /// A minimum without samples.
    pub fn new(span: Duration) -> Self {
        Self { span, state: Mutex::default() }
    }

    /// Records `value`, measured at `now`.
    pub fn record(&self, value: f64, now: Moment) {
        if !(value.is_finite() && value > 0.0) {
            return;
        }
        let mut state = self.state.lock();
        let next = state.next;
        state.samples[next] = Some((now, value));
        state.next = (next + 1) % SAMPLES;
    }

    /// The smallest sample within the span before `now`; `None` if there is none.
    pub fn get(&self, now: Moment) -> Option<f64> {
        let state = self.state.lock();
        let fresh = state.samples.iter().flatten().filter(|(at, _)| now.since(*at) <= self.span);
        fresh.map(|(_, value)| *value).reduce(f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_counts_until_it_is_old_or_pushed_out() {
        let at = |seconds| Moment::default().plus(Duration::from_secs(seconds));
        let smallest = Smallest::new(Duration::from_mins(1));
        assert_eq!(smallest.get(at(0)), None);
        for (second, value) in [(0, 0.02), (10, 0.05), (20, f64::NAN), (20, 0.0), (30, 0.09)] {
            smallest.record(value, at(second));
        }
        assert_eq!(smallest.get(at(60)), Some(0.02));
        assert_eq!(smallest.get(at(61)), Some(0.05));
        assert_eq!(smallest.get(at(91)), None);
        for _ in 0..SAMPLES {
            smallest.record(0.5, at(60));
        }
        assert_eq!(smallest.get(at(60)), Some(0.5));
    }
}
