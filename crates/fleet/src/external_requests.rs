//! Requests of other clients on an engine: how many it seems to have, and how often the engine is polled.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use signalbox_types::Moment;

/// Time constant of the mean of external requests, and the age at which a reading loses all weight.
const MEAN_SPAN: Duration = Duration::from_secs(10);
const MEAN_LIFE: Duration = Duration::from_secs(40);
/// Factor by which an engine is polled more often while other clients use it and it reports how much work they give it,
/// which no other source shows; and the shortest interval.
const SHARED_FACTOR: u32 = 10;
pub(super) const SHORTEST_INTERVAL: Duration = Duration::from_millis(50);
/// Share of our own requests by which a gauge may be off.
const GAUGE_ERROR: f64 = 0.25;
/// Time after which an excess is no longer explained by two counts taken at different moments.
const LASTING: Duration = Duration::from_secs(1);
/// Time for which an engine counts as shared after its last external request.
const SHARED_SPAN: Duration = Duration::from_secs(30);

/// Estimate of external requests on an engine, from its gauges. Each figure is an atomic of its own: a figure that is
/// one reading ahead of another does less harm than a lock that every decision takes for every engine.
#[derive(Debug)]
pub(super) struct ExternalRequests {
    /// External requests at the last reading, as `f64::to_bits`.
    last: AtomicU64,
    /// Moving average of the external requests, as `f64::to_bits`.
    mean: AtomicU64,
    /// Nanoseconds of the [`Moment`] of the last reading.
    at: AtomicU64,
    /// Nanoseconds of the [`Moment`] since which the excess is larger than the gauge's error; `u64::MAX` while it is
    /// not.
    shared_since: AtomicU64,
    /// Nanoseconds of the [`Moment`]s of the last lasting excess and of the last external prompt tokens; 0 before the
    /// first.
    shared_at: AtomicU64,
    tokens_at: AtomicU64,
}

impl ExternalRequests {
    pub(super) const fn new() -> Self {
        Self {
            last: AtomicU64::new(0),
            mean: AtomicU64::new(0),
            at: AtomicU64::new(0),
            shared_since: AtomicU64::new(u64::MAX),
            shared_at: AtomicU64::new(0),
            tokens_at: AtomicU64::new(0),
        }
    }

    /// Records a reading at `at`: `others` external requests beside `ours` of our own. `got_tokens` is true if external prompt
    /// tokens arrived.
    pub(super) fn record(&self, others: f64, ours: u32, got_tokens: bool, at: Moment) {
        let before = Moment::from_nanos(self.at.load(Relaxed));
        let kept = (-at.seconds_since(before) / MEAN_SPAN.as_secs_f64()).exp();
        let mean = f64::from_bits(self.mean.load(Relaxed)) * kept + others * (1.0 - kept);
        self.mean.store(mean.to_bits(), Relaxed);
        self.last.store(others.to_bits(), Relaxed);
        self.at.store(at.nanos(), Relaxed);
        // A gauge lags a moment behind: an excess over our count may be requests of ours that ended meanwhile.
        if others < 1.0 + GAUGE_ERROR * f64::from(ours) {
            self.shared_since.store(u64::MAX, Relaxed);
        } else if at.since(Moment::from_nanos(self.shared_since.fetch_min(at.nanos(), Relaxed))) >= LASTING {
            self.shared_at.store(at.nanos(), Relaxed);
        }
        if got_tokens {
            self.tokens_at.store(at.nanos(), Relaxed);
        }
    }

    /// Forgets all external requests after the engine's process has ended.
    pub(super) fn clear(&self) {
        self.last.store(0, Relaxed);
        self.mean.store(0, Relaxed);
    }

    /// Time until the next poll; `usual` is the interval for engines without other clients.
    pub(super) fn poll_interval(&self, usual: Duration, now: Moment) -> Duration {
        let lately = |at: &AtomicU64| match at.load(Relaxed) {
            0 => false,
            at => now.since(Moment::from_nanos(at)) <= SHARED_SPAN,
        };
        let shared = lately(&self.shared_at) && lately(&self.tokens_at);
        if shared { usual.min((usual / SHARED_FACTOR).max(SHORTEST_INTERVAL)) } else { usual }
    }

    /// See [`Engine::foreign`](super::Engine::foreign).
    pub(super) fn expected(&self, now: Moment, fade: Duration) -> u32 {
        let mean = f64::from_bits(self.mean.load(Relaxed));
        let (last, fresh, age) = self.last(now, fade);
        if last <= 0.0 && mean <= 0.0 {
            return 0;
        }
        let known = (1.0 - age / MEAN_LIFE.as_secs_f64()).max(0.0);
        rounded(last * fresh + mean * (1.0 - fresh) * known)
    }

    /// See [`Engine::foreign_seen`](super::Engine::foreign_seen).
    pub(super) fn seen(&self, now: Moment, fade: Duration) -> u32 {
        let (last, fresh, _) = self.last(now, fade);
        rounded(last * fresh)
    }

    /// Count at the last reading, the weight it still has, and its age in seconds.
    fn last(&self, now: Moment, fade: Duration) -> (f64, f64, f64) {
        let age = now.seconds_since(Moment::from_nanos(self.at.load(Relaxed)));
        let fresh = (1.0 - age / fade.as_secs_f64().max(f64::MIN_POSITIVE)).max(0.0);
        (f64::from_bits(self.last.load(Relaxed)), fresh, age)
    }
}

/// Rounds a non-negative number. Written without a library call, since decisions need it for every engine.
fn rounded(count: f64) -> u32 {
    (count + 0.5) as u32
}
