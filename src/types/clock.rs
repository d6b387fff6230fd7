//! Time as a number, so that pure code can be handed `now` and run in tests, benches and simulations.

use std::time::Duration;

/// A point in time: nanoseconds since a [`Clock`] was started.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The moment `nanos` nanoseconds after the clock's start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's start.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to here; zero where `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The same in seconds; 292 years at most.
    pub const fn seconds_since(self, earlier: Self) -> f64 {
        // Decisions ask this several times of every engine: a signed number is turned into a fraction in one step, an unsigned one in six.
        let nanos = self.0.saturating_sub(earlier.0);
        let nanos = if nanos > i64::MAX as u64 { i64::MAX } else { nanos.cast_signed() };
        nanos as f64 * 1e-9
    }

    /// The moment `after` from here.
    #[must_use]
    pub fn plus(self, after: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// The one clock of a running gateway. It reads tokio's time, so that tests can pause it.
#[derive(Copy, Clone, Debug)]
pub struct Clock {
    origin: tokio::time::Instant,
}

impl Clock {
    /// A clock whose first moment is now.
    pub fn start() -> Self {
        Self { origin: tokio::time::Instant::now() }
    }

    /// The present moment.
    pub fn now(&self) -> Moment {
        Moment::default().plus(self.origin.elapsed())
    }
}
