//! A token bucket with exact counts: unused amounts are returned, and usage beyond the limit becomes a debt.
//!
//! It is the leaky bucket as a meter (ITU-T I.371, known as GCRA in its virtual scheduling form): it holds the amount
//! for one minute and fills evenly. The crate `governor` implements the same algorithm but cannot return amounts, so a
//! request could not be admitted by an estimate and settled by its usage.

use std::time::Duration;

use signalbox_types::Moment;

/// Parts of one unit. A bucket for `n` per minute fills by `n` parts in a nanosecond, so rounding errors never
/// accumulate.
const PARTS: i128 = 60_000_000_000;

/// A limit per minute and its remaining amount.
#[derive(Clone, Debug)]
pub struct Bucket {
    per_minute: u64,
    /// The remaining amount in parts; below zero if more was used than available.
    left: i128,
    at: Moment,
}

impl Bucket {
    /// Parts of one unit in which [`Bucket::used`] is expressed: coarser than a bucket's own, so that an integer of 53
    /// bits holds the value.
    const USED_PARTS: u64 = 60_000_000;

    /// A full bucket.
    pub fn new(per_minute: u64, now: Moment) -> Self {
        Self { per_minute, left: i128::from(per_minute) * PARTS, at: now }
    }

    /// A bucket with `used` parts of `USED_PARTS` used: a bucket for `n` per minute returns `n` such parts in a
    /// microsecond.
    pub fn used(per_minute: u64, used: u64, now: Moment) -> Self {
        let mut bucket = Self::new(per_minute, now);
        bucket.left -= i128::from(used) * PARTS / i128::from(Self::USED_PARTS);
        bucket
    }

    /// The limit.
    pub(super) fn per_minute(&self) -> u64 {
        self.per_minute
    }

    /// Changes the limit; recorded usage is kept.
    pub(super) fn set_limit(&mut self, per_minute: u64, now: Moment) {
        self.fill(now);
        self.left += (i128::from(per_minute) - i128::from(self.per_minute)) * PARTS;
        self.per_minute = per_minute;
    }

    /// The remaining amount in whole units.
    pub fn remaining(&mut self, now: Moment) -> u64 {
        self.fill(now);
        u64::try_from(self.left / PARTS).unwrap_or(0)
    }

    /// The time until `count` can be taken; `None` if that is more than the bucket ever holds.
    pub fn wait(&mut self, count: u64, now: Moment) -> Option<Duration> {
        self.fill(now);
        (count <= self.per_minute).then(|| self.until(i128::from(count) * PARTS))
    }

    /// The time until the bucket is full.
    pub fn reset(&mut self, now: Moment) -> Duration {
        self.fill(now);
        self.until(self.capacity())
    }

    /// Takes `count`, even if less remains.
    pub fn take(&mut self, count: u64) {
        self.left = self.left.saturating_sub(i128::from(count) * PARTS);
    }

    /// Gives back `count` that was taken before.
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
    fn it_fills_evenly_and_computes_the_wait() {
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
    fn debts_are_waited_for_and_returns_never_exceed_the_limit() {
        let mut bucket = Bucket::new(100, at(0));
        bucket.take(150);
        assert_eq!((bucket.remaining(at(0)), bucket.wait(10, at(0))), (0, Some(Duration::from_secs(36))));
        bucket.give_back(150);
        assert_eq!(bucket.remaining(at(60_000)), 100);
    }

    #[test]
    fn a_bucket_from_used_parts_behaves_the_same() {
        let mut own = Bucket::new(90, at(0));
        own.take(120);
        own.fill(at(500));
        let mut restored = Bucket::used(90, 120 * Bucket::USED_PARTS - 500_000 * 90, at(500));
        assert_eq!((restored.left, restored.wait(7, at(900))), (own.left, own.wait(7, at(900))));
    }

    #[test]
    fn a_new_limit_keeps_usage() {
        let mut bucket = Bucket::new(100, at(0));
        bucket.take(80);
        bucket.set_limit(50, at(0));
        assert_eq!((bucket.remaining(at(0)), bucket.reset(at(0))), (0, Duration::from_secs(96)));
        bucket.set_limit(1000, at(0));
        assert_eq!(bucket.remaining(at(0)), 920);
    }

    proptest! {
        #[test]
        fn no_span_of_time_exceeds_the_limit(
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
        fn enough_remains_exactly_after_the_wait(
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
