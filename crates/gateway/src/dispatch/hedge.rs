//! Timing of another attempt beside one that has sent nothing yet. A hedge is made where it is cheap and pays off;
//! another attempt is made in any case once the first has been silent for so long that the client should not depend on
//! it.

use std::time::Duration;

use tokio::time::Instant;

use crate::placement::{PlacementRequest, Reservation};
use signalbox_policy::Route;
use signalbox_schedule::hedge::Awaited;
use signalbox_types::Moment;

/// Shortest limit on the first token if the policy sets none.
const MIN_FIRST_TOKEN_LIMIT: Duration = Duration::from_secs(10);
/// Shortest limit for a backend that failed lately and is tried again, or is found to be down.
const LEAST_PROBE: Duration = Duration::from_secs(5);
/// Limit for a model that reasons first or may have to be loaded first.
const THINKING: Duration = Duration::from_mins(2);
/// Multiple of the predicted 99th percentile that is the limit for a stream.
const TIMES: f64 = 3.0;
/// Multiple of the longest expected duration that is the limit for a whole answer.
const TIMES_WHOLE: f64 = 2.0;
/// Longest limit that a prediction can set.
const MAX_PREDICTED_LIMIT: Duration = Duration::from_mins(5);

/// Moments at which the newest attempt at a request is checked or counts as late.
pub(super) struct Clocks {
    began: Instant,
    /// Forecast of the awaited first token. It decides at `hedge_at` whether a hedge pays off.
    pub(super) awaited: Option<Awaited>,
    pub(super) hedge_at: Option<Instant>,
    /// Time at which another backend is asked in any case.
    pub(super) limit_at: Option<Instant>,
    /// Time to check whether the backend is down.
    pub(super) doubt_at: Instant,
    /// True if the limit was predicted, not set by the policy.
    predicted: bool,
}

impl Clocks {
    /// Starts the clocks of an attempt.
    pub(super) fn start(asked: &PlacementRequest, placed: &Reservation, streams: bool, now: Moment) -> Self {
        let began = Instant::now();
        let Route { timeouts, .. } = &*asked.route;
        let Reservation { target, ref forecast, probes, .. } = *placed;
        let (_, pool) = asked.pool(target);
        let model = pool.learned.predictor.model();
        let quantile = |level| model.ttft_quantile(level, &forecast.work.prediction);
        let (p95, p99) = (quantile(0.95), quantile(0.99));
        let awaited = streams.then_some(Awaited { dispatched: now, p95, p99 });
        let whole = forecast.output.p90_within_limit() * forecast.tpot.seconds;
        let expected = if streams { TIMES * p99 } else { TIMES_WHOLE * (p99 + whole) };
        // A backend that failed lately gets less time if another can take over.
        let least = if probes && streams && asked.has_sound(now) { LEAST_PROBE } else { MIN_FIRST_TOKEN_LIMIT };
        let expected =
            Duration::try_from_secs_f64(expected).unwrap_or(MAX_PREDICTED_LIMIT).clamp(least, MAX_PREDICTED_LIMIT);
        // The first token of a whole answer is never seen.
        let limit = timeouts.first_token.filter(|_| streams).unwrap_or(expected);
        let hedge_at = awaited.and_then(|awaited| awaited.due()).map(|due| began + due.since(now));
        Self {
            began,
            awaited,
            hedge_at,
            limit_at: Some(began + limit),
            doubt_at: began + if streams { LEAST_PROBE } else { expected / 2 },
            predicted: timeouts.first_token.is_none() || !streams,
        }
    }

    /// Time of the next check.
    pub(super) fn next(&self) -> Option<Instant> {
        self.hedge_at.into_iter().chain(self.limit_at).chain([self.doubt_at]).min()
    }

    /// Extends the limit to the time that a reasoning model needs, unless the policy set the limit or that time is
    /// over. Returns true if it was extended.
    pub(super) fn allow_thinking(&mut self) -> bool {
        let until = self.began + THINKING;
        let more = self.predicted && until > Instant::now();
        if more {
            self.limit_at = Some(until);
        }
        more
    }

    /// Records that no hedge was sent when it was due. Another check follows when the attempt has stalled.
    pub(super) fn not_hedged(&mut self, now: Moment) {
        let stalled = self.awaited.and_then(|awaited| awaited.stalled_at()).filter(|at| *at > now);
        self.hedge_at = stalled.map(|at| Instant::now() + at.since(now));
    }
}
