//! Time as a number, so that pure code takes `now` as an argument and runs in tests, benches and simulations.

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

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The time since `earlier` in seconds; 292 years at most.
    pub const fn seconds_since(self, earlier: Self) -> f64 {
        // Decisions call this several times per engine: a signed number converts to a float in one instruction, an
        // unsigned one in six.
        let nanos = self.0.saturating_sub(earlier.0);
        let nanos = if nanos > i64::MAX as u64 { i64::MAX } else { nanos.cast_signed() };
        nanos as f64 * 1e-9
    }

    /// The moment at the time `after` from this one.
    #[must_use]
    pub fn plus(self, after: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// The single clock of a running gateway. It reads tokio's time, so that tests can pause it.
#[derive(Copy, Clone, Debug)]
pub struct Clock {
    origin: tokio::time::Instant,
}

impl Clock {
    /// A clock whose first moment is now.
    pub fn start() -> Self {
        Self { origin: tokio::time::Instant::now() }
    }

    /// The current moment.
    pub fn now(&self) -> Moment {
        Moment::default().plus(self.origin.elapsed())
    }
}
