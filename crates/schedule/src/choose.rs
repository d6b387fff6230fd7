//! The choice among the candidates of one pool.

use super::cost::cost;
use signalbox_types::{Candidate, Strategy};

/// Random inputs of a decision, drawn by the caller, so that the same input always gives the same choice.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Draw {
    /// Number of the decision in its pool, for taking turns.
    pub turn: u64,
    /// Uniform in `0..1`.
    pub chance: f64,
}

/// Part of the usual latency below which a measurement has faded: no engine is so much faster than the others.
const FADED: f64 = 0.01;
/// Latency that engines under way are charged while none is measured, in seconds: any value, so that the least busy is taken.
const UNMEASURED: f64 = 1e-3;

/// Reason for a choice.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was the only candidate.
    Only,
    /// Its fixed share was drawn.
    Weight,
    /// The strategy preferred it.
    Strategy(Strategy),
    /// Every candidate failed lately; the strategy chose among all of them.
    Panic,
}

impl Reason {
    /// Label for headers, the journal and the status page.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Only => "only",
            Self::Weight => "weight",
            Self::Strategy(strategy) => strategy.name(),
            Self::Panic => "panic",
        }
    }
}

/// A decision.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Choice {
    /// Index of the chosen candidate.
    pub index: usize,
    /// Reason for the choice.
    pub reason: Reason,
}

/// Chooses among `candidates`; `None` without any. Writes the cost of each into `costs`, in the strategy's own unit,
/// `None` for those that were not weighed.
pub fn choose(
    strategy: Strategy,
    candidates: &[Candidate],
    draw: Draw,
    costs: &mut Vec<Option<f64>>,
) -> Option<Choice> {
    costs.clear();
    costs.resize(candidates.len(), None);
    let panic = candidates.iter().all(|candidate| candidate.avoided);
    let usable = |candidate: &Candidate| panic || !candidate.avoided;
    let chosen = |index, reason| Some(Choice { index, reason: if panic { Reason::Panic } else { reason } });

    if let [_] = candidates {
        return chosen(0, Reason::Only);
    }
    let chance = match draw_weight(candidates, &usable, draw.chance) {
        Ok(index) => return chosen(index, Reason::Weight),
        Err(chance) => chance,
    };
    // If only weighted backends are not avoided, they are used without their shares.
    let unweighted = candidates.iter().any(|candidate| usable(candidate) && candidate.weight.is_none());
    let open = |candidate: &Candidate| usable(candidate) && !(unweighted && candidate.weight.is_some());
    let pair = (strategy == Strategy::PowerOfTwo).then(|| {
        let count = candidates.iter().filter(|candidate| open(candidate)).count();
        two_of(count, chance)
    });
    let usual = (strategy == Strategy::PeakEwma).then(|| usual_latency(candidates, costs));
    let mut place = 0;
    for (candidate, slot) in candidates.iter().zip(costs.iter_mut()) {
        if open(candidate) {
            if pair.is_none_or(|(one, other)| place == one || place == other) {
                *slot = Some(match usual {
                    Some(usual) => cost(strategy, &with_latency(candidate, usual)),
                    None => cost(strategy, candidate),
                });
            }
            place += 1;
        }
    }
    // Of two drawn candidates, ties go to the one drawn first.
    let turn = pair.map_or(draw.turn, |(one, other)| u64::from(one > other));
    let index = smallest(costs, candidates, turn)?;
    chosen(index, Reason::Strategy(strategy))
}

/// Median of the measured latencies in seconds; 0 without any. Sorts them in `costs`, so that nothing is allocated, and
/// leaves no cost there.
fn usual_latency(candidates: &[Candidate], costs: &mut Vec<Option<f64>>) -> f64 {
    costs.clear();
    costs.extend(candidates.iter().map(|candidate| candidate.latency).filter(|&latency| latency > 0.0).map(Some));
    let middle = costs.len() / 2;
    let by_latency = |one: &Option<f64>, other: &Option<f64>| one.unwrap_or(0.0).total_cmp(&other.unwrap_or(0.0));
    let median = match costs.len() {
        0 => 0.0,
        _ => costs.select_nth_unstable_by(middle, by_latency).1.unwrap_or(0.0),
    };
    costs.clear();
    costs.resize(candidates.len(), None);
    median
}

/// The candidate with the latency that it is charged. An engine without a measurement, or with one that has faded, is
/// tried with one request. While that is under way it is charged the `usual` latency: otherwise one that begins slowly would get
/// all requests until its first answer (Finagle charges such an endpoint too).
fn with_latency(candidate: &Candidate, usual: f64) -> Candidate {
    let is_measured = candidate.latency > usual * FADED;
    let latency = if is_measured || candidate.in_flight == 0 { candidate.latency } else { usual.max(UNMEASURED) };
    Candidate { latency, ..*candidate }
}

