//! The value of a ranking of prompts: the quality gained as more of them go to the large model, hardest first.
//!
//! PGR(a) is the share of the gap between the small and the large model's quality that is recovered with the share a of
//! all prompts on the large one; APGR is its mean over all a, 0.5 for chance; CPT(x) is the smallest share that
//! recovers x of the gap (`RouteLLM`, Ong et al., 2024). Prompts with equal scores count as if in random order.

/// Prompts in the order in which a ranking sends them to the large model.
#[derive(Clone, Debug)]
pub struct Ranking {
    order: Vec<u32>,
    /// The end of each run of equal scores in that order.
    ends: Vec<u32>,
}

/// The value of a ranking.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct RankingValue {
    /// Quality gained per prompt, averaged over all shares: APGR times the mean gap, defined even if the gap is zero.
    pub gained: f64,
    /// Mean of PGR over all shares.
    pub apgr: f64,
    /// The share of prompts on the large model that recovers half of the gap; NaN if none does.
    pub cpt50: f64,
    /// The share that recovers 80 % of it; NaN if none does.
    pub cpt80: f64,
    /// The share of the gap recovered with a quarter of the prompts on the large model.
    pub pgr25: f64,
}

impl Ranking {
    /// Ranks prompts by their scores, the highest first.
    pub fn new(scores: &[f64]) -> Self {
        let mut order: Vec<u32> = (0..scores.len() as u32).collect();
        let score = |at: u32| scores[at as usize];
        order.sort_by(|one, other| score(*other).total_cmp(&score(*one)).then(one.cmp(other)));
        let mut ends: Vec<u32> = (1..order.len() as u32)
            .filter(|at| score(order[*at as usize - 1]).total_cmp(&score(order[*at as usize])).is_ne())
            .collect();
        ends.push(order.len() as u32);
        Self { order, ends }
    }

    /// The value of the ranking if the large model adds `gaps`, with prompt `i` repeated `times(i)` times. Shares of
    /// the gap are NaN if the large model adds nothing in total.
    ///
    /// # Panics
    /// If there are fewer gaps or times than prompts.
    pub fn worth(&self, gaps: &[f64], times: impl Fn(usize) -> f64) -> RankingValue {
        let (mut total, mut count) = (0.0, 0.0);
        for at in &self.order {
            let at = *at as usize;
            total += gaps[at] * times(at);
            count += times(at);
        }
        let nothing = RankingValue { gained: 0.0, apgr: f64::NAN, cpt50: f64::NAN, cpt80: f64::NAN, pgr25: f64::NAN };
        if count <= 0.0 {
            return nothing;
        }
        // Gains are summed unnormalised: sums of outcomes of 0 and 1 are exact, so that reaching half of them is
        // decided exactly.
        let (mut worth, mut x, mut y, mut start) = (nothing, 0.0, 0.0, 0);
        for end in &self.ends {
            let (mut dx, mut dy) = (0.0, 0.0);
            for at in &self.order[start..*end as usize] {
                let at = *at as usize;
                dx += times(at) / count;
                dy += times(at) * gaps[at];
            }
            start = *end as usize;
            worth.gained += dx * (y + dy / 2.0) / count;
            // Within a run of equal scores the curve is a straight line.
            let crossing = |height: f64| (y < height && y + dy >= height).then(|| x + dx * (height - y) / dy);
            worth.cpt50 = worth.cpt50.min(crossing(0.5 * total).unwrap_or(f64::NAN));
            worth.cpt80 = worth.cpt80.min(crossing(0.8 * total).unwrap_or(f64::NAN));
            if x <= 0.25 && x + dx > 0.25 {
                worth.pgr25 = (y + dy * (0.25 - x) / dx) / total;
            }
            x += dx;
            y += dy;
        }
        worth.apgr = worth.gained * count / total;
        if total > 0.0 { worth } else { RankingValue { gained: worth.gained, ..nothing } }
    }
}

/// A 95 % confidence interval.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Interval {
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

impl Interval {
    /// The middle 95 % of the samples `drawn`; NaN if there are fewer than 20.
    pub fn of(mut drawn: Vec<f64>) -> Self {
        drawn.retain(|value| value.is_finite());
        drawn.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (share * drawn.len() as f64) as usize;
            if drawn.len() < 20 { f64::NAN } else { drawn[place.min(drawn.len() - 1)] }
        };
        Self { low: at(0.025), high: at(0.975) }
    }
}

/// The values of several rankings of the same prompts in `draws` bootstrap samples, the same ones for each ranking, so
/// that differences are paired (Efron, 1979). Returns one list per ranking.
pub fn bootstrap(rankings: &[Ranking], gaps: &[f64], draws: usize, seed: u64) -> Vec<Vec<RankingValue>> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut worths = vec![Vec::with_capacity(draws); rankings.len()];
    let mut times = vec![0_u16; gaps.len()];
    for _ in 0..draws {
        times.fill(0);
        for _ in 0..gaps.len() {
            times[dice.usize(..gaps.len())] += 1;
        }
        for (ranking, worths) in rankings.iter().zip(&mut worths) {
            worths.push(ranking.worth(gaps, |at| f64::from(times[at])));
        }
    }
    worths
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn worth(scores: &[f64], gaps: &[f64]) -> RankingValue {
        Ranking::new(scores).worth(gaps, |_| 1.0)
    }

    #[test]
    fn chance_is_half_and_an_oracle_is_above_it() {
        let gaps = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0];
        let chance = worth(&[0.0; 8], &gaps);
        assert_eq!(chance, RankingValue { gained: 0.125, apgr: 0.5, cpt50: 0.5, cpt80: 0.8, pgr25: 0.25 });
        let oracle = worth(&gaps, &gaps);
        assert_eq!(oracle, RankingValue { gained: 0.875 / 4.0, apgr: 0.875, cpt50: 0.125, cpt80: 0.2, pgr25: 1.0 });
        let nothing = worth(&[1.0, 0.0], &[-1.0, 1.0]);
        assert!((nothing.gained + 0.25).abs() < 1e-12, "{nothing:?}");
        assert!([nothing.apgr, nothing.cpt50, nothing.cpt80, nothing.pgr25].iter().all(|part| part.is_nan()));
    }

    #[test]
    fn intervals_are_paired_and_repeatable() {
        let gaps: Vec<f64> = (0..200).map(|at| f64::from(at % 7) / 7.0 - 0.2).collect();
        let noisy: Vec<f64> = gaps.iter().enumerate().map(|(at, gap)| gap + (at % 5) as f64 / 5.0).collect();
        let rankings = [Ranking::new(&noisy), Ranking::new(&vec![0.0; 200])];
        let drawn = bootstrap(&rankings, &gaps, 200, 7);
        assert_eq!(drawn, bootstrap(&rankings, &gaps, 200, 7));
        let better = drawn[0].iter().zip(&drawn[1]).map(|(one, other)| one.apgr - other.apgr).collect();
        assert!(Interval::of(better).low > 0.0);
    }

    proptest! {
        #[test]
        fn a_reversed_ranking_is_worth_the_rest(scores in prop::collection::vec(0..5_u8, 2..40)) {
            let scores: Vec<f64> = scores.into_iter().map(f64::from).collect();
            let gaps: Vec<f64> = (0..scores.len()).map(|at| (at % 3) as f64).collect();
            let reversed: Vec<f64> = scores.iter().map(|score| -score).collect();
            let sum = worth(&scores, &gaps).apgr + worth(&reversed, &gaps).apgr;
            prop_assert!((sum - 1.0).abs() < 1e-9);
        }
    }
}
