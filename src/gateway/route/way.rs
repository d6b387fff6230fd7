//! What decides among the pools of a rule: nothing, the length of the prompt, or how hard it seems.

use std::{cell::RefCell, sync::Arc};

use xxhash_rust::xxh3::xxh3_64;

use super::{asking::Asking, facts::Known};
use crate::{
    fleet::{Ask, Outlook, Scratch},
    gateway::{
        explained::{Explained, LengthChosen, Scored, TierChosen},
        lessons::Decided,
    },
    policy::{ByLength, Route, Rule, Target, Tiers, Way},
    prompt::complexity::{Weights, score},
    schedule::tiers::{Context, TierView},
    types::{Name, aim::MOST_TIERS},
};

thread_local! {
    /// Working memory of looks into pools, one a worker.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Asking<'_> {
    /// The route that the rule gives, cut down to the `usable` pools; and the names of those that are left out.
    pub(super) fn decide(
        &self,
        rule: &Rule,
        usable: &[Target],
        known: &Known<'_>,
        explained: &mut Explained,
    ) -> (Arc<Route>, Vec<Name>) {
        let route = match &rule.way {
            Way::Pools(route) => route,
            Way::Length(by) => self.by_length(&rule.name, by, usable, explained),
            Way::Tiers(tiers) => self.by_complexity(&rule.name, tiers, usable, known, explained),
        };
        if usable.len() == route.targets.len() {
            return (route.clone(), Vec::new());
        }
        let (kept, left): (Vec<_>, Vec<_>) = route.targets.iter().cloned().partition(|target| usable.contains(target));
        let left = left.iter().map(|target| self.policy().pools[target.pool].name.clone()).collect();
        (Arc::new(Route { targets: kept, ..Route::clone(route) }), left)
    }

    fn by_length<'r>(
        &self,
        name: &Name,
        by: &'r ByLength,
        usable: &[Target],
        explained: &mut Explained,
    ) -> &'r Arc<Route> {
        let [short, long] = &by.routes;
        let (at_short, at_long) = (&short.targets[0], &short.targets[1]);
        // Where the prompt fits into one of the two alone, there is nothing to decide, nor to learn.
        match (usable.contains(at_short), usable.contains(at_long)) {
            (true, false) => return short,
            (false, _) => return long,
            (true, true) => {}
        }
        let boundary = if let Some(tokens) = by.boundary {
            tokens as f64
        } else {
            let learned = self.desk.boundary(name);
            if !self.is_dry()
                && let (Some(here), Some(there)) =
                    (self.outlook(&short.name, at_short), self.outlook(&long.name, at_long))
            {
                learned.learn(self.prompt.tokens().expected, here.burden, there.burden);
            }
            learned.tokens()
        };
        let is_long = self.prompt.exceed((boundary as u64).saturating_sub(1));
        explained.length = Some(LengthChosen { boundary, long: is_long });
        if is_long { long } else { short }
    }

    fn by_complexity<'r>(
        &self,
        name: &Name,
        tiers: &'r Tiers,
        usable: &[Target],
        known: &Known<'_>,
        explained: &mut Explained,
    ) -> &'r Arc<Route> {
        let can = |tier: usize| usable.contains(&tiers.routes[tier].targets[0]);
        // What fits into one tier alone is not this rule's to decide, and does not count as its choice.
        let mut able = (0..tiers.routes.len()).filter(|tier| can(*tier));
        let (first, second) = (able.next(), able.next());
        if second.is_none() {
            return &tiers.routes[first.unwrap_or(0)];
        }
        let view = |tier: usize| {
            let route: &Route = &tiers.routes[tier];
            let outlook = self.outlook(&route.name, &route.targets[0]).filter(|_| can(tier));
            let price = self.policy().pools[route.targets[0].pool].price;
            TierView {
                cost_usd: outlook.zip(price).map_or(0.0, |(outlook, price)| price.cost(&outlook.usage)),
                e2e: outlook.map_or(f64::NAN, |outlook| outlook.e2e),
                available: outlook.is_some(),
            }
        };
        let mut views = [TierView { cost_usd: 0.0, e2e: f64::NAN, available: false }; MOST_TIERS];
        let count = tiers.routes.len().min(MOST_TIERS);
        for (tier, place) in views[..count].iter_mut().enumerate() {
            *place = view(tier);
        }
        let context = Context {
            key: self.key.map_or(0, |key| xxh3_64(self.policy().keys[key].id.as_bytes())),
            session: self.estimate.session.or_else(|| self.said(known.outline().said)),
            continues: match self.estimate.session {
                None if !known.outline().in_tool_loop => self.said(known.outline().said_before),
                _ => None,
            },
            tool_loop: known.outline().in_tool_loop,
            chance: fastrand::f64(),
        };
        let own = self.desk.lessons.weights(name);
        let weights = own.as_deref().unwrap_or_else(|| Weights::built_in());
        let complexity = match &own {
            Some(own) => score(known.features(), own),
            None => *known.scored(),
        };
        explained.complexity = Some(Scored::of(&complexity, weights.version.as_str().into()));
        let tierings = self.desk.tierings(name, &tiers.aim, tiers.routes.len());
        let now = self.desk.clock.now();
        let decision = match &self.id {
            None => tierings.preview(&complexity, &context, &views[..count], now),
            Some(id) => {
                let decision = tierings.decide(&complexity, &context, &views[..count], now);
                self.remember(id, name, tiers, decision.tier, known);
                decision
            }
        };
        explained.tier = Some(TierChosen {
            tier: decision.tier,
            intended: decision.intended,
            bar: Some(decision.bar).filter(|bar| bar.is_finite()),
            share: decision.share,
            reason: decision.reason.label(),
        });
        &tiers.routes[decision.tier.min(count - 1)]
    }

    /// Remembers the decision, so that it can be judged. Of more than two tiers, only the lowest and the highest teach anything.
    fn remember(&self, id: &Arc<str>, route: &Name, tiers: &Tiers, tier: usize, known: &Known<'_>) {
        let top = tiers.routes.len() - 1;
        if tier != 0 && tier != top {
            return;
        }
        let pool = |tier: usize| self.policy().pools[tiers.routes[tier].targets[0].pool].name.clone();
        let decided = Decided {
            route: route.clone(),
            key: self.key.map(|key| self.policy().keys[key].id.clone()),
            features: known.features().clone(),
            pools: [pool(0), pool(top)],
            said: self.said(known.outline().said).filter(|_| !known.outline().in_tool_loop),
            said_before: self.said(known.outline().said_before),
        };
        self.desk.lessons.decided(id, decided, self.desk.clock.now());
    }

    /// A conversation by what its users said so far, for clients that do not name it: with each turn it has another hash, and the turn
    /// before has the one by which it is found.
    fn said(&self, hash: u64) -> Option<u64> {
        (hash != 0).then_some(hash ^ self.desk.salt)
    }

    /// What the request would find in a pool.
    fn outlook(&self, route: &Name, target: &Target) -> Option<Outlook> {
        let pool = &self.serving.snapshot.pools[target.pool];
        let outputs = pool.learned.outputs.of(target, route);
        let ask = Ask {
            target,
            tried: &[],
            prompt: self.estimate.blocks.prompt(),
            session: self.estimate.session,
            room_only: false,
            outputs: &outputs,
            max_tokens: self.body.max_tokens,
            whole: !self.body.stream,
            ttft_limit: None,
            tpot_limit: None,
        };
        let (_, outlook) = SCRATCH.with_borrow_mut(|scratch| pool.peek(&ask, self.desk.clock.now(), scratch))?;
        Some(outlook).filter(|outlook| !outlook.avoided)
    }
}