/// Finds the candidate whose fixed share `chance` falls into. Where all usable candidates have shares, these fill the
/// whole range. Otherwise a `chance` beyond the shares is rescaled to `0..1` and returned for the choice among the
/// rest.
fn draw_weight(candidates: &[Candidate], usable: &impl Fn(&Candidate) -> bool, chance: f64) -> Result<usize, f64> {
    let shares = || candidates.iter().enumerate().filter(|(_, candidate)| usable(candidate));
    let sum: f64 = shares().filter_map(|(_, candidate)| candidate.weight).sum();
    let all_weighted = shares().all(|(_, candidate)| candidate.weight.is_some());
    let mut left = if all_weighted { chance * sum } else { chance };
    let drawn =
        shares().filter_map(|(index, candidate)| Some((index, candidate.weight?))).find_map(|(index, weight)| {
            left -= weight;
            (left < 0.0).then_some(index)
        });
    drawn.ok_or(if sum < 1.0 { left / (1.0 - sum) } else { 0.0 })
}

/// Two different numbers below `count` from one draw.
fn two_of(count: usize, chance: f64) -> (usize, usize) {
    if count < 2 {
        return (0, 0);
    }
    let pair = (chance * (count * (count - 1)) as f64) as usize;
    let (first, second) = (pair / (count - 1) % count, pair % (count - 1));
    (first, if second >= first { second + 1 } else { second })
}

