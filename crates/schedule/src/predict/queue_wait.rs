//! Waiting in an engine's queue, as first tokens have shown it.

use signalbox_types::Moment;

/// Share of the sums that is kept at each first token: about the last five count.
const KEPT: f64 = 0.8;
/// Squared seconds by which the predicted waits must vary before a slope is believed.
const RIDGE: f64 = 0.01;
/// Standard errors by which the slope is lowered.
const STANDARD_ERRORS: f64 = 2.0;
/// Weight of a first token in the least unexplained time, where it came sooner and where later.
const FALL: f64 = 0.5;
const RISE: f64 = 0.02;
/// Fewest first tokens that show anything.
const FEWEST: f64 = 3.0;
/// Seconds in which the sums halve, so that an engine is tried again after a pause: more engines may stand behind its
/// address by then.
const HALF_LIFE_SECONDS: f64 = 60.0;

/// Share of the predicted wait in an engine's queue that requests really waited, 0 until proven.
///
/// The prediction supposes that an engine computes one prompt after another. Data-parallel ranks, replicas behind one
/// address and hosted services compute many side by side: there a first token comes as soon as without a queue. A pool's
/// model learns that too, but slowly: a constant time to first token looks like a constant queue, and where prompts are
/// held back the queue is constant.
///
/// So this is the slope of a regression of what the model leaves unexplained on the predicted wait, with an intercept of
/// its own and an exponential window. Its lower bound counts. Where all requests find the same queue, nothing is proven.
#[derive(Clone, Debug, Default)]
pub(super) struct QueueWait {
    /// Decayed sums: of ones, predicted waits `x`, unexplained times `y`, `x²`, `xy` and `y²`.
    sums: [f64; 6],
    /// Unexplained time of requests that find no queue: a lower expectile of the recent ones.
    least: f64,
    at: Option<Moment>,
}

impl QueueWait {
    /// Learns from a first token that came `beyond` seconds later than predicted without a queue, where a wait of
    /// `expected` seconds was predicted. Both in seconds.
    pub(super) fn observe(&mut self, expected: f64, beyond: f64, now: Moment) {
        if expected.is_finite() && beyond.is_finite() {
            let kept = KEPT * self.faded(now);
            let (x, y) = (expected, beyond);
            for (sum, new) in self.sums.iter_mut().zip([1.0, x, y, x * x, x * y, y * y]) {
                *sum = kept * *sum + new;
            }
            self.least = match self.at {
                None => y,
                Some(_) if y < self.least => self.least + FALL * (y - self.least),
                // Those that find a longer queue than most say nothing of the time without one.
                Some(_) if x * self.sums[0] <= self.sums[1] => self.least + RISE * (y - self.least),
                Some(_) => self.least,
            };
            self.at = Some(now);
        }
    }

    /// Part of a predicted wait of `expected` seconds that is proven.
    ///
    /// An engine that computes several prompts side by side has a queue from some load on. The line rises from there.
    pub(super) fn proven(&self, expected: f64, now: Moment) -> f64 {
        let kept = self.faded(now);
        let [count, x, y, xx, xy, yy] = self.sums;
        let weight = kept * count;
        if weight < FEWEST {
            return 0.0;
        }
        let (x, y) = (x / count, y / count);
        let (xx, xy, yy) = (xx / count - x * x, xy / count - x * y, yy / count - y * y);
        let slope = xy / (xx + RIDGE);
        let unexplained = (yy - slope * (2.0 * xy - slope * xx)).max(0.0);
        let error = (unexplained / ((xx + RIDGE) * weight)).sqrt();
        let slope = (slope - STANDARD_ERRORS * error).clamp(0.0, 1.0);
        (slope * expected).min(y + slope * (expected - x) - self.least).max(0.0)
    }

    fn faded(&self, now: Moment) -> f64 {
        self.at.map_or(1.0, |at| (-now.seconds_since(at) / HALF_LIFE_SECONDS).exp2())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Moment {
        Moment::from_nanos((seconds * 1e9) as u64)
    }

    /// Feeds forty first tokens, one a second, that found up to four seconds of work; `wait` says how long they waited.
    fn seen(wait: impl Fn(f64) -> f64) -> QueueWait {
        let mut queue = QueueWait::default();
        for turn in 0..40_u32 {
            let expected = f64::from(turn * 7 % 41) / 10.0;
            queue.observe(expected, wait(expected) + 0.3, at(f64::from(turn)));
        }
        queue
    }

    #[test]
    fn a_wait_is_proven_by_waits_that_grow_with_the_queue() {
        let now = at(40.0);
        assert!(QueueWait::default().proven(9.0, now).abs() < 1e-9);
        let one_by_one = seen(|expected| expected);
        assert!((1.6..=2.0).contains(&one_by_one.proven(2.0, now)), "{}", one_by_one.proven(2.0, now));
        let side_by_side = seen(|_| 0.0);
        assert!(side_by_side.proven(2.0, now) < 0.01);
        let ranks = seen(|expected| (expected - 2.0).max(0.0) / 2.0);
        assert!(ranks.proven(1.0, now) < 0.3 && ranks.proven(4.0, now) > 0.5, "{}", ranks.proven(4.0, now));
    }

    #[test]
    fn an_engine_that_got_more_ranks_is_found_out_and_time_forgets() {
        let (mut queue, mut now) = (seen(|expected| expected), at(40.0));
        assert!(queue.proven(2.0, at(640.0)).abs() < 1e-9);
        assert!(queue.proven(4.0, now) > 2.0);
        // An engine of several ranks has taken its place: each prompt that is let through finds more of a queue.
        for turn in 0..20 {
            now = at(40.0 + f64::from(turn));
            let most =
                (1..=40).map(|tenths| f64::from(tenths) / 10.0).take_while(|wait| queue.proven(*wait, now) <= 0.5);
            queue.observe(most.last().unwrap_or(0.1), 0.3, now);
        }
        assert!(queue.proven(4.0, now) < 0.5, "{}", queue.proven(4.0, now));
        for odd in [f64::NAN, f64::INFINITY] {
            queue.observe(odd, 1.0, now);
            queue.observe(1.0, odd, now);
        }
        assert!(queue.proven(f64::NAN, now) >= 0.0);
    }
}
