//! Answer lengths of a pool, by model or adapter and by route.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::{Mutex, RwLock};

use signalbox_policy::Target;
use signalbox_schedule::predict::{OutputAccuracy, OutputForecast, OutputLengths, OutputScore};
use signalbox_types::Name;

/// Most kinds of request with a distribution of their own in a pool: 0.5 MB of lengths.
const MAX_KINDS: usize = 256;

/// Distributions of a pool's answer lengths: one for each model or adapter on each route, and one for all. A new
/// distribution starts as a copy of the overall one.
#[derive(Debug, Default)]
pub struct PoolOutputs {
    all: OutputLengths,
    /// By the target's adapter or upstream model, where it names one, and the route.
    kinds: RwLock<HashMap<(Option<Name>, Name), Kind>>,
    /// Counts lookups.
    turn: AtomicU64,
    score: Mutex<OutputScore>,
}

#[derive(Debug)]
struct Kind {
    lengths: Arc<OutputLengths>,
    /// Lookup number of the last use.
    used: AtomicU64,
}

impl PoolOutputs {
    /// Lengths of the answers to requests for `target` on `route`. Call it once per request. It allocates only for a
    /// new kind, and may then evict the least recently used one.
    pub fn of(&self, target: &Target, route: &Name) -> Arc<OutputLengths> {
        let key = (target.serves.as_ref().or(target.model.as_ref()).cloned(), route.clone());
        let turn = self.turn.fetch_add(1, Relaxed);
        if let Some(kind) = self.kinds.read().get(&key) {
            kind.used.store(turn, Relaxed);
            return kind.lengths.clone();
        }
        let mut kinds = self.kinds.write();
        if kinds.len() >= MAX_KINDS && !kinds.contains_key(&key) {
            let oldest = kinds.iter().min_by_key(|(_, kind)| kind.used.load(Relaxed)).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| kinds.remove(&oldest));
        }
        let new = || Kind { lengths: Arc::new(OutputLengths::like(&self.all)), used: AtomicU64::new(turn) };
        kinds.entry(key).or_insert_with(new).lengths.clone()
    }

    /// Accuracy of recent forecasts; `None` before any was compared with its answer.
    pub fn accuracy(&self) -> Option<OutputAccuracy> {
        self.score.lock().accuracy()
    }

    /// Learns from a complete answer of `tokens` tokens of the kind with these `lengths`.
    pub(super) fn observe(&self, lengths: &OutputLengths, forecast: &OutputForecast, tokens: u64) {
        self.score.lock().judge(forecast, tokens);
        if forecast.limit.is_some_and(|limit| tokens >= limit) {
            self.cut(lengths, tokens);
        } else {
            lengths.observe(tokens);
            self.all.observe(tokens);
        }
    }

    /// Learns from an answer that was cut off after `tokens` tokens.
    pub(super) fn cut(&self, lengths: &OutputLengths, tokens: u64) {
        lengths.observe_cut(tokens);
        self.all.observe_cut(tokens);
    }
}

#[cfg(test)]
mod tests {
    use std::{cmp::Reverse, collections::BinaryHeap};

    use super::*;
    use crate::{PlacementQuery, Pool, Registry, Scratch, Snapshot, Ticket};
    use signalbox_policy as policy;
    use signalbox_prompt::Blocks;
    use signalbox_types::{Layout, Moment, Usage};

    const NAMELESS: Target = Target::whole(0);

    fn mean(lengths: &OutputLengths, limit: Option<u64>) -> f64 {
        lengths.forecast(limit).mean
    }

    fn answered(outputs: &PoolOutputs, lengths: &OutputLengths, limit: Option<u64>, tokens: u64) {
        outputs.observe(lengths, &lengths.forecast(limit), limit.map_or(tokens, |limit| tokens.min(limit)));
    }

    #[test]
    fn routes_and_adapters_have_their_own_lengths() {
        let outputs = PoolOutputs::default();
        let adapter = Target { serves: Some("adapter".into()), ..NAMELESS };
        let (chat, notes) = (outputs.of(&NAMELESS, &"chat".into()), outputs.of(&NAMELESS, &"notes".into()));
        let other = outputs.of(&adapter, &"chat".into());
        for _ in 0..500 {
            answered(&outputs, &chat, None, 50);
            answered(&outputs, &notes, None, 2_000);
        }
        assert!(mean(&chat, None) < 70.0 && mean(&notes, None) > 1_900.0);
        assert!((mean(&other, None) - mean(&OutputLengths::new(), None)).abs() < 1e-9);
        assert!(Arc::ptr_eq(&chat, &outputs.of(&NAMELESS, &"chat".into())));
        let new = outputs.of(&NAMELESS, &"new".into());
        assert!((900.0..1_150.0).contains(&mean(&new, None)), "like all of them: {}", mean(&new, None));
    }

    #[test]
    fn the_least_recently_used_kind_is_evicted() {
        let outputs = PoolOutputs::default();
        let of = |number: usize| outputs.of(&NAMELESS, &format!("route {number}").into());
        let (first, second) = (of(0), of(1));
        for number in 2..2 * MAX_KINDS {
            of(number);
            of(0);
            assert!(outputs.kinds.read().len() <= MAX_KINDS);
        }
        assert!(Arc::ptr_eq(&first, &of(0)) && !Arc::ptr_eq(&second, &of(1)));
    }

