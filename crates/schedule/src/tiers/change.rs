//! Change detection: finds shifts in the ranked values, and when they began.

use signalbox_types::Moment;

/// Distance of a rank from its mean that does not count as evidence: half of a shift of the mean by 0.3, which is one
/// standard deviation.
const SLACK: f64 = 0.15;
/// Evidence that counts as a shift. Independent ranks without a shift hardly ever reach it.
const ALARM: f64 = 3.0;
/// Factor on the required evidence after a shift, which fades within this many values. Traffic in runs looks like shift
/// after shift, and following each would hold the share within each run, whatever is in it.
const WARY: f64 = 4.0;
const FADE: f64 = 8192.0;
/// Weight of a value in the mean rank.
const WEIGHT: f64 = 1.0 / 256.0;
/// Values assumed to precede the first one, for its weight.
const BEFORE: f64 = 8.0;
/// Values before a first or a further shift can be detected.
const WARM: u16 = 32;
/// Values kept to continue with after a shift. A shift takes 4 to 20 values to be detected.
const KEPT: usize = 64;

/// Detects shifts with a cumulative sum of the ranks' distance from their mean, in both directions (Page 1954,
/// "Continuous inspection schemes"). The last zero of the sum is where the shift began.
#[derive(Clone, Debug)]
pub(super) struct Change {
    mean: f64,
    seen: f64,
    /// Values since the last shift, capped.
    warm: u16,
    up: Evidence,
    down: Evidence,
    /// Factor on the required evidence.
    wary: f64,
    last: [f32; KEPT],
    next: u8,
    /// Start of the current regime.
    onset: Moment,
}

/// Evidence for a shift in one direction.
#[derive(Copy, Clone, Debug, Default)]
struct Evidence {
    sum: f64,
    count: u16,
    since: Moment,
}

impl Change {
    pub(super) fn new() -> Self {
        Self {
            mean: 0.5,
            seen: 0.0,
            warm: 0,
            up: Evidence::default(),
            down: Evidence::default(),
            wary: 1.0,
            last: [0.0; KEPT],
            next: 0,
            onset: Moment::default(),
        }
    }

    /// Start of the current regime: sessions from before it are no guide to later ones.
    pub(super) const fn onset(&self) -> Moment {
        self.onset
    }

    /// Drops the evidence so far: the next values come from another source.
    pub(super) fn reset(&mut self) {
        (self.up, self.down) = (Evidence::default(), Evidence::default());
    }

    /// Adds a value with its rank among earlier ones. On a shift, returns the values since it began, up to the last 64.
    pub(super) fn observe(&mut self, value: f64, rank: f64, now: Moment) -> Option<impl Iterator<Item = f64> + use<>> {
        let off = rank - self.mean;
        self.seen = (self.seen + 1.0).min(1.0 / WEIGHT);
        self.mean += off / (self.seen + BEFORE);
        self.last[usize::from(self.next)] = value as f32;
        self.next = (self.next + 1) % KEPT as u8;
        self.wary += (1.0 - self.wary) / FADE;
        self.warm = (self.warm + 1).min(WARM);
        if self.warm < WARM {
            return None;
        }
        let enough = ALARM * self.wary;
        let found = [self.up.add(off, enough, now), self.down.add(-off, enough, now)].into_iter().flatten().next()?;
        self.reset();
        self.wary *= WARY;
        self.onset = found.since;
        self.warm = WARM.min(found.count);
        let (last, next, count) = (self.last, usize::from(self.next), usize::from(found.count).min(KEPT));
        Some((next + KEPT - count..next + KEPT).map(move |place| f64::from(last[place % KEPT])))
    }
}

impl Evidence {
    /// Adds a value with its distance. Returns the evidence if it exceeds `enough`.
    fn add(&mut self, off: f64, enough: f64, now: Moment) -> Option<Self> {
        if self.count == 0 {
            self.since = now;
        }
        self.sum += off - SLACK;
        self.count = self.count.saturating_add(1);
        if self.sum <= 0.0 {
            *self = Self::default();
        }
        (self.sum > enough).then_some(*self)
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    /// Number of values until a shift is detected, and how many of them are reported as later than it, after `before`
    /// values without one.
    fn seen(dice: &mut Rng, before: u64, after: impl Fn(&mut Rng) -> f64) -> (u64, usize) {
        let mut change = Change::new();
        for n in 0..before {
            let rank = dice.f64();
            assert!(change.observe(rank, rank, Moment::from_nanos(n)).is_none(), "a false alarm");
        }
        let found = (before..).find_map(|n| {
            let rank = after(dice);
            let numbers = change.observe(rank, rank, Moment::from_nanos(n))?;
            Some((n + 1 - before, numbers.count()))
        });
        found.expect("ranks go on for ever")
    }

    #[test]
    fn a_shift_is_detected_soon_in_either_direction() {
        let mut dice = Rng::with_seed(1);
        let (mut up, mut down, mut off) = (0, 0, 0);
        for _ in 0..20 {
            let (taken, since) = seen(&mut dice, 400, |dice| 0.6 + 0.4 * dice.f64());
            (up, off) = (up + taken, off + taken.abs_diff(since as u64));
            down += seen(&mut dice, 400, |dice| 0.4 * dice.f64()).0;
        }
        assert!(up < 20 * 25 && down < 20 * 25, "{up} and {down} numbers in 20 shifts");
        assert!(off < 20 * 5, "where it began is {off} off in all");
    }

    #[test]
    fn oscillation_is_not_a_shift() {
        let mut dice = Rng::with_seed(2);
        assert!(seen(&mut dice, 20_000, |_| 1.0).0 < 12);
        let mut change = Change::new();
        let same = (0..10_000).filter(|n| change.observe(0.4, 0.5, Moment::from_nanos(*n)).is_some());
        assert_eq!(same.count(), 0, "all alike");
        let mut young = Change::new();
        let few = (0..u64::from(WARM) - 1).filter(|n| young.observe(1.0, 1.0, Moment::from_nanos(*n)).is_some());
        assert_eq!(few.count(), 0, "the first few say nothing");
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        /// It continues with the last values.
        #[test]
        fn after_a_shift_the_last_values_remain(ranks in prop::collection::vec(0..5_u8, 0..600)) {
            let mut change = Change::new();
            for (n, rank) in ranks.iter().enumerate() {
                let part = |rank: u8| f64::from(rank) / 4.0;
                let Some(numbers) = change.observe(part(*rank), part(*rank), Moment::from_nanos(n as u64)) else { continue };
                let (numbers, onset) = (numbers.collect::<Vec<_>>(), change.onset().nanos() as usize);
                prop_assert_eq!(numbers.len(), (n + 1 - onset).min(KEPT));
                prop_assert!(numbers.iter().rev().zip(ranks[..=n].iter().rev()).all(|(kept, rank)| kept.total_cmp(&part(*rank)).is_eq()));
            }
        }
    }
}
