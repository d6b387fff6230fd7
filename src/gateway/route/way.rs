//! What decides among the pools of a rule: nothing, the length of the prompt, or how hard it seems.

use std::{cell::RefCell, sync::Arc};

use super::Asking;
use crate::{
    fleet::{Ask, Outlook, Scratch},
    gateway::explained::{Explained, LengthChosen},
    policy::{ByLength, Route, Rule, Target, Way},
    types::Name,
};

thread_local! {
    /// Working memory of looks into pools, one a worker.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Asking<'_> {
    /// The route that the rule gives, cut down to the `usable` pools; and the names of those that are left out.
    pub(super) fn decide(&self, rule: &Rule, usable: &[Target], explained: &mut Explained) -> (Arc<Route>, Vec<Name>) {
        let route = match &rule.way {
            Way::Pools(route) => route,
            Way::Length(by) => self.by_length(&rule.name, by, usable, explained),
            Way::Tiers(tiers) => &tiers.routes[0],
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
        let boundary = match by.boundary {
            Some(tokens) => tokens as f64,
            None => {
                let learned = self.desk.boundary(name);
                if !self.dry
                    && let (Some(here), Some(there)) =
                        (self.outlook(&short.name, at_short), self.outlook(&long.name, at_long))
                {
                    learned.learn(self.prompt.tokens().expected, here.burden, there.burden);
                }
                learned.tokens()
            }
        };
        let is_long = self.prompt.exceed((boundary as u64).saturating_sub(1));
        explained.length = Some(LengthChosen { boundary, long: is_long });
        if is_long { long } else { short }
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
