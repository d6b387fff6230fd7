//! When another backend is asked beside one that has said nothing yet: as a hedge, where that is cheap and pays, and once it has said
//! nothing for so long that the caller should not depend on it any more.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    gateway::placement::{PlacementRequest, Reservation},
    policy::Route,
    schedule::hedge::Awaited,
    types::Moment,
};

/// The least that a backend has for its first token, where the policy leaves it to us.
const LEAST: Duration = Duration::from_secs(10);
/// The same for a backend that failed lately and is tried again, or turns out to be down meanwhile.
const LEAST_PROBE: Duration = Duration::from_secs(5);
/// The same for a model that thinks first, or may be loaded first.
const THINKING: Duration = Duration::from_mins(2);
/// How many times the 99th percentile of the prediction it has.
const TIMES: f64 = 3.0;
/// The same for an answer that comes whole, over the longest that it is expected to take.
const TIMES_WHOLE: f64 = 2.0;
/// The most that a prediction can give.
const MOST: Duration = Duration::from_mins(5);

/// When the newest attempt at a request counts as late.
pub(super) struct Clocks {
    began: Instant,
    /// For the hedge: what is awaited, and when to look whether one pays.
    pub(super) awaited: Option<Awaited>,
    pub(super) hedge_at: Option<Instant>,
    /// When another is asked in any case.
    pub(super) limit_at: Option<Instant>,
    /// When to look whether the backend has turned out to be down.
    pub(super) doubt_at: Instant,
    /// Whether that was predicted, and not set.
    predicted: bool,
}

impl Clocks {
    /// The clocks of an attempt that begins now.
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
        // A backend that failed lately is not trusted for long, where another can take over.
        let least = if probes && streams && asked.has_sound(now) { LEAST_PROBE } else { LEAST };
        let expected = Duration::try_from_secs_f64(expected).unwrap_or(MOST).clamp(least, MOST);
        // Of an answer that comes whole, the first token is never seen.
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

    /// The next moment to look.
    pub(super) fn next(&self) -> Option<Instant> {
        self.hedge_at.into_iter().chain(self.limit_at).chain([self.doubt_at]).min()
    }

    /// Gives the attempt the time that a model needs which thinks first, unless the policy has set another limit or that is over.
    /// Whether it did.
    pub(super) fn allow_thinking(&mut self) -> bool {
        let until = self.began + THINKING;
        let more = self.predicted && until > Instant::now();
        if more {
            self.limit_at = Some(until);
        }
        more
    }

    /// No hedge was sent when it was due: it is looked at once more when the attempt has stalled.
    pub(super) fn not_hedged(&mut self, now: Moment) {
        let stalled = self.awaited.and_then(|awaited| awaited.stalled_at()).filter(|at| *at > now);
        self.hedge_at = stalled.map(|at| Instant::now() + at.since(now));
    }
}
