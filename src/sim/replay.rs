//! Recorded arrivals as a workload: at any rate, varied by a seed.

use std::time::Duration;

use super::{Job, trace::Arrival, traffic::Request};

/// Share of a trace's families that a seed plays.
const KEPT: f64 = 0.8;

/// Plays `arrivals`, in order, at `rate` times their recorded load for at most `limit`. A seed drops a fifth of the families (prompts with the
/// same first block; without blocks each prompt is its own) and plays the rest faster by as much, starts at another point of the trace (which
/// wraps around), and moves every arrival by up to 0.2 s.
pub fn replay(arrivals: &[Arrival], rate: f64, limit: Duration, seed: u64) -> Vec<Request> {
    if arrivals.is_empty() {
        return Vec::new();
    }
    let mut dice = fastrand::Rng::with_seed(seed);
    let whole = arrivals.last().map_or(Duration::ZERO, |last| last.at) + Duration::from_millis(1);
    let start = dice.usize(..arrivals.len());
    let offset = arrivals[start].at;
    let kept = |at: usize| {
        let family = arrivals[at].blocks.first().copied().unwrap_or(at as u64);
        ((hash(seed, family) >> 11) as f64) < KEPT * (1_u64 << 53) as f64
    };
    // A seed might drop all of a very short trace.
    let all = !(0..arrivals.len()).any(kept);
    let mut requests: Vec<Request> = (start..arrivals.len())
        .chain(0..start)
        .filter(|&at| all || kept(at))
        .map(|at| {
            let arrival = &arrivals[at];
            let at = arrival.at.checked_sub(offset).unwrap_or_else(|| (arrival.at + whole).saturating_sub(offset));
            (at.as_secs_f64() * KEPT / rate + dice.f64() * 0.2, arrival)
        })
        .take_while(|(at, _)| *at < limit.as_secs_f64())
        .map(|(at, arrival)| Request {
            at: Duration::from_secs_f64(at),
            job: Job {
                prompt_tokens: arrival.prompt_tokens,
                blocks: arrival.blocks.clone(),
                output_tokens: arrival.output_tokens.max(1),
                ..Job::default()
            },
            whole: arrival.whole,
            ..Request::default()
        })
        .collect();
    requests.sort_by_key(|request| request.at);
    requests
}

/// Deterministic mix of a family and a block number.
pub fn hash(family: u64, block: u64) -> u64 {
    let mut mixed = (family << 20 | block).wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::trace::excerpt;

    #[test]
    fn the_load_is_the_recorded_one_times_the_rate() {
        let arrivals: Vec<_> = excerpt(1, 4_000, 10.0).collect();
        for (rate, seed) in [(0.5, 1), (1.0, 2), (2.0, 3)] {
            let requests = replay(&arrivals, rate, Duration::from_secs(100), seed);
            let per_second = requests.len() as f64 / 100.0;
            assert!((per_second / 10.0 / rate - 1.0).abs() < 0.15, "{per_second} at {rate}");
            assert_eq!(requests, replay(&arrivals, rate, Duration::from_secs(100), seed));
        }
    }

    #[test]
    fn few_arrivals_are_played_with_every_seed() {
        let arrivals: Vec<_> = excerpt(1, 1, 1.0).collect();
        for seed in 0..50 {
            assert_eq!(replay(&arrivals, 1.0, Duration::from_secs(10), seed).len(), 1, "seed {seed}");
        }
        assert_eq!(replay(&[], 1.0, Duration::from_secs(10), 1), []);
    }
}
