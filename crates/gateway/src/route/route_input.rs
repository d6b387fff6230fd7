//! Inputs of route selection, from the request and from what the gateway has learned.

use std::{cell::RefCell, sync::Arc};

use xxhash_rust::xxh3::xxh3_64;

use super::{asking::Asking, facts::Known};
use signalbox_fleet::{PlacementQuery, PoolForecast, Scratch, route_selection::RouteInput};
use signalbox_journal::ScoredComplexity;
use signalbox_learning::TierDecision;
use signalbox_policy::{Target, Tiers};
use signalbox_prompt::complexity::{Weights, score};
use signalbox_schedule::{
    boundary::Boundary,
    tiers::{Context, Decision, TierView},
};
use signalbox_types::Name;

thread_local! {
    /// Scratch memory for pool forecasts, one per worker.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl RouteInput for Known<'_> {
    fn supports_endpoint(&self, pool: usize) -> bool {
        self.asking.serves(pool) && self.embeddings_model().is_none_or(|model| self.asking.has_model(pool, model))
    }

    fn has_one_model(&self) -> bool {
        self.embeddings_model().is_some()
    }

    fn has_prompt(&self) -> bool {
        self.asking.prompt_field().is_some()
    }

    fn surely_more_tokens_than(&self, n: u64) -> bool {
        // An engine that shortens the prompt takes any.
        !self.asking.body.asks_to_truncate() && self.asking.prompt.surely_exceed(n)
    }

    fn pool_forecast(&self, route: &Name, target: &Target) -> Option<PoolForecast> {
        self.asking.pool_forecast(route, target)
    }

    fn boundary(&self, rule: &Name) -> Arc<Boundary> {
        self.asking.context.learning.boundary(rule)
    }

    fn allows_learning(&self) -> bool {
        !self.asking.is_dry()
    }

    fn tier(&self, rule: &Name, tiers: &Tiers, views: &[TierView]) -> Decision {
        let asking = self.asking;
        let context = Context {
            key: asking.key.map_or(0, |key| xxh3_64(asking.policy().keys[key].id.as_bytes())),
            session: asking.estimate.session.or_else(|| asking.said(self.outline().said)),
            continues: match asking.estimate.session {
                None if !self.outline().in_tool_loop => asking.said(self.outline().said_before),
                _ => None,
            },
            tool_loop: self.outline().in_tool_loop,
            // Dry runs are deterministic.
            chance: if asking.is_dry() { 0.5 } else { fastrand::f64() },
        };
        let own = asking.context.learning.tiers.weights(rule);
        let weights = own.as_deref().unwrap_or_else(|| Weights::built_in());
        let complexity = match &own {
            Some(own) => score(self.features(), own),
            None => *self.scored(),
        };
        self.rank(ScoredComplexity::of(&complexity, weights.version.as_str().into()));
        let tierings = asking.context.learning.tierings(rule, &tiers.aim, tiers.routes.len());
        let now = asking.context.clock.now();
        match &asking.id {
            None => tierings.preview(&complexity, &context, views, now),
            Some(id) => {
                let decision = tierings.decide(&complexity, &context, views, now);
                asking.remember(id, rule, tiers, decision.tier, self);
                decision
            }
        }
    }
}

impl Asking<'_> {
    /// Stores the decision so that it can be judged later. With more than two tiers, only the lowest and the highest
    /// are used for learning.
    fn remember(&self, id: &Arc<str>, route: &Name, tiers: &Tiers, tier: usize, known: &Known<'_>) {
        let top = tiers.routes.len() - 1;
        if tier != 0 && tier != top {
            return;
        }
        let pool = |tier: usize| self.policy().pools[tiers.routes[tier].targets[0].pool].name.clone();
        let decided = TierDecision {
            route: route.clone(),
            key: self.key.map(|key| self.policy().keys[key].id.clone()),
            features: known.features().clone(),
            pools: [pool(0), pool(top)],
            said: self.said(known.outline().said).filter(|_| !known.outline().in_tool_loop),
            said_before: self.said(known.outline().said_before),
        };
        self.context.learning.tiers.record_decision(id, decided, self.context.clock.now());
    }

    /// Identifies a conversation that the client does not name, by a salted hash of its user messages. The hash changes
    /// with each turn; a turn is linked to the previous one by the hash before it.
    pub(super) fn said(&self, hash: u64) -> Option<u64> {
        (hash != 0).then_some(hash ^ self.context.estimator.salt)
    }

    /// Forecasts the request at a target.
    fn pool_forecast(&self, route: &Name, target: &Target) -> Option<PoolForecast> {
        let pool = &self.serving.snapshot.pools[target.pool];
        let outputs = pool.learned.outputs.of(target, route);
        let ask = PlacementQuery {
            target,
            tried: &[],
            prompt: self.estimate.blocks.prompt(),
            session: self.estimate.session,
            room_only: false,
            outputs: &outputs,
            max_tokens: self.body.max_tokens,
            whole: !self.body.stream || self.body.asks_to_think(),
            bounded: false,
            ttft_limit: None,
            tpot_limit: None,
        };
        let (_, forecast) = SCRATCH.with_borrow_mut(|scratch| pool.peek(&ask, self.context.clock.now(), scratch))?;
        Some(forecast).filter(|forecast| !forecast.avoided)
    }
}
