//! Tier control of a route, for all its keys.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{
    aim::Plan,
    decision::{Context, Decision, Request, TierView, mix},
    lru::Lru,
    sessions::Sessions,
    spend::Spend,
    standing::{Standing, Tally},
    state::{Outcome, State},
};
use signalbox_types::{Aim, Complexity, Moment};

/// Most sessions per route, at about 100 bytes each.
const MOST_SESSIONS: usize = 64 << 10;

/// Decides, for one route, which tier serves a request, and learns from every decision to meet the route's aim.
///
/// Shared by reference between threads. Each lock is held for less than a microsecond, except while
/// [`Tierings::set_aim`] changes the aim. Bounded; allocates only for new keys and sessions.
#[derive(Debug)]
pub struct Tierings {
    keys: Mutex<Lru<Arc<Mutex<State>>>>,
    route: Mutex<Route>,
    sessions: Sessions,
}

/// State common to all keys.
#[derive(Debug)]
struct Route {
    /// Learns from all keys: the start of new ones. Decides alone where one budget covers all of them.
    state: State,
    spend: Spend,
    tally: Tally,
}

impl Tierings {
    /// Creates the control for a number of tiers, capped at [`MOST_TIERS`](signalbox_types::aim::MOST_TIERS). Keeps
    /// `most_keys` keys, at 3.8 KB each for two tiers. Beyond them the least recently used key is dropped and starts
    /// anew when it returns.
    pub fn new(aim: &Aim, tiers: usize, most_keys: usize) -> Self {
        let state = State::new(Arc::new(Plan::new(aim, tiers)));
        let route = Route { state, spend: Spend::new(), tally: Tally::default() };
        Self { keys: Mutex::new(Lru::new(most_keys)), route: Mutex::new(route), sessions: Sessions::new(MOST_SESSIONS) }
    }

    /// Continues with another aim or number of tiers. The learned distribution of scores stays if the aim is of the
    /// same kind, nothing is owed, and sessions stay where they are unless the number of tiers changed.
    pub fn set_aim(&self, aim: &Aim, tiers: usize) {
        let plan = Arc::new(Plan::new(aim, tiers));
        let before = {
            let mut route = self.route.lock();
            let before = Arc::clone(route.state.plan());
            if before == plan {
                return;
            }
            route.state.apply_plan(&plan);
            if before.tiers != plan.tiers {
                route.tally = Tally::default();
            }
            before
        };
        // A key that arrives in between starts under the new plan, and gets it once more.
        let mut keys = self.keys.lock();
        if before.ranks_like(&plan) && !plan.is_common() {
            keys.values().for_each(|key| key.lock().apply_plan(&plan));
        } else {
            keys.clear();
        }
        drop(keys);
        if before.tiers != plan.tiers {
            self.sessions.clear();
        }
    }

    /// Decides the tier of a request. `tiers` has a view of each tier, from the cheapest to the best; tiers without a
    /// view are not used.
    ///
    /// The request counts as sent there: call it once for a request that is sent, and not for a refused one.
    pub fn decide(&self, complexity: &Complexity, context: &Context, tiers: &[TierView], now: Moment) -> Decision {
        let own = |session: u64| mix(session ^ mix(context.key));
        let session = context.session.map(own);
        let before = context.continues.map(own).or(session);
        let session_state = before.and_then(|before| self.sessions.session_state(before, context.tool_loop, now));
        let context = Context { session, ..*context };

        let mut route = self.route.lock();
        let plan = Arc::clone(route.state.plan());
        let request = Request::new(complexity, &context, tiers, plan.tiers);
        let budget = if let Aim::MaxSpendPerHour(usd) = plan.aim { usd } else { 0.0 };
        route.spend.advance(budget, now);
        let bucket = route.spend.level();
        route.state.update_bars(&request, bucket, now);
        let (outcome, decision) = if plan.is_common() {
            let outcome = route.state.decide(&request, session_state, Some(&route.spend), now);
            let decision = report(&route.state, &request, &outcome);
            (outcome, decision)
        } else {
            drop(route);
            let key = self.key(context.key);
            let mut state = key.lock();
            state.update_bars(&request, 0.0, now);
            let outcome = state.decide(&request, session_state, None, now);
            state.note(&request, &outcome, now);
            let decision = report(&state, &request, &outcome);
            drop(state);
            route = self.route.lock();
            (outcome, decision)
        };
        route.state.note(&request, &outcome, now);
        route.spend.pay(request.cost[outcome.tier], request.cost[0]);
        route.tally.count(&outcome, &decision);
        drop(route);

        if let Some(session) = session {
            self.sessions.store(session, outcome.session_state, outcome.floor.is_none(), now);
        }
        decision
    }

    /// Current figures of the route.
    pub fn standing(&self, now: Moment) -> Standing {
        let (sessions, keys) = (self.sessions.started(), self.keys.lock().len());
        let mut route = self.route.lock();
        let budget = if let Aim::MaxSpendPerHour(usd) = route.state.plan().aim { usd } else { 0.0 };
        route.spend.advance(budget, now);
        let bars = route.state.bars().collect();
        route.tally.standing(bars, route.spend.hour(), route.state.unreachable(), sessions, keys)
    }

    /// Decision that [`decide`](Self::decide) would make now. Nothing is learned or counted, and no session changes.
    pub fn preview(&self, complexity: &Complexity, context: &Context, tiers: &[TierView], now: Moment) -> Decision {
        let own = |session: u64| mix(session ^ mix(context.key));
        let session = context.session.map(own);
        let before = context.continues.map(own).or(session);
        let session_state = before.and_then(|before| self.sessions.session_state(before, context.tool_loop, now));
        let context = Context { session, ..*context };
        let (mut state, mut spend) = {
            let route = self.route.lock();
            (route.state.clone(), route.spend.clone())
        };
        let plan = Arc::clone(state.plan());
        let request = Request::new(complexity, &context, tiers, plan.tiers);
        let budget = if let Aim::MaxSpendPerHour(usd) = plan.aim { usd } else { 0.0 };
        spend.advance(budget, now);
        let bucket = plan.is_common().then_some(&spend);
        if !plan.is_common() {
            let own = self.keys.lock().peek(context.key).map(Arc::clone);
            state = own.map_or_else(|| state.fresh(), |own| own.lock().clone());
        }
        state.update_bars(&request, bucket.map_or(0.0, Spend::level), now);
        let outcome = state.decide(&request, session_state, bucket, now);
        report(&state, &request, &outcome)
    }

    /// State of a key. A new key starts from what was learned from all.
    fn key(&self, key: u64) -> Arc<Mutex<State>> {
        let mut keys = self.keys.lock();
        if let Some(known) = keys.touch(key) {
            return Arc::clone(known);
        }
        let new = Arc::new(Mutex::new(self.route.lock().state.fresh()));
        keys.insert(key, Arc::clone(&new));
        new
    }
}

/// Builds the decision to report, once `outcome` is recorded in `state`.
fn report(state: &State, request: &Request, outcome: &Outcome) -> Decision {
    Decision {
        tier: outcome.tier,
        intended: outcome.intended,
        bar: state.bar(request, outcome.intended),
        by_gap: !matches!(state.plan().aim, Aim::Shares(_)),
        share: state.share(),
        quality: request.quality_at(outcome.tier),
        unreachable: state.unreachable(),
        reason: outcome.reason,
    }
}