/// Index of the lowest cost; among equals the candidate with fewest requests, then by turns.
fn smallest(costs: &[Option<f64>], candidates: &[Candidate], turn: u64) -> Option<usize> {
    let weighed = costs.iter().flatten().count() as u64;
    let turn = if weighed == 0 { 0 } else { (turn % weighed) as usize };
    let all = || costs.iter().enumerate().filter_map(|(index, cost)| Some((index, (*cost)?)));
    let (after, before) = (all().skip(turn), all().take(turn));
    let best = after.chain(before).min_by(|&(one, cost), &(other, least)| {
        // Round robin weighs nothing, so that the number of requests does not break its turns.
        let load = |index: usize, cost: f64| if cost > 0.0 { candidates[index].in_flight } else { 0 };
        cost.total_cmp(&least).then(load(one, cost).cmp(&load(other, least)))
    });
    best.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use signalbox_types::Strategy;

    fn candidate(in_flight: u32, queued_tokens: u64) -> Candidate {
        Candidate { in_flight, queued_tokens, uncached_tokens: 100, latency: 0.1, ..Candidate::default() }
    }

    fn pick(strategy: Strategy, candidates: &[Candidate], turn: u64, chance: f64) -> usize {
        choose(strategy, candidates, Draw { turn, chance }, &mut Vec::new()).unwrap().index
    }

    #[test]
    fn least_cost_counts_tokens_not_requests() {
        let one_long = candidate(1, 30_000);
        let three_short = candidate(3, 300);
        let candidates = [one_long, three_short];
        assert_eq!(pick(Strategy::LeastCost, &candidates, 0, 0.0), 1);
        assert_eq!(pick(Strategy::LeastRequest, &candidates, 0, 0.0), 0);
    }

    #[test]
    fn a_prompt_that_is_cached_where_requests_wait_may_wait_there() {
        let warm = Candidate { uncached_tokens: 100, ..candidate(4, 500) };
        let cold = Candidate { uncached_tokens: 1_500, ..candidate(0, 0) };
        assert_eq!(pick(Strategy::LeastCost, &[warm, cold], 0, 0.0), 0);
        let crowded = Candidate { in_flight: 12, ..warm };
        assert_eq!(pick(Strategy::LeastCost, &[crowded, cold], 0, 0.0), 1, "many are delayed, each by little");
        let foreign = Candidate { foreign: 32, ..warm };
        assert_eq!(pick(Strategy::LeastCost, &[foreign, cold], 0, 0.0), 1, "those of others count a quarter");
        let slow = Candidate { speed: 2.0, ..warm };
        assert_eq!(pick(Strategy::LeastCost, &[slow, cold], 0, 0.0), 1);
        let short_of_memory = Candidate { overflow_tokens: 600, ..warm };
        assert_eq!(pick(Strategy::LeastCost, &[short_of_memory, cold], 0, 0.0), 1);
    }

    #[test]
    fn equals_take_turns() {
        let equals = vec![candidate(0, 0); 3];
        for strategy in [Strategy::LeastCost, Strategy::RoundRobin, Strategy::LeastRequest, Strategy::PeakEwma] {
            let picks: Vec<_> = (0..6).map(|turn| pick(strategy, &equals, turn, 0.0)).collect();
            assert_eq!(picks, [0, 1, 2, 0, 1, 2], "{strategy:?}");
        }
    }

    #[test]
    fn an_engine_that_has_not_answered_yet_gets_no_more_than_the_others() {
        let with = |latency, in_flight| Candidate { latency, ..candidate(in_flight, 0) };
        // Never measured, or so long ago that nothing is left of it.
        for cold in [0.0, 1e-6] {
            let pick =
                |under_way| pick(Strategy::PeakEwma, &[with(0.1, 2), with(0.1, 2), with(cold, under_way)], 0, 0.0);
            assert_eq!((pick(0), pick(1), pick(3)), (2, 2, 0), "{cold}: tried, and then like any other");
        }
        let quick = [with(0.1, 0), with(0.1, 0), with(0.002, 9)];
        assert_eq!(pick(Strategy::PeakEwma, &quick, 0, 0.0), 2, "a measurement is believed");
        let none = [with(0.0, 3), with(0.0, 1), with(0.0, 2)];
        assert_eq!(pick(Strategy::PeakEwma, &none, 0, 0.0), 1, "the least busy while nothing is known");
    }

    #[test]
    fn round_robin_keeps_its_turns_under_load() {
        let uneven = [candidate(9, 0), candidate(0, 0)];
        assert_eq!(pick(Strategy::RoundRobin, &uneven, 0, 0.0), 0);
    }

    #[test]
    fn two_choices_are_different_and_reach_all() {
        let mut seen = std::collections::BTreeSet::new();
        for step in 0..1000 {
            let two = two_of(3, f64::from(step) / 1000.0);
            assert_ne!(two.0, two.1);
            seen.insert(two);
        }
        assert_eq!(seen.len(), 6);
    }

    #[test]
    fn a_canary_gets_its_share_and_no_more() {
        let canary = Candidate { weight: Some(0.05), ..candidate(0, 0) };
        let candidates = [candidate(50, 90_000), canary];
        let share =
            (0..1000).filter(|&step| pick(Strategy::LeastCost, &candidates, 0, f64::from(step) / 1000.0) == 1).count();
        assert_eq!(share, 50);
    }

    #[test]
    fn a_fixed_share_leaves_the_draw_among_the_others_even() {
        let canary = Candidate { weight: Some(0.5), ..candidate(0, 0) };
        let candidates = [candidate(0, 0), candidate(0, 0), candidate(0, 0), candidate(0, 0), canary];
        let mut picked = [0; 5];
        for step in 0..2400 {
            picked[pick(Strategy::PowerOfTwo, &candidates, 0, f64::from(step) / 2400.0)] += 1;
        }
        assert_eq!(picked, [300, 300, 300, 300, 1200]);
    }

    #[test]
    fn weights_alone_fill_the_whole() {
        let weighted = |weight| Candidate { weight: Some(weight), ..candidate(0, 0) };
        let candidates = [weighted(0.2), weighted(0.6)];
        let first =
            (0..1000).filter(|&step| pick(Strategy::LeastCost, &candidates, 0, f64::from(step) / 1000.0) == 0).count();
        assert_eq!(first, 250);
    }

    #[test]
    fn failed_candidates_are_avoided_unless_all_failed() {
        let avoided = Candidate { avoided: true, ..candidate(0, 0) };
        assert_eq!(pick(Strategy::LeastCost, &[avoided, candidate(9, 999)], 0, 0.0), 1);
        let draw = Draw { turn: 0, chance: 0.0 };
        let choice = choose(Strategy::LeastCost, &[avoided, avoided], draw, &mut Vec::new()).unwrap();
        assert_eq!(choice.reason, Reason::Panic);
        assert!(choose(Strategy::LeastCost, &[], draw, &mut Vec::new()).is_none());
    }

    proptest! {
        #[test]
        fn the_choice_is_valid_and_repeatable(
            loads in proptest::collection::vec((0u32..50, 0u64..100_000, 0.0f64..2.0, proptest::option::of(0.0f64..0.3), any::<bool>()), 1..20),
            turn: u64,
            chance in 0.0f64..1.0,
        ) {
            let candidates: Vec<_> = loads.into_iter().map(|(in_flight, queued_tokens, latency, weight, avoided)| Candidate {
                in_flight, queued_tokens, latency, weight, avoided, uncached_tokens: 100, speed: latency + 0.5, ..Candidate::default()
            }).collect();
            for strategy in [Strategy::LeastCost, Strategy::RoundRobin, Strategy::LeastRequest, Strategy::PowerOfTwo, Strategy::PeakEwma] {
                let draw = Draw { turn, chance };
                let choice = choose(strategy, &candidates, draw, &mut Vec::new()).unwrap();
                prop_assert_eq!(choice, choose(strategy, &candidates, draw, &mut vec![Some(1.0); 30]).unwrap());
                let all_avoided = candidates.iter().all(|candidate| candidate.avoided);
                prop_assert!(all_avoided || !candidates[choice.index].avoided);
            }
        }
    }
}
