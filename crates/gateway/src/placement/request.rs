//! A request to be placed: the backends that it may still go to, and the choice among them.

use std::{
    cell::RefCell,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use super::{EnginePermit, PlacementState};
use crate::Serving;
use signalbox_fleet::{Backend, BreakerState, Forecast, Placement, PlacementQuery, Pool, Scratch, Ticket};
use signalbox_journal::AttemptEntry;
use signalbox_policy::{Route, Target};
use signalbox_prompt::Blocks;
use signalbox_schedule::{
    admission::{Backlog, Wait, retry_after, shed},
    predict::OutputLengths,
    retry::Budgets,
    spill::{self, PoolOption},
};
use signalbox_types::{Moment, Name};

/// Most attempts at one request, over all backends and pools.
const MOST_ATTEMPTS: usize = 6;
/// Most decisions for a request whose room another request takes at the same moment. After that it waits like all
/// others.
const MOST_RACES: usize = 8;

thread_local! {
    /// Working memory of a decision, one per worker thread.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// A request to be placed on a backend.
#[derive(Clone)]
pub(crate) struct PlacementRequest {
    pub(crate) state: Arc<PlacementState>,
    pub(crate) serving: Arc<Serving>,
    pub(crate) route: Arc<Route>,
    pub(crate) blocks: Blocks,
    pub(crate) session: Option<u64>,
    /// Hash of the conversation by which fixed shares of a pool are drawn, so that all its turns are on one side.
    pub(crate) conversation: Option<u64>,
    /// Priority if the request has to wait.
    pub(crate) priority: u8,
    pub(crate) max_tokens: Option<u64>,
    /// True if the answer comes whole, or the model reasons first for an unknown time.
    pub(crate) whole: bool,
    pub(crate) arrived: Moment,
    /// Id of the caller's key, if any.
    pub(crate) caller: Option<Name>,
    /// Model name that the caller sent.
    pub(crate) model: Option<Name>,
    /// True if the request already has an answer and asks for a better one.
    pub(crate) escalates: bool,
    /// State of each target.
    pub(crate) tries: Vec<Tries>,
}

/// State of one target: the output lengths of such requests there, and the attempts so far.
#[derive(Clone)]
pub(crate) struct Tries {
    /// Output lengths of such requests.
    pub(super) outputs: Arc<OutputLengths>,
    /// Indices of the backends that are no longer chosen: they were tried or cannot help.
    pub(super) tried: Vec<usize>,
    /// Number of attempts.
    pub(super) attempts: usize,
}

/// A choice that has not been reserved yet.
pub(crate) struct PlacementChoice {
    target: usize,
    placement: Placement,
    /// Journal entry of the choice. `None` if the request is held in its turn and so not placed.
    entry: Option<AttemptEntry>,
    /// True if the request should be held for now. A further attempt is never held: the request has waited enough.
    held: bool,
    /// Number of backends that were compared.
    weighed: usize,
    /// Requests of this gateway on the engine.
    in_flight: u32,
    /// Probability that the request's limits are met.
    attainment: f64,
    /// True if the backend failed lately, like all others of its pool.
    avoided: bool,
}

impl PlacementChoice {
    /// Index of the target in the route.
    pub(crate) fn target(&self) -> usize {
        self.target
    }

    /// Forecast for the request on that backend.
    pub(crate) fn forecast(&self) -> &Forecast {
        &self.placement.forecast
    }

    /// True if the request should be held for now.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// True if other backends should be tried first.
    pub(crate) fn is_avoided(&self) -> bool {
        self.avoided
    }
}

/// A chosen backend, with a permit on its engine.
pub(crate) struct Reservation {
    /// Index of the target in the route.
    pub(crate) target: usize,
    /// Index of the pool in the policy.
    pub(crate) pool: usize,
    /// Index of the backend in the pool.
    pub(crate) backend: usize,
    pub(crate) permit: EnginePermit,
    /// Forecast for the request on that backend.
    pub(crate) forecast: Forecast,
    pub(crate) entry: AttemptEntry,
    /// True if the attempt probes the backend: its result shows whether the breaker may close.
    pub(crate) probes: bool,
}

impl Tries {
    /// Creates the state of a `target` of the route named `route`, without attempts.
    pub(crate) fn none(serving: &Serving, target: &Target, route: &Name) -> Self {
        let pool = &serving.snapshot.pools[target.pool];
        Self { outputs: pool.learned.outputs.of(target, route), tried: Vec::new(), attempts: 0 }
    }
}

impl PlacementRequest {
    /// Chooses a backend with room and reserves it. Returns `None` if none has room now.
    pub(crate) fn place(&self, now: Moment) -> Option<Reservation> {
        (0..MOST_RACES).map_while(|_| self.choose(now)).find_map(|chosen| self.take(chosen, now))
    }

    /// Reserves a backend for a request in a queue. Unlike `place`, it fails while the chosen engine has enough work.
    pub(crate) fn place_in_turn(&self, now: Moment) -> Result<Reservation, Wait> {
        for _ in 0..MOST_RACES {
            let chosen = self.choose_as(true, now).ok_or(Wait::Full)?;
            if chosen.held {
                return Err(Wait::Held(chosen.weighed));
            }
            if let Some(placed) = self.take(chosen, now) {
                return Ok(placed);
            }
        }
        Err(Wait::Full)
    }

    /// Hash of the targets that the request may go to and of its attempts there. Requests with the same hash either all
    /// find room or all find none.
    pub(crate) fn kind(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        // Another policy has other pools at the same indices.
        let Route { name, targets, spill, .. } = &*self.route;
        (Arc::as_ptr(&self.serving).addr(), name, targets, spill).hash(&mut hasher);
        for Tries { tried, attempts, .. } in &self.tries {
            (tried, attempts).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Chooses the best backend with room, in the pool that should serve the request.
    pub(crate) fn choose(&self, now: Moment) -> Option<PlacementChoice> {
        self.choose_as(false, now)
    }

    /// Chooses as `choose` does. If `in_turn`, a held request gets no journal entry, since it stays in its queue.
    fn choose_as(&self, in_turn: bool, now: Moment) -> Option<PlacementChoice> {
        if !self.route.spill {
            return self.preferred().and_then(|at| self.look(at, in_turn, now));
        }
        let open = (0..self.tries.len()).filter(|&at| self.may_try(at));
        let limited = self.tries.len() > 1 && open.clone().any(|at| self.limits(at, now) != (None, None));
        let used = if limited { self.state.last_targets.get(&self.route.name).map_or(0, |used| *used) } else { 0 };
        let (picked, chosen) = spill::choose(open, limited, used, |at| {
            let chosen = self.look(at, in_turn, now)?;
            let PlacementChoice { avoided, attainment, .. } = chosen;
            Some(PoolOption { chosen, avoided, attainment })
        })?;
        if limited && picked != used && self.is_new() {
            self.state.last_targets.insert(self.route.name.clone(), picked);
        }
        Some(chosen)
    }

    /// Reserves an untried backend in good standing in the pool of a target. Returns `None` if none has room.
    pub(crate) fn place_beside(&self, target: usize, now: Moment) -> Option<Reservation> {
        let look = || self.may_try(target).then(|| self.look(target, false, now)).flatten();
        let chosen = (0..MOST_RACES).map_while(|_| look().filter(|chosen| !chosen.avoided));
        chosen.into_iter().find_map(|chosen| self.take(chosen, now))
    }

    /// Reserves an untried backend in good standing of another target, the first that has room. `None` without any.
    pub(crate) fn place_elsewhere(&self, target: usize, now: Moment) -> Option<Reservation> {
        (0..self.tries.len()).filter(|at| *at != target).find_map(|at| self.place_beside(at, now))
    }

    /// True if another target has an untried backend that would begin its answer within `within` from now.
    pub(crate) fn answers_elsewhere(&self, target: usize, within: Duration, now: Moment) -> bool {
        let others = (0..self.tries.len()).filter(|at| *at != target && self.may_try(*at));
        let mut chosen = others.filter_map(|at| self.look(at, false, now));
        chosen.any(|it| !it.avoided && it.forecast().work.prediction.seconds < within.as_secs_f64())
    }

    /// Reserves a backend that was tried before.
    pub(crate) fn place_again(&self, target: usize, backend: usize, now: Moment) -> Option<Reservation> {
        let (_, pool) = self.pool(target);
        let others: Vec<usize> = (0..pool.backends.len()).filter(|other| *other != backend).collect();
        let look = || self.look_past(target, &others, false, now).filter(|_| self.may_try(target));
        (0..MOST_RACES).map_while(|_| look()).find_map(|chosen| self.take(chosen, now))
    }

    /// Makes a tried backend eligible again, so that the request can wait for it.
    pub(crate) fn allow_again(&mut self, target: usize, backend: usize) {
        self.tries[target].tried.retain(|tried| *tried != backend);
    }

    /// Number of times that a backend was tried.
    pub(crate) fn times_tried(&self, target: usize, backend: usize) -> usize {
        self.tries[target].tried.iter().filter(|tried| **tried == backend).count()
    }

    /// Finds the indices of a target and its backend by the names of the pool and the backend.
    pub(crate) fn spot_of(&self, pool: &Name, backend: &Name) -> Option<(usize, usize)> {
        let target = (0..self.tries.len()).find(|at| self.pool(*at).1.spec.name == *pool)?;
        let place = self.pool(target).1.backends.iter().position(|it| it.name() == backend)?;
        Some((target, place))
    }

    /// Backend at index `at` in the pool of `target`, with its state for the requested model.
    pub(crate) fn backend(&self, target: usize, at: usize) -> Arc<Backend> {
        self.pool(target).1.backends[at].asked_for(self.model.as_deref())
    }

    /// Retry budgets of the pool of `target`.
    pub(crate) fn retries(&self, target: usize) -> &Budgets {
        &self.pool(target).1.learned.retries
    }

    /// Reserves the chosen backend. Returns `None` if another request was faster, or the account or the breaker does
    /// not admit it.
    pub(crate) fn take(&self, chosen: PlacementChoice, now: Moment) -> Option<Reservation> {
        let PlacementChoice { target, placement, entry, .. } = chosen;
        debug_assert!(entry.is_some(), "a request that is held is not placed in its turn");
        let entry = entry?;
        let (at, pool) = self.pool(target);
        let backend = self.backend(target, placement.backend);
        let (learned, outputs) = (pool.learned.clone(), self.tries[target].outputs.clone());
        let blocks = self.blocks.clone();
        let work = placement.forecast.work;
        let charge = match &backend.account {
            Some(account) => Some(account.admit(work.prompt_tokens + work.output_tokens, now)?),
            None => None,
        };
        let probes = backend.breaker_state(now) == BreakerState::HalfOpen;
        if !backend.enter(now) {
            return None;
        }
        let ticket = Ticket::take_if_room(learned, outputs, backend, placement.forecast, blocks, now)?;
        let forecast = placement.forecast;
        let permit = EnginePermit::new(ticket, charge, self.state.clone());
        Some(Reservation { target, pool: at, backend: placement.backend, permit, forecast, entry, probes })
    }

    /// Records that the request is meant for the pool of `target`.
    pub(crate) fn wanted(&self, target: usize, now: Moment) {
        if self.route.targets.get(target).is_some() {
            self.serving.pool_meter(self.pool(target).0).wanted(now);
        }
    }

    /// Records an attempt at the reserved backend.
    pub(crate) fn tries(&mut self, placed: &Reservation) {
        let tries = &mut self.tries[placed.target];
        tries.tried.push(placed.backend);
        tries.attempts += 1;
    }

    /// True if nothing was tried and the request has no answer yet.
    pub(crate) fn is_new(&self) -> bool {
        !self.escalates && self.tries.iter().all(|tries| tries.attempts == 0)
    }

    /// Target in whose pool to wait: the first that has an untried backend.
    pub(crate) fn preferred(&self) -> Option<usize> {
        (0..self.tries.len()).find(|&at| {
            let (_, pool) = self.pool(at);
            self.may_try(at)
                && pool.members(&self.route.targets[at]).any(|member| !self.tries[at].tried.contains(&member))
        })
    }

    /// Time left until the route's bound on the first token.
    pub(crate) fn bound(&self, now: Moment) -> Option<Duration> {
        self.route.bound.map(|bound| bound.saturating_sub(now.since(self.arrived)))
    }

    /// Index of the target's pool in the policy, and the pool.
    pub(crate) fn pool(&self, target: usize) -> (usize, &Pool) {
        let at = self.route.targets[target].pool;
        (at, &self.serving.snapshot.pools[at])
    }

    /// Returns the delay before a retry if a request with a bound should be shed, because it would be late even at the
    /// best backend.
    pub(crate) fn shed(&self, chosen: &PlacementChoice, chance: f64, now: Moment) -> Option<Duration> {
        let bound = self.bound(now)?.as_secs_f64();
        let (_, pool) = self.pool(chosen.target);
        let work = chosen.placement.forecast.work;
        let attainment = pool.learned.predictor.model().ttft_within(bound, &work.prediction);
        if !shed(Some(attainment), chosen.in_flight, chance) {
            return None;
        }
        // Prefill rate of one engine in tokens per second. The engines of a pool work in parallel.
        let members = || pool.members(&self.route.targets[chosen.target]).map(|member| &pool.backends[member]);
        let pace = work.uncached_tokens as f64 / work.prefill.max(f64::MIN_POSITIVE);
        let backlog = Backlog {
            tokens: members().map(|backend| backend.load.queued_tokens()).sum(),
            tokens_per_second: pace * members().count() as f64,
        };
        Some(retry_after(work.prediction.seconds, bound, backlog))
    }

    /// Limits on the request in a pool: on the time to its first token, and on the time per further token.
    pub(super) fn limits(&self, target: usize, now: Moment) -> (Option<Duration>, Option<Duration>) {
        let objectives = &self.pool(target).1.spec.objectives;
        let ttft = [self.bound(now), objectives.ttft()].into_iter().flatten().min();
        (ttft, objectives.tpot())
    }

    fn look(&self, target: usize, in_turn: bool, now: Moment) -> Option<PlacementChoice> {
        let tried = &self.tries[target].tried;
        let (_, pool) = self.pool(target);
        let failing = pool.failing(self.model.as_deref(), now);
        if failing.is_empty() {
            return self.look_past(target, tried, in_turn, now);
        }
        let others: Vec<usize> = tried.iter().copied().chain(failing).collect();
        if pool.members(&self.route.targets[target]).any(|member| !others.contains(&member)) {
            return self.look_past(target, &others, in_turn, now);
        }
        self.look_past(target, tried, in_turn, now).map(|chosen| PlacementChoice { avoided: true, ..chosen })
    }

    /// Chooses the best backend of a target that is not among `tried`.
    fn look_past(&self, target: usize, tried: &[usize], in_turn: bool, now: Moment) -> Option<PlacementChoice> {
        let (at, pool) = self.pool(target);
        let route_target: &Target = &self.route.targets[target];
        let (ttft_limit, tpot_limit) = self.limits(target, now);
        let ask = PlacementQuery {
            target: route_target,
            tried,
            prompt: self.blocks.prompt(),
            session: self.session,
            room_only: true,
            outputs: &self.tries[target].outputs,
            max_tokens: self.max_tokens,
            whole: self.whole,
            bounded: self.route.bound.is_some(),
            ttft_limit,
            tpot_limit,
        };
        SCRATCH.with_borrow_mut(|scratch| {
            let began = self.state.clock.now();
            let position = self.conversation.filter(|_| pool.has_shares()).map(|it| pool.position(it));
            let placement = pool.place(&ask, now, position.unwrap_or_else(fastrand::f64), scratch)?;
            self.serving.pool_meter(at).decision(self.state.clock.now().seconds_since(began));
            let chosen = &scratch.candidates[placement.choice.index];
            let (in_flight, attainment, avoided) = (chosen.in_flight, chosen.attainment, chosen.avoided);
            let held = placement.held && self.is_new();
            let entry =
                (!in_turn || !held).then(|| AttemptEntry::of(pool, scratch, &placement, self.blocks.prompt().weight()));
            let weighed = scratch.candidates.len();
            Some(PlacementChoice { target, placement, entry, held, weighed, in_flight, attainment, avoided })
        })
    }

    pub(super) fn may_try(&self, target: usize) -> bool {
        may_try(&self.tries, target)
    }
}

/// True if another attempt may be made at a target.
///
/// A large pool that is down leaves one attempt for each target that was not tried yet. Every pool gets one while there
/// are any.
fn may_try(tries: &[Tries], target: usize) -> bool {
    let made: usize = tries.iter().map(|tries| tries.attempts).sum();
    let others = tries.iter().enumerate().filter(|(at, tries)| *at != target && tries.tried.is_empty()).count();
    let kept = if tries[target].attempts == 0 { 0 } else { others };
    made + kept < MOST_ATTEMPTS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of attempts that each of `pools` pools gets if all are down and large, tried in this order.
    fn attempts(pools: usize, order: impl Fn(usize) -> Vec<usize>) -> Vec<usize> {
        let mut tries = vec![Tries { outputs: Arc::default(), tried: Vec::new(), attempts: 0 }; pools];
        for round in 0..100 {
            if let Some(target) = order(round).into_iter().find(|&target| may_try(&tries, target)) {
                tries[target].tried.push(round);
                tries[target].attempts += 1;
            }
        }
        tries.iter().map(|tries| tries.attempts).collect()
    }

    #[test]
    fn no_pool_uses_up_the_attempts_of_those_after_it() {
        let in_order = |pools: usize| attempts(pools, |_| (0..pools).collect());
        assert_eq!((in_order(1), in_order(2), in_order(3)), (vec![6], vec![5, 1], vec![4, 1, 1]));
        assert_eq!(in_order(8), [1, 1, 1, 1, 1, 1, 0, 0], "more pools than attempts");
    }

    #[test]
    fn pools_that_are_tried_by_turns_share_the_attempts() {
        let by_turns = |round: usize| vec![round % 2, (round + 1) % 2, 2];
        assert_eq!(attempts(3, by_turns), [3, 2, 1]);
    }
}
