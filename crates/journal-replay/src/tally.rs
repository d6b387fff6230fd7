//! Metrics of a policy over a journal: recorded or simulated.

use std::time::Duration;

/// Limits of an answer.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Limits {
    /// Limit on TTFT.
    pub ttft: Duration,
    /// Limit on TPOT.
    pub tpot: Duration,
}

/// A request with its outcome.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ended {
    /// Pool that answered, or whose cached answer was served.
    pub pool: Option<String>,
    /// TTFT from arrival, in seconds.
    pub ttft: Option<f64>,
    /// TPOT, in seconds.
    pub tpot: Option<f64>,
    /// Cost in US dollars; `None` without a price.
    pub cost: Option<f64>,
    /// Prompt tokens, and those that its engine had cached.
    pub prompt_tokens: u64,
    /// See [`prompt_tokens`](Self::prompt_tokens).
    pub cached_tokens: u64,
    /// The end of the request.
    pub end: End,
    /// The request's limits.
    pub limits: Option<Limits>,
}

/// End of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// Answered by an engine.
    Answered,
    /// Answered by a cache.
    Kept,
    /// The client disconnected.
    Left,
    /// Refused, with the reason.
    Refused(String),
    /// No answer, or one that was cut.
    #[default]
    Failed,
}

/// Metrics over requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Number of requests.
    pub requests: usize,
    /// Answers of engines by pool, in order of first appearance.
    pub pools: Vec<(String, usize)>,
    /// Requests answered by a cache.
    pub kept: usize,
    /// Refused requests, by reason.
    pub refused: Vec<(String, usize)>,
    /// Requests without an answer, or with one that was cut.
    pub failed: usize,
    /// TTFT of engines' answers, in seconds, ascending.
    pub ttfts: Vec<f64>,
    /// TPOT of engines' answers, in seconds, ascending.
    pub tpots: Vec<f64>,
    /// Share answered within the limits, of the requests whose clients stayed.
    pub attainment: f64,
    /// Cost in US dollars; `None` if no answer had a price.
    pub cost: Option<f64>,
    /// Share of prompt tokens that engines had cached.
    pub cached: f64,
}

impl Tally {
    /// Metrics over `ended`.
    pub fn of(ended: &[Ended]) -> Self {
        let mut tally = Self { requests: ended.len(), ..Self::default() };
        let (mut stayed, mut in_time, mut prompt, mut cached) = (0_u64, 0_u64, 0, 0);
        for one in ended {
            let answered = one.end == End::Answered;
            if let (true, Some(pool)) = (answered, &one.pool) {
                count(&mut tally.pools, pool);
                prompt += one.prompt_tokens;
                cached += one.cached_tokens;
                tally.ttfts.extend(one.ttft);
                tally.tpots.extend(one.tpot);
            }
            match &one.end {
                End::Kept => tally.kept += 1,
                End::Refused(reason) => count(&mut tally.refused, reason),
                End::Failed => tally.failed += 1,
                End::Answered | End::Left => {}
            }
            tally.cost = match (tally.cost, one.cost) {
                (None, None) => None,
                (sum, cost) => Some(sum.unwrap_or(0.0) + cost.unwrap_or(0.0)),
            };
            if one.end != End::Left {
                stayed += 1;
                in_time += u64::from(one.end == End::Kept || answered && one.kept_limits());
            }
        }
        tally.ttfts.sort_by(f64::total_cmp);
        tally.tpots.sort_by(f64::total_cmp);
        tally.attainment = in_time as f64 / stayed.max(1) as f64;
        tally.cached = cached as f64 / prompt.max(1) as f64;
        tally
    }

    /// Share of engines' answers that a pool gave, 0 to 1.
    pub fn share(&self, pool: &str) -> f64 {
        let all: usize = self.pools.iter().map(|(_, count)| count).sum();
        let own = self.pools.iter().find(|(name, _)| name == pool).map_or(0, |(_, count)| *count);
        own as f64 / all.max(1) as f64
    }

    /// Number of refused requests.
    pub fn refusals(&self) -> usize {
        self.refused.iter().map(|(_, count)| count).sum()
    }

    /// Quantile of TTFT, in seconds; NaN without answers.
    pub fn ttft(&self, share: f64) -> f64 {
        quantile(&self.ttfts, share)
    }

    /// Quantile of TPOT, in seconds; NaN without answers.
    pub fn tpot(&self, share: f64) -> f64 {
        quantile(&self.tpots, share)
    }
}

impl Ended {
    fn kept_limits(&self) -> bool {
        let Some(limits) = self.limits else { return true };
        self.ttft.is_none_or(|ttft| ttft <= limits.ttft.as_secs_f64())
            && self.tpot.is_none_or(|tpot| tpot <= limits.tpot.as_secs_f64())
    }
}

fn count(counts: &mut Vec<(String, usize)>, name: &str) {
    match counts.iter_mut().find(|(known, _)| known == name) {
        Some((_, count)) => *count += 1,
        None => counts.push((name.to_owned(), 1)),
    }
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = (sorted.len() as f64 * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_counts_where_it_belongs() {
        let limits = Some(Limits { ttft: Duration::from_secs(1), tpot: Duration::from_millis(50) });
        let answered = |pool: &str, ttft| Ended {
            pool: Some(pool.to_owned()),
            ttft: Some(ttft),
            cost: Some(0.5),
            prompt_tokens: 100,
            cached_tokens: 25,
            end: End::Answered,
            limits,
            ..Ended::default()
        };
        let ended = |end| Ended { end, ..Ended::default() };
        let all = [
            answered("a", 0.5),
            answered("a", 2.0),
            answered("b", 0.1),
            ended(End::Kept),
            ended(End::Left),
            ended(End::Refused("queue_full".to_owned())),
            ended(End::Failed),
        ];
        let tally = Tally::of(&all);
        assert_eq!((tally.requests, tally.kept, tally.failed, tally.refusals()), (7, 1, 1, 1));
        assert!((tally.share("a") - 2.0 / 3.0).abs() < 1e-9);
        assert!((tally.attainment - 3.0 / 6.0).abs() < 1e-9, "{tally:?}");
        assert_eq!((tally.cost, tally.cached), (Some(1.5), 0.25));
        assert!((tally.ttft(0.5) - 0.5).abs() < 1e-9 && tally.tpot(0.5).is_nan());
    }
}
