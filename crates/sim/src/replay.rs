//! Recorded arrivals as a workload: at any rate, varied by a seed.

use std::{collections::HashMap, time::Duration};

use super::{Job, trace::Arrival, traffic::Request};

/// Share of a trace's families that a seed keeps, by their requests.
const KEPT: f64 = 0.8;
/// Largest share of a trace's requests in a family.
const LARGEST: f64 = 0.1;

/// Plays `arrivals`, in order, at `rate` times their recorded load for at most `limit`. A seed drops about a fifth of the families
/// and plays the rest faster by as much as it dropped, starts at another point of the trace (which wraps around), and moves every
/// arrival by up to 0.2 s. A family is what begins with the same blocks: as few of them as leave it at most a tenth of the trace, so
/// that a system prompt that all have in common makes no single family. Prompts without blocks, or with the same ones as more than a
/// tenth of the trace, are their own.
pub fn replay(arrivals: &[Arrival], rate: f64, limit: Duration, seed: u64) -> Vec<Request> {
    if arrivals.is_empty() {
        return Vec::new();
    }
    let mut dice = fastrand::Rng::with_seed(seed);
    let whole = arrivals.last().map_or(Duration::ZERO, |last| last.at) + Duration::from_millis(1);
    let start = dice.usize(..arrivals.len());
    let offset = arrivals[start].at;
    let kept: Vec<bool> = families(arrivals)
        .into_iter()
        .map(|family| ((hash(seed, family) >> 11) as f64) < KEPT * (1_u64 << 53) as f64)
        .collect();
    // A seed might drop all of a very short trace.
    let all = !kept.contains(&true);
    let share = if all { 1.0 } else { kept.iter().filter(|kept| **kept).count() as f64 / kept.len() as f64 };
    let mut requests: Vec<Request> = (start..arrivals.len())
        .chain(0..start)
        .filter(|&at| all || kept[at])
        .map(|at| {
            let arrival = &arrivals[at];
            let at = arrival.at.checked_sub(offset).unwrap_or_else(|| (arrival.at + whole).saturating_sub(offset));
            (at.as_secs_f64() * share / rate + dice.f64() * 0.2, arrival)
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

/// The family of each arrival.
fn families(arrivals: &[Arrival]) -> Vec<u64> {
    let most = (arrivals.len() as f64 * LARGEST).max(1.0) as usize;
    let mut family: Vec<u64> = (0..arrivals.len() as u64).map(|at| hash(u64::MAX, at)).collect();
    let first = |at: &usize| !arrivals[*at].blocks.is_empty();
    // Groups of arrivals with a prefix of this many blocks in common.
    let mut open = vec![(0, 0, (0..arrivals.len()).filter(first).collect::<Vec<_>>())];
    while let Some((depth, prefix, group)) = open.pop() {
        let mut parts: HashMap<Option<u64>, Vec<usize>> = HashMap::new();
        for at in group {
            parts.entry(arrivals[at].blocks.get(depth).copied()).or_default().push(at);
        }
        for (block, part) in parts {
            let name = hash(prefix, block.unwrap_or(u64::MAX));
            if part.len() <= most {
                for at in part {
                    family[at] = name;
                }
            } else if block.is_some() {
                open.push((depth + 1, name, part));
            }
            // Otherwise they are equal to their ends, and each is its own.
        }
    }
    family
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
    use std::collections::HashSet;

    use super::*;
    use crate::trace::excerpt;

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
    fn a_common_system_prompt_makes_no_single_family() {
        let shared: Vec<_> = excerpt(1, 4_000, 10.0)
            .zip(0_u64..)
            .map(|(arrival, at)| Arrival { blocks: [1, 2, 3, 10 + at % 200, 1_000 + at].into(), ..arrival })
            .collect();
        for (rate, seed) in [(1.0, 1), (1.0, 2), (1.0, 3), (2.0, 4)] {
            let requests = replay(&shared, rate, Duration::from_secs(100), seed);
            let per_second = requests.len() as f64 / 100.0;
            assert!((per_second / 10.0 / rate - 1.0).abs() < 0.15, "{per_second} at {rate}");
            let talks: HashSet<u64> = requests.iter().map(|request| request.job.blocks[3]).collect();
            assert!((130..190).contains(&talks.len()), "a fifth of 200 is left out whole: {}", talks.len());
        }
        let alike: Vec<_> = shared.into_iter().map(|arrival| Arrival { blocks: [1, 2].into(), ..arrival }).collect();
        let requests = replay(&alike, 1.0, Duration::from_secs(100), 1);
        assert!((850..1_150).contains(&requests.len()), "at its own rate: {}", requests.len());
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
