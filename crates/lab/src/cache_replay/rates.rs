//! Hit rates and false hit rates of a replay at a chosen prevalence of queries with a partner, with intervals.

use signalbox_measure::beta;

/// Counts of queries by outcome.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Queries with a partner in the store.
    pub with_partner: usize,
    /// Of these, served with a correct answer.
    pub right: usize,
    /// Of these, served with a wrong answer.
    pub wrong: usize,
    /// Queries without a partner.
    pub without: usize,
    /// Of these, served, which is always wrong.
    pub false_hits: usize,
}

impl Counts {
    /// Counts a query: `partner` if the store has its meaning, `served` with the correctness of the answer.
    pub fn add(&mut self, partner: bool, served: Option<bool>) {
        *(if partner { &mut self.with_partner } else { &mut self.without }) += 1;
        match served {
            Some(true) => self.right += 1,
            Some(false) if partner => self.wrong += 1,
            Some(false) => self.false_hits += 1,
            None => {}
        }
    }

    /// Number of served queries.
    pub fn hits(&self) -> usize {
        self.right + self.wrong + self.false_hits
    }
}

/// A rate with its 95 % interval.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Interval {
    /// Measured rate.
    pub rate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Rates at a prevalence.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Rates {
    /// Hits per query.
    pub hit_rate: Interval,
    /// False hits per hit.
    pub per_hit: Interval,
    /// False hits per query.
    pub per_request: Interval,
    /// Number of hits.
    pub hits: usize,
}

/// Samples per interval.
const DRAWS: usize = 4_000;

/// Rates if `prevalence` of the queries have a partner. Queries with and without one were replayed once each and are weighted to that share.
/// Intervals come from samples of the posteriors of the three underlying rates (Jeffreys' prior) at quasi-random points, so that equal counts
/// give equal intervals.
pub fn at_prevalence(counts: &Counts, prevalence: f64) -> Rates {
    let share = |part: usize, all: usize| if all == 0 { 0.0 } else { part as f64 / all as f64 };
    let join = |right: f64, wrong: f64, falsely: f64| {
        let false_hits = prevalence * wrong + (1.0 - prevalence) * falsely;
        (prevalence * right + false_hits, false_hits)
    };
    let (hit_rate, per_request) = join(
        share(counts.right, counts.with_partner),
        share(counts.wrong, counts.with_partner),
        share(counts.false_hits, counts.without),
    );
    let posterior = |part: usize, all: usize| {
        let (a, b) = (part as f64 + 0.5, (all - part) as f64 + 0.5);
        // Tabulated, since each quantile takes many steps.
        let table: Vec<f64> = (0..=400).map(|at| beta::quantile((f64::from(at) + 0.5) / 401.0, a, b)).collect();
        move |p: f64| table[((p * 401.0) as usize).min(400)]
    };
    let right = posterior(counts.right, counts.with_partner);
    let wrong = posterior(counts.wrong, counts.with_partner);
    let falsely = posterior(counts.false_hits, counts.without);
    // Halton's sequence in three bases covers the cube evenly.
    let draws: Vec<(f64, f64)> =
        (1..=DRAWS).map(|at| join(right(halton(at, 2)), wrong(halton(at, 3)), falsely(halton(at, 5)))).collect();
    let per_hit = draws.iter().map(|(hits, false_hits)| false_hits / hits.max(f64::MIN_POSITIVE)).collect();
    let rate = if hit_rate > 0.0 { per_request / hit_rate } else { 0.0 };
    Rates {
        hit_rate: Interval::of(hit_rate, draws.iter().map(|(hits, _)| *hits).collect()),
        per_hit: if counts.hits() == 0 { Interval { rate, low: 0.0, high: 1.0 } } else { Interval::of(rate, per_hit) },
        per_request: Interval::of(per_request, draws.iter().map(|(_, false_hits)| *false_hits).collect()),
        hits: counts.hits(),
    }
}

impl Interval {
    /// The measured rate between the 2.5 % and 97.5 % quantiles of the samples.
    fn of(rate: f64, mut draws: Vec<f64>) -> Self {
        draws.sort_by(f64::total_cmp);
        let (low, high) = (draws[DRAWS / 40], draws[DRAWS - DRAWS / 40]);
        Self { rate, low: low.min(rate), high: high.max(rate) }
    }
}

/// Element `at` of Halton's sequence (Numerische Mathematik, 1960).
fn halton(mut at: usize, base: usize) -> f64 {
    let (mut value, mut part) = (0.0, 1.0);
    while at > 0 {
        part /= base as f64;
        value += part * (at % base) as f64;
        at /= base;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_weighed_to_the_prevalence() {
        let counts = Counts { with_partner: 100, right: 40, wrong: 1, without: 1_000, false_hits: 2 };
        let rates = at_prevalence(&counts, 0.1);
        assert!((rates.hit_rate.rate - (0.1 * 0.41 + 0.9 * 0.002)).abs() < 1e-12);
        assert!((rates.per_request.rate - (0.001 + 0.0018)).abs() < 1e-12);
        for Interval { rate, low, high } in [rates.hit_rate, rates.per_hit, rates.per_request] {
            assert!(0.0 < low && low < rate && rate < high && high < 1.0);
        }
        assert!(
            at_prevalence(&counts, 0.01).per_hit.rate > rates.per_hit.rate,
            "fewer partners, more of the hits are false"
        );
        let none = at_prevalence(&Counts::default(), 0.1);
        assert!(none.hits == 0 && none.per_hit.high > 0.99 && none.per_request.high > 0.1);
    }

    #[test]
    fn queries_are_counted_by_what_became_of_them() {
        let mut counts = Counts::default();
        for (partner, served) in
            [(true, Some(true)), (true, Some(false)), (true, None), (false, Some(false)), (false, None)]
        {
            counts.add(partner, served);
        }
        assert_eq!(counts, Counts { with_partner: 3, right: 1, wrong: 1, without: 2, false_hits: 1 });
        assert_eq!(counts.hits(), 3);
    }
}
