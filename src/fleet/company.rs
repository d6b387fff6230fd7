//! Who else uses an engine: how many requests of others it seems to have, and how often it is to be asked.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use crate::types::Moment;

/// Over how long the mean of others' requests is taken, and how long it is believed without a reading.
const MEAN_SPAN: Duration = Duration::from_secs(10);
const OLD: Duration = Duration::from_secs(40);
/// An engine that others use too, and that tells how much work they give it, is asked this many times as often while they do, for it is
/// seen in no other way; but not oftener than this.
const SHARED: u32 = 10;
pub(super) const OFTENEST: Duration = Duration::from_millis(50);
/// The part of our own requests by which a gauge may be wrong.
const LATE: f64 = 0.25;
/// What lasts for so long is no accident of two counts.
const NO_CHANCE: Duration = Duration::from_secs(1);
/// How long others are remembered to use it.
const REMEMBERED: Duration = Duration::from_secs(30);

/// Others' requests on an engine, by its gauges. Figures each by itself: that one may be a reading ahead of another for a moment harms
/// less than a lock that every decision takes for every engine.
#[derive(Debug)]
pub(super) struct Company {
    /// Bits of their number at the last reading.
    last: AtomicU64,
    /// Bits of its mean of late.
    mean: AtomicU64,
    /// Nanoseconds of the [`Moment`] of the last reading.
    at: AtomicU64,
    /// The same of since when there are more than chance explains; the greatest number while there are not.
    shared_since: AtomicU64,
    /// The same of when there had been more for a while, and of when prompts of theirs came last; 0 while there never were any.
    shared_at: AtomicU64,
    fed_at: AtomicU64,
}

impl Company {
    pub(super) const fn new() -> Self {
        Self {
            last: AtomicU64::new(0),
            mean: AtomicU64::new(0),
            at: AtomicU64::new(0),
            shared_since: AtomicU64::new(u64::MAX),
            shared_at: AtomicU64::new(0),
            fed_at: AtomicU64::new(0),
        }
    }

    /// At `at` the engine had so many requests of others beside so many of ours; and whether prompts of theirs had come.
    pub(super) fn read(&self, others: f64, ours: u32, fed: bool, at: Moment) {
        let before = Moment::from_nanos(self.at.load(Relaxed));
        let kept = (-at.seconds_since(before) / MEAN_SPAN.as_secs_f64()).exp();
        let mean = f64::from_bits(self.mean.load(Relaxed)) * kept + others * (1.0 - kept);
        self.mean.store(mean.to_bits(), Relaxed);
        self.last.store(others.to_bits(), Relaxed);
        self.at.store(at.nanos(), Relaxed);
        // A gauge is a moment late: what it has beyond ours may be our own that ended meanwhile.
        if others < 1.0 + LATE * f64::from(ours) {
            self.shared_since.store(u64::MAX, Relaxed);
        } else if at.since(Moment::from_nanos(self.shared_since.fetch_min(at.nanos(), Relaxed))) >= NO_CHANCE {
            self.shared_at.store(at.nanos(), Relaxed);
        }
        if fed {
            self.fed_at.store(at.nanos(), Relaxed);
        }
    }

    /// Nobody is there any more.
    pub(super) fn gone(&self) {
        self.last.store(0, Relaxed);
        self.mean.store(0, Relaxed);
    }

    /// The time until the engine is to be asked again, if that is `usual` for engines that nobody else uses.
    pub(super) fn pause(&self, usual: Duration, now: Moment) -> Duration {
        let lately = |at: &AtomicU64| match at.load(Relaxed) {
            0 => false,
            at => now.since(Moment::from_nanos(at)) <= REMEMBERED,
        };
        let shared = lately(&self.shared_at) && lately(&self.fed_at);
        if shared { usual.min((usual / SHARED).max(OFTENEST)) } else { usual }
    }

    /// See [`Engine::foreign`](super::Engine::foreign).
    pub(super) fn expected(&self, now: Moment, fade: Duration) -> u32 {
        let mean = f64::from_bits(self.mean.load(Relaxed));
        let (last, fresh, age) = self.last(now, fade);
        if last <= 0.0 && mean <= 0.0 {
            return 0;
        }
        let known = (1.0 - age / OLD.as_secs_f64()).max(0.0);
        rounded(last * fresh + mean * (1.0 - fresh) * known)
    }

    /// See [`Engine::foreign_seen`](super::Engine::foreign_seen).
    pub(super) fn seen(&self, now: Moment, fade: Duration) -> u32 {
        let (last, fresh, _) = self.last(now, fade);
        rounded(last * fresh)
    }

    /// Their number at the last reading, how much of that still counts, and how many seconds ago that was.
    fn last(&self, now: Moment, fade: Duration) -> (f64, f64, f64) {
        let age = now.seconds_since(Moment::from_nanos(self.at.load(Relaxed)));
        let fresh = (1.0 - age / fade.as_secs_f64().max(f64::MIN_POSITIVE)).max(0.0);
        (f64::from_bits(self.last.load(Relaxed)), fresh, age)
    }
}

/// The nearest number of what is not below 0: without a call, for decisions ask it of every engine.
fn rounded(count: f64) -> u32 {
    (count + 0.5) as u32
}
