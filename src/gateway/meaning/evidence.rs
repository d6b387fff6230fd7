//! What labels say of each scope: how often its questions really repeat, and how often its hits were false.

use std::collections::{HashMap, VecDeque};

use crate::{
    cache::{
        ScopeId,
        confidence::Shift,
        evidence::{Evidence, FalseHitRate, Source},
    },
    types::Moment,
};

/// Scopes that are remembered; those that are new take the places of the oldest.
const MOST: usize = 10_000;

/// How often hits were false, as far as they were verified.
#[derive(Copy, Clone, Debug)]
pub struct FalseHits {
    /// Over all scopes.
    pub rate: FalseHitRate,
    /// Scopes that serve nothing at present, because their hits were false too often.
    pub shadow_only: usize,
}

/// Evidence by scope, and over all.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    by_id: HashMap<ScopeId, Scope>,
    order: VecDeque<ScopeId>,
    all: Evidence,
}

#[derive(Debug)]
struct Scope {
    shift: Shift,
    evidence: Evidence,
    shadow_only: bool,
}

impl Scopes {
    /// How far the scope's own evidence moves the log odds.
    pub(super) fn shift(&self, id: &ScopeId) -> Shift {
        self.by_id.get(id).map_or_else(Shift::scope, |scope| scope.shift)
    }

    /// Whether its hits may only be looked at, for they were false more often than `budget` allows.
    pub(super) fn shadow_only(&mut self, id: &ScopeId, budget: f64, now: Moment) -> bool {
        let Some(scope) = self.by_id.get_mut(id) else { return false };
        let before = scope.shadow_only;
        scope.shadow_only = scope.evidence.shadow_only(now, budget);
        if scope.shadow_only != before {
            let rate = scope.evidence.rate(now);
            let (rate, lower, upper, labels) = (rate.rate, rate.lower, rate.upper, rate.labels);
            if scope.shadow_only {
                tracing::warn!(
                    rate,
                    lower,
                    upper,
                    labels,
                    budget,
                    "answers by meaning were false too often: none is given in this scope"
                );
            } else {
                tracing::info!(
                    rate,
                    upper,
                    labels,
                    budget,
                    "answers by meaning keep their budget again: they are given in this scope"
                );
            }
        }
        scope.shadow_only
    }

    /// A candidate whose log odds, but for the scope's own shift, were `log_odds` turned out to serve, or not.
    pub(super) fn learn(&mut self, id: ScopeId, log_odds: f32, same: bool, source: Source) {
        self.scope(id).shift.learn(log_odds, same, source.weight());
    }

    /// A hit was verified, or what would have been one.
    pub(super) fn verified(&mut self, id: ScopeId, same: bool, source: Source, now: Moment) {
        self.all.learn(now, same, source, 1.0);
        self.scope(id).evidence.learn(now, same, source, 1.0);
    }

    pub(super) fn told(&self, now: Moment) -> FalseHits {
        FalseHits {
            rate: self.all.rate(now),
            shadow_only: self.by_id.values().filter(|scope| scope.shadow_only).count(),
        }
    }

    fn scope(&mut self, id: ScopeId) -> &mut Scope {
        if !self.by_id.contains_key(&id) {
            if self.order.len() == MOST
                && let Some(oldest) = self.order.pop_front()
            {
                self.by_id.remove(&oldest);
            }
            self.order.push_back(id);
        }
        let new = || Scope { shift: Shift::scope(), evidence: Evidence::default(), shadow_only: false };
        self.by_id.entry(id).or_insert_with(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cache::Keys, policy};

    #[test]
    fn scopes_are_judged_apart_and_bounded() {
        let keys = Keys::new([7; 32]);
        let id = |caller: &str| keys.scope(policy::Scope::Key, Some(caller), None).unwrap();
        let mut scopes = Scopes::default();
        let now = Moment::from_nanos(1);
        for _ in 0..30 {
            scopes.verified(id("bad"), false, Source::Feedback, now);
            scopes.verified(id("good"), true, Source::Rerun, now);
        }
        assert!(scopes.shadow_only(&id("bad"), 0.01, now) && !scopes.shadow_only(&id("good"), 0.01, now));
        assert!(!scopes.shadow_only(&id("new"), 0.01, now));
        let told = scopes.told(now);
        assert!(told.shadow_only == 1 && told.rate.rate > 0.3 && told.rate.rate < 0.6);
        (0..2 * MOST).for_each(|number| scopes.learn(id(&number.to_string()), 0.0, true, Source::Rerun));
        assert_eq!((scopes.by_id.len(), scopes.order.len()), (MOST, MOST));
    }
}
