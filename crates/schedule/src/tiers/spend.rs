//! Spending over the last hour, and the rate at which it may continue.

use signalbox_types::Moment;

/// Nanoseconds of a slot: a minute.
const SLOT: u64 = 60_000_000_000;
/// Number of slots: sixty whole ones and the current one, so that only amounts older than an hour are dropped.
const SLOTS: usize = 61;
/// Part of a budget that may be spent at once: ten minutes' worth.
const AT_ONCE: f64 = 1.0 / 6.0;
/// Recent slots that indicate the cheapest tier's current cost, besides the whole hour.
const LATELY: u64 = 10;
/// Factor on that cost for the amount that is reserved, since traffic grows.
const RESERVE: f64 = 1.25;

/// Costs of the last sixty to sixty-one minutes, in USD, and a token bucket that fills as fast as the budget allows.
///
/// The bucket's rate is the highest that could continue for an hour without any hour exceeding the budget, given the
/// spending so far: after an expensive minute it is lower until that minute is an hour old.
#[derive(Clone, Debug)]
pub(super) struct Spend {
    slots: [f64; SLOTS],
    /// Cost of the same requests in the cheapest tier.
    cheapest: [f64; SLOTS],
    /// Number of the current slot.
    newest: u64,
    /// Sum of all slots.
    hour: f64,
    /// USD that may be spent; negative after an unavoidable overspend.
    bucket: f64,
    /// USD per second that can be spent from now on.
    rate: f64,
    /// USD per second that the cheapest tier alone costs.
    floor: f64,
    /// Time of the last refill.
    at: Moment,
    /// Seconds since the rates were computed.
    unread: f64,
    /// Budget that the bucket and the rate are based on.
    budget: f64,
}

impl Spend {
    /// Creates an empty account without a budget.
    pub(super) const fn new() -> Self {
        let (newest, at) = (0, Moment::from_nanos(0));
        let slots = [0.0; SLOTS];
        Self {
            slots,
            cheapest: slots,
            newest,
            hour: 0.0,
            bucket: 0.0,
            rate: 0.0,
            floor: 0.0,
            at,
            unread: 0.0,
            budget: 0.0,
        }
    }

    /// Advances to `now`, with a budget of `budget` USD an hour (0 for none).
    pub(super) fn advance(&mut self, budget: f64, now: Moment) {
        let budget = if budget.is_finite() { budget.max(0.0) } else { 0.0 };
        let slot = now.nanos() / SLOT;
        let turned = slot > self.newest;
        if turned {
            let gone = (slot - self.newest).min(SLOTS as u64);
            for place in (0..gone).map(|ahead| place_of(slot - ahead)) {
                (self.slots[place], self.cheapest[place]) = (0.0, 0.0);
            }
            (self.newest, self.hour) = (slot, self.slots.iter().sum());
        }
        if budget.to_bits() != self.budget.to_bits() {
            // A new budget starts with the amount that may be spent at once, less what was spent.
            (self.budget, self.bucket, self.at) = (budget, (budget * AT_ONCE).min(budget - self.hour), now);
            (self.rate, self.floor) = (self.affordable_rate(now), self.cheapest_rate());
        }
        let seconds = now.seconds_since(self.at);
        let most = budget * AT_ONCE;
        self.bucket = (self.bucket + self.rate * seconds).clamp(-most, most);
        self.at = self.at.max(now);
        self.unread += seconds;
        if turned || self.unread > 1.0 {
            (self.rate, self.floor, self.unread) = (self.affordable_rate(now), self.cheapest_rate(), 0.0);
        }
    }

    /// Adds a request that cost `usd`, and would have cost `cheapest` in the cheapest tier.
    pub(super) fn pay(&mut self, usd: f64, cheapest: f64) {
        let place = place_of(self.newest);
        self.slots[place] += usd;
        self.cheapest[place] += cheapest;
        self.hour += usd;
        self.bucket -= usd;
    }

    /// USD of the last hour.
    pub(super) const fn hour(&self) -> f64 {
        self.hour
    }

