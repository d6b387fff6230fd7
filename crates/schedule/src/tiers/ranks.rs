//! Rank of a value among the last ones of its kind.

use super::change::Change;
use signalbox_types::Moment;

/// Number of values. The quantile at 0.75 is off by 1.6 points of rank (one standard deviation); half as many would be
/// off by 2.2 and forget past traffic in half the time, which is the task of [`Change`].
const KEPT: usize = 768;
/// Evenly spread values that the prior counts for. They fade as the window fills.
const PRIOR: f64 = 32.0;
/// Steps of the scale.
const STEPS: f64 = 65_535.0;

/// The last 768 values in `0..=1`, to the nearest 65,535th, in the order of arrival and sorted; after a shift only the
/// later ones.
#[derive(Clone, Debug)]
pub(super) struct Ranks {
    ring: [u16; KEPT],
    sorted: [u16; KEPT],
    count: u16,
    next: u16,
    /// Initial weight of the prior.
    prior: f64,
    change: Change,
}

impl Ranks {
    /// Creates an empty window. `spread` is true if values can be expected to be spread evenly; otherwise the first
    /// ones are ranked by chance.
    pub(super) fn new(spread: bool) -> Self {
        let prior = if spread { PRIOR } else { 0.0 };
        Self { ring: [0; KEPT], sorted: [0; KEPT], count: 0, next: 0, prior, change: Change::new() }
    }

    /// Share of values below `value`, in `0..1`. Ties are broken by `chance`, uniform in `0..1`, so that ranks are
    /// uniform for any distribution (the distributional transform, Rüschendorf 2009): among identical requests, a share
    /// of a quarter is still a quarter.
    pub(super) fn rank(&self, value: f64, chance: f64) -> f64 {
        let (code, seen) = (code(value), &self.sorted[..usize::from(self.count)]);
        let below = seen.partition_point(|other| *other < code);
        let same = seen[below..].partition_point(|other| *other == code);
        let prior = self.prior();
        // The value itself is one of its kind.
        (below as f64 + prior * value + chance * (same + 1) as f64) / (seen.len() as f64 + prior + 1.0)
    }

    /// Value that the share `level` of values does not exceed.
    pub(super) fn quantile(&self, level: f64) -> f64 {
        let (level, seen) = (level.clamp(0.0, 1.0), &self.sorted[..usize::from(self.count)]);
        let place = (level * seen.len() as f64) as usize;
        let found = seen.get(place.min(seen.len().saturating_sub(1))).map_or(level, |code| f64::from(*code) / STEPS);
        let prior = self.prior() / (self.prior() + seen.len() as f64).max(1.0);
        found + prior * (level - found)
    }

    /// Adds a value. Values of a session that began before the last shift (`since`) are ignored, since they are no
    /// guide to later ones. `new` is the first value of a session, or that of a request without one: it serves to
    /// detect shifts.
    pub(super) fn learn(&mut self, value: f64, new: Option<f64>, since: Moment, now: Moment) {
        let shifted = new.and_then(|new| self.change.observe(new, self.rank(new, 0.5), now));
        if let Some(shifted) = shifted {
            (self.prior, self.count, self.next) = (self.prior(), 0, 0);
            shifted.for_each(|value| self.insert(value));
        } else if since >= self.change.onset() {
            self.insert(value);
        }
    }

    /// Continues with values from another source: the evidence for a shift so far does not apply to them.
    pub(super) fn reset(&mut self) {
        self.change.reset();
    }

    /// Adds a value and drops the oldest.
    fn insert(&mut self, value: f64) {
        let (new, mut count) = (code(value), usize::from(self.count));
        let place = usize::from(self.next);
        if count == KEPT {
            let old = self.ring[place];
            let at = self.sorted.partition_point(|other| *other < old);
            self.sorted.copy_within(at + 1.., at);
            count -= 1;
        }
        let at = self.sorted[..count].partition_point(|other| *other < new);
        self.sorted.copy_within(at..count, at + 1);
        self.sorted[at] = new;
        self.count = count as u16 + 1;
        self.ring[place] = new;
        self.next = ((place + 1) % KEPT) as u16;
    }

    /// Current weight of the prior.
    fn prior(&self) -> f64 {
        self.prior * (1.0 - f64::from(self.count) / KEPT as f64)
    }
}

fn code(value: f64) -> u16 {
    (value.clamp(0.0, 1.0) * STEPS).round() as u16
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    #[test]
    fn without_values_a_score_is_its_own_rank() {
        let ranks = Ranks::new(true);
        assert!((ranks.rank(0.8, 0.5) - 0.8).abs() < 0.02);
        assert!((ranks.quantile(0.8) - 0.8).abs() < 1e-9);
        let ranks = Ranks::new(false);
        assert!((ranks.rank(0.8, 0.25) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn after_a_shift_only_new_values_count() {
        let at = |n: u64| Moment::from_nanos(n);
        let mut ranks = Ranks::new(true);
        let mut dice = fastrand::Rng::with_seed(1);
        for n in 0..2_000 {
            let score = 0.5 * dice.f64();
            ranks.learn(score, Some(score), at(n), at(n));
        }
        assert_eq!((usize::from(ranks.count), ranks.change.onset()), (KEPT, at(0)), "nothing shifted");
        for n in 2_000..2_020 {
            let score = 0.5 + 0.5 * dice.f64();
            ranks.learn(score, Some(score), at(n), at(n));
            ranks.learn(0.2, None, at(1_900), at(n));
        }
        let onset = ranks.change.onset().nanos();
        assert!((1_990..=2_000).contains(&onset), "it began at {onset}");
        assert_eq!(u64::from(ranks.count), 2_020 - onset, "all that is new, and nothing of older sessions");
        assert!(ranks.quantile(0.5) > 0.5);
    }

    #[test]
    fn identical_values_are_ranked_by_chance() {
        let mut ranks = Ranks::new(true);
        (0..KEPT).for_each(|_| ranks.insert(0.4));
        for chance in [0.0, 0.3, 0.99] {
            assert!((ranks.rank(0.4, chance) - chance).abs() < 1e-9);
        }
        assert!(ranks.rank(0.39, 0.99) < 0.01 && ranks.rank(0.41, 0.0) > 0.99);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        /// Compares with the last values in a list.
        #[test]
        fn ranks_agree_with_a_sorted_list(values in prop::collection::vec(0..40_u16, KEPT..1_500), asked in 0..40_u16, chance in 0.0..1.0_f64) {
            let part = |value: u16| f64::from(value) / 40.0;
            let mut ranks = Ranks::new(true);
            for value in &values {
                ranks.insert(part(*value));
            }
            let last = &values[values.len() - KEPT..];
            let below = last.iter().filter(|value| **value < asked).count() as f64;
            let same = last.iter().filter(|value| **value == asked).count() as f64;
            let rank = ranks.rank(part(asked), chance);
            prop_assert!((rank - (below + chance * (same + 1.0)) / (KEPT as f64 + 1.0)).abs() < 1e-9);
            let mut sorted = last.to_vec();
            sorted.sort_unstable();
            prop_assert!((ranks.quantile(chance) - part(sorted[(chance * KEPT as f64) as usize])).abs() < 1e-4);
        }
    }
}