    #[test]
    fn short_limits_do_not_shorten_the_expected_lengths() {
        let outputs = PoolOutputs::default();
        let chat = outputs.of(&NAMELESS, &"chat".into());
        let mut dice = fastrand::Rng::with_seed(1);
        for _ in 0..1_000 {
            answered(&outputs, &chat, None, dice.u64(200..400));
        }
        let before = chat.forecast(None);
        for _ in 0..20_000 {
            answered(&outputs, &chat, Some(16), dice.u64(200..400));
        }
        let after = chat.forecast(None);
        assert!((after.mean / before.mean - 1.0).abs() < 0.05, "{before:?} {after:?}");
        assert!((after.p90 - before.p90).abs() < 1.0, "{before:?} {after:?}");
        assert!((15.0..=16.0).contains(&mean(&chat, Some(16))));
        let coverage = outputs.accuracy().unwrap().coverage;
        assert!((0.8..1.0).contains(&coverage), "what cannot miss is not judged: {coverage}");
    }

    /// A request under way.
    struct Flight {
        ticket: Ticket,
        tokens: u64,
        streamed: u64,
    }

    /// Places a request and returns the forecast of its answer.
    fn dispatch(pool: &Pool, outputs: &Arc<OutputLengths>, number: u64, now: Moment) -> (Ticket, OutputForecast) {
        let blocks = Blocks::new((0..10).map(|block| number << 32 | block).collect(), 640, Layout::Fixed(64));
        let ask = PlacementQuery {
            target: &NAMELESS,
            tried: &[],
            prompt: blocks.prompt(),
            session: None,
            room_only: false,
            outputs,
            max_tokens: None,
            whole: false,
            bounded: false,
            ttft_limit: None,
            tpot_limit: None,
        };
        let placed = pool.place(&ask, now, 0.5, &mut Scratch::default()).unwrap();
        let backend = pool.backends[placed.backend].clone();
        let ticket = Ticket::take(pool.learned.clone(), outputs.clone(), backend, placed.forecast, blocks, now);
        (ticket, placed.forecast.output)
    }

    #[test]
    fn p90_forecasts_hold_for_nine_in_ten_answers_of_each_route() {
        let registry = Registry::default();
        let urls = ["http://a".to_owned(), "http://b".to_owned()];
        let snapshot = Snapshot::new(policy::simulated(&urls, &["http://c".to_owned()], &[]), &registry);
        let pool = &snapshot.pools[0];
        let routes = ["chat", "reports"].map(|route| pool.learned.outputs.of(&NAMELESS, &route.into()));
        let mut dice = fastrand::Rng::with_seed(7);
        let mut log_normal = |median: f64, sigma: f64| {
            let normal = (0..12).map(|_| dice.f64()).sum::<f64>() - 6.0;
            ((normal * sigma).exp() * median) as u64 + 1
        };
        let (mut flights, mut timers) = (HashMap::new(), BinaryHeap::new());
        let mut judged = [(0_u32, 0_u32); 2];
        // A request every 200 ms by turns, a token every 20 ms: about fifty are under way at once.
        for number in 0..2_400_u64 {
            timers.push(Reverse((number * 200, number)));
        }
        while let Some(Reverse((millis, number))) = timers.pop() {
            let now = Moment::from_nanos(millis * 1_000_000);
            let Some(flight) = flights.get_mut(&number) else {
                let route = number as usize % 2;
                let tokens = if route == 0 { log_normal(60.0, 0.7) } else { log_normal(900.0, 0.5) };
                let (ticket, predicted) = dispatch(pool, &routes[route], number, now);
                if number >= 400 {
                    let (all, covered) = &mut judged[route];
                    (*all, *covered) = (*all + 1, *covered + u32::from(tokens as f64 <= predicted.p90));
                }
                flights.insert(number, Flight { ticket, tokens, streamed: 0 });
                timers.push(Reverse((millis + 100, number)));
                continue;
            };
            flight.ticket.first_token(now);
            flight.streamed = (flight.streamed + 50).min(flight.tokens);
            flight.ticket.streamed(flight.streamed);
            if flight.streamed < flight.tokens {
                timers.push(Reverse((millis + 1_000, number)));
                continue;
            }
            let Flight { ticket, tokens, .. } = flights.remove(&number).unwrap();
            let usage = Usage {
                prompt_tokens: 160,
                cached_tokens: None,
                completion_tokens: tokens,
                reasoning_tokens: None,
                ..Usage::default()
            };
            ticket.finish(Some(&usage), Some(0.02), now);
        }
        for (route, (all, covered)) in judged.into_iter().enumerate() {
            let coverage = f64::from(covered) / f64::from(all);
            assert!(all == 1_000 && (0.85..=0.95).contains(&coverage), "route {route}: {coverage}");
        }
        let accuracy = pool.learned.outputs.accuracy().unwrap();
        assert!((0.85..=0.95).contains(&accuracy.coverage), "{accuracy:?}");
        assert!(accuracy.relative_error < 0.6, "{accuracy:?}");
        let promised = |backend: &Arc<crate::Backend>| backend.engine.load.view(Moment::default()).promised_tokens;
        assert_eq!(pool.backends.iter().map(promised).sum::<u64>(), 0);
    }
}