    /// Fill of the bucket, in `0..=1`: the share of requests that may go up.
    pub(super) fn level(&self) -> f64 {
        let most = self.budget * AT_ONCE;
        if most > 0.0 { (self.bucket / most).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// True if a request of `usd` fits the hour's budget together with the cheapest tier's expected cost.
    pub(super) fn affords(&self, usd: f64) -> bool {
        self.hour + usd <= self.budget && self.rate >= RESERVE * self.floor
    }

    /// Cost of the cheapest tier alone, in USD per second: over the last hour or the last ten minutes, whichever is
    /// more.
    fn cheapest_rate(&self) -> f64 {
        let last = |slots: u64| {
            let places = (0..slots.min(self.newest + 1)).map(|ago| place_of(self.newest - ago));
            places.map(|place| self.cheapest[place]).sum::<f64>() / (slots * SLOT) as f64 * 1e9
        };
        last(SLOTS as u64).max(last(LATELY))
    }

    /// Highest rate, in USD per second, that stays within the budget until all spending so far has expired.
    fn affordable_rate(&self, now: Moment) -> f64 {
        let mut left = self.budget - self.hour;
        let mut rate = f64::INFINITY;
        for ahead in 1..=SLOTS as u64 {
            // The oldest slot expires first, when the next one begins.
            let until = (self.newest + ahead) * SLOT;
            let seconds = until.saturating_sub(now.nanos()) as f64 / 1e9;
            rate = rate.min(left / seconds.max(1e-3));
            left += self.slots[place_of(self.newest + ahead)];
        }
        rate.max(0.0)
    }
}

/// Index of the slot with this number.
const fn place_of(slot: u64) -> usize {
    (slot % SLOTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    fn at(seconds: f64) -> Moment {
        Moment::from_nanos((seconds * 1e9) as u64)
    }

    #[test]
    fn spending_expires_after_an_hour() {
        let mut spend = Spend::new();
        spend.advance(60.0, at(30.0));
        spend.pay(5.0, 0.0);
        spend.advance(60.0, at(3_630.0));
        assert!((spend.hour() - 5.0).abs() < 1e-9);
        assert!(spend.affords(55.0) && !spend.affords(55.1));
        spend.advance(60.0, at(3_660.0));
        assert!(spend.hour().abs() < 1e-9);
        spend.advance(60.0, at(1e6));
        assert!(spend.hour().abs() < 1e-9 && (spend.level() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_bucket_holds_ten_minutes_and_the_rate_is_the_rest() {
        let mut spend = Spend::new();
        spend.advance(61.0, at(0.0));
        assert!((spend.level() - 1.0).abs() < 1e-9);
        assert!((spend.rate - 61.0 / 3_660.0).abs() < 1e-9, "{}", spend.rate);
        spend.pay(30.5, 0.0);
        assert!(spend.level() < 1e-9);
        spend.advance(61.0, at(60.0));
        assert!((spend.rate - 30.5 / 3_600.0).abs() < 1e-6, "half of it is gone until the end: {}", spend.rate);
        spend.pay(0.0, 9.0);
        spend.advance(61.0, at(62.0));
        assert!(!spend.affords(1.0), "the cheapest tier took 9 in ten minutes, and may take as much again");
        spend.advance(0.0, at(63.0));
        assert!(spend.level() < 1e-9 && !spend.affords(0.01));
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        /// A caller that asks first never exceeds the budget in any hour, and the sums equal those of a list.
        #[test]
        fn no_hour_passes_the_budget(asked in prop::collection::vec((0.0..200.0_f64, 0.0..3.0_f64), 0..300)) {
            let (mut spend, mut paid, mut now) = (Spend::new(), Vec::new(), 0.0);
            for (pause, usd) in asked {
                now += pause;
                spend.advance(10.0, at(now));
                if spend.affords(usd) {
                    spend.pay(usd, 0.0);
                    paid.push((now, usd));
                }
                let hour: f64 = paid.iter().filter(|(when, _)| now - when <= 3_600.0).map(|paid| paid.1).sum();
                let longer: f64 = paid.iter().filter(|(when, _)| now - when <= 3_660.0).map(|paid| paid.1).sum();
                prop_assert!(hour <= 10.0 + 1e-6);
                prop_assert!((hour - 1e-6..=longer + 1e-6).contains(&spend.hour()), "{hour} {} {longer}", spend.hour());
                prop_assert!((0.0..=1.0).contains(&spend.level()) && spend.rate.is_finite());
            }
        }
    }
}
