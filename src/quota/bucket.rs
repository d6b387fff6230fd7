//! A token bucket that counts exactly: what was taken too much is given back, and what was used beyond it is owed.
//!
//! It is the leaky bucket as a meter (ITU-T I.371, also known as GCRA in its virtual scheduling form): it holds what may be used in a
//! minute, and fills evenly. The crate `governor` has the same algorithm, but nothing can be given back there, so that a request could
//! not be let in by an estimate and settled by its usage.

use std::time::Duration;

use crate::types::Moment;

/// Parts of one whole: in a nanosecond a bucket for `n` a minute fills by `n` of them, so that no rounding ever adds up.
const PARTS: i128 = 60_000_000_000;

/// A limit per minute, and what is left of it.
#[derive(Clone, Debug)]
pub struct Bucket {
    per_minute: u64,
    /// What is left, in parts; below zero where more was used than there was.
    left: i128,
    at: Moment,
}

impl Bucket {
    /// Parts of one in which [`Bucket::used`] is told: coarser than a bucket's own, so that a number of 53 bits holds them.
    const USED_PARTS: u64 = 60_000_000;

    /// A full one.
    pub fn new(per_minute: u64, now: Moment) -> Self {
        Self { per_minute, left: i128::from(per_minute) * PARTS, at: now }
    }

    /// One of which so much is used, in parts of one: a bucket for `n` a minute gives back `n` of them in a microsecond.
    pub fn used(per_minute: u64, used: u64, now: Moment) -> Self {
        let mut bucket = Self::new(per_minute, now);
        bucket.left -= i128::from(used) * PARTS / i128::from(Self::USED_PARTS);
        bucket
    }

    /// The limit.
    pub fn per_minute(&self) -> u64 {
        self.per_minute
    }

    /// Goes on under another limit: what was used stays used.
    pub(crate) fn set_limit(&mut self, per_minute: u64, now: Moment) {
        self.fill(now);
        self.left += (i128::from(per_minute) - i128::from(self.per_minute)) * PARTS;
        self.per_minute = per_minute;
    }

    /// What is left, in whole ones.
    pub fn remaining(&mut self, now: Moment) -> u64 {
        self.fill(now);
        u64::try_from(self.left / PARTS).unwrap_or(0)
    }

    /// The time until `count` can be taken; `None` where that is more than it ever holds.
    pub fn wait(&mut self, count: u64, now: Moment) -> Option<Duration> {
        self.fill(now);
        (count <= self.per_minute).then(|| self.until(i128::from(count) * PARTS))
    }

    /// The time until it is full.
    pub fn reset(&mut self, now: Moment) -> Duration {
        self.fill(now);
        self.until(self.capacity())
    }

    /// Takes `count`, whether or not there is so much.
    pub fn take(&mut self, count: u64) {
        self.left = self.left.saturating_sub(i128::from(count) * PARTS);
    }

    /// Gives `count` back that was taken before.
    pub fn give_back(&mut self, count: u64) {
        self.left = self.left.saturating_add(i128::from(count) * PARTS);
    }

    fn capacity(&self) -> i128 {
        i128::from(self.per_minute) * PARTS
    }

    fn fill(&mut self, now: Moment) {
        let passed = now.since(self.at).as_nanos().cast_signed();
        self.at = self.at.max(now);
        self.left = self.left.saturating_add(passed.saturating_mul(i128::from(self.per_minute))).min(self.capacity());
    }

    fn until(&self, parts: i128) -> Duration {
        let missing = (parts - self.left).max(0);
        let rate = i128::from(self.per_minute.max(1));
        let nanos = (missing + rate - 1) / rate;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::default().plus(Duration::from_millis(millis))
    }

    #[test]
    fn it_fills_evenly_and_says_when() {
        let mut bucket = Bucket::new(60, at(0));
        bucket.take(60);
        assert_eq!((bucket.remaining(at(0)), bucket.wait(1, at(0))), (0, Some(Duration::from_secs(1))));
        assert_eq!(bucket.remaining(at(1500)), 1);
        assert_eq!(bucket.wait(2, at(1500)), Some(Duration::from_millis(500)));
        assert_eq!(bucket.reset(at(0)), Duration::from_millis(58_500));
        assert_eq!(bucket.wait(61, at(1500)), None);
        assert_eq!(bucket.remaining(at(600_000)), 60);
    }

    #[test]
    fn what_is_owed_is_waited_for_and_what_comes_back_is_no_more_than_there_was() {
        let mut bucket = Bucket::new(100, at(0));
        bucket.take(150);
        assert_eq!((bucket.remaining(at(0)), bucket.wait(10, at(0))), (0, Some(Duration::from_secs(36))));
        bucket.give_back(150);
        assert_eq!(bucket.remaining(at(60_000)), 100);
    }

    #[test]
    fn what_another_has_counted_stands_for_the_same() {
        let mut own = Bucket::new(90, at(0));
        own.take(120);
        own.fill(at(500));
        let mut told = Bucket::used(90, 120 * Bucket::USED_PARTS - 500_000 * 90, at(500));
        assert_eq!((told.left, told.wait(7, at(900))), (own.left, own.wait(7, at(900))));
    }

    #[test]
    fn another_limit_forgets_nothing() {
        let mut bucket = Bucket::new(100, at(0));
        bucket.take(80);
        bucket.set_limit(50, at(0));
        assert_eq!((bucket.remaining(at(0)), bucket.reset(at(0))), (0, Duration::from_secs(96)));
        bucket.set_limit(1000, at(0));
        assert_eq!(bucket.remaining(at(0)), 920);
    }

    proptest! {
        #[test]
        fn no_span_of_time_lets_more_through_than_it_may(
            limit in 1_u64..1_000_000_000,
            steps in prop::collection::vec((0_u64..20_000, 1_u64..1_000_000, 0_u64..1_000_000), 1..60),
        ) {
            let mut bucket = Bucket::new(limit, at(0));
            let (mut now, mut used) = (0, 0_u128);
            for (pause, count, actual) in steps {
                now += pause;
                if bucket.wait(count, at(now)) != Some(Duration::ZERO) {
                    continue;
                }
                bucket.take(count);
                let actual = actual.min(count);
                bucket.give_back(count - actual);
                used += u128::from(actual);
                let most = u128::from(limit) * (60_000 + u128::from(now)) / 60_000;
                prop_assert!(used <= most, "{used} of {most} after {now} ms");
            }
        }

        #[test]
        fn after_the_wait_there_is_enough_and_not_before(
            limit in 1_u64..1_000_000, taken in 0_u64..2_000_000, count in 1_u64..1_000_000,
        ) {
            let mut bucket = Bucket::new(limit, at(0));
            bucket.take(taken);
            match bucket.clone().wait(count, at(0)) {
                None => prop_assert!(count > limit),
                Some(wait) => {
                    let then = Moment::default().plus(wait);
                    prop_assert!(bucket.clone().remaining(then) >= count);
                    if !wait.is_zero() {
                        let before = Moment::default().plus(wait.saturating_sub(Duration::from_nanos(1)));
                        prop_assert!(bucket.remaining(before) < count);
                    }
                }
            }
        }
    }
}
