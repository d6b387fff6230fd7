//! What labels say of each scope: how often its questions really repeat, and how often its hits were false.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use xxhash_rust::xxh3::xxh3_64;

use crate::{
    cache::{
        ScopeId,
        confidence::Shift,
        evidence::{Evidence, FalseHitRate, Source, Voice},
    },
    policy,
    types::{Moment, Name},
};

/// What a label says, where it comes from, and who gave it.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Said {
    pub(crate) same: bool,
    pub(crate) source: Source,
    /// Within its scope.
    within: Voice,
    /// Among all scopes.
    among_all: Voice,
}

impl Said {
    /// What the gateway found out.
    pub(crate) fn found(same: bool, source: Source) -> Self {
        Self { same, source, within: Voice::Gateway, among_all: Voice::Gateway }
    }

    /// What a caller says of a hit that he got, where such answers are shared as `scope` says.
    pub(crate) fn by(caller: Option<&Name>, scope: policy::Scope, same: bool) -> Self {
        let among_all = caller.map_or(Voice::Anyone, |name| Voice::Caller(xxh3_64(name.as_bytes())));
        let within = match scope {
            policy::Scope::Key | policy::Scope::User => Voice::Owner,
            policy::Scope::Shared => among_all,
        };
        Self { same, source: Source::Feedback, within, among_all }
    }
}

/// Scopes that are remembered. One that is new takes the place of the one that was labelled least recently; those that serve nothing
/// are forgotten last, for they would serve again.
const MOST: usize = 10_000;
/// So long a scope without new labels is taken to be as it was.
const FRESH: Duration = Duration::from_secs(1);

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
pub(crate) struct Scopes {
    by_id: HashMap<ScopeId, Scope>,
    /// Those that serve and those that do not, each by when it was labelled.
    order: [BTreeMap<u64, ScopeId>; 2],
    /// Counts labels.
    turn: u64,
    all: Evidence,
}

#[derive(Debug)]
struct Scope {
    shift: Shift,
    evidence: Evidence,
    shadow_only: bool,
    /// When it was labelled, in the order of labels.
    labelled: u64,
    /// When and with which budget it was looked at last; `None` after a label.
    looked_at: Option<(Moment, f64)>,
}

impl Scopes {
    /// How far the scope's own evidence moves the log odds.
    pub(crate) fn shift(&self, id: &ScopeId) -> Shift {
        self.by_id.get(id).map_or_else(Shift::scope, |scope| scope.shift)
    }

    /// Whether its hits may only be looked at, for they were false more often than `budget` allows.
    pub(crate) fn shadow_only(&mut self, id: &ScopeId, budget: f64, now: Moment) -> bool {
        let Some(scope) = self.by_id.get_mut(id) else { return false };
        // Bounds take tens of microseconds, and every lookup that comes this far asks.
        if scope.looked_at.is_some_and(|(at, of)| now.since(at) < FRESH && of.total_cmp(&budget).is_eq()) {
            return scope.shadow_only;
        }
        scope.looked_at = Some((now, budget));
        let before = scope.shadow_only;
        scope.shadow_only = scope.evidence.shadow_only(now, budget);
        if scope.shadow_only != before {
            self.order[usize::from(before)].remove(&scope.labelled);
            self.order[usize::from(!before)].insert(scope.labelled, *id);
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

    /// A label of a candidate whose log odds, but for the scope's own shift, were `log_odds`; `given`: of a hit, or of what would have been
    /// one. Returns the mean of the scope's shift before it.
    pub(crate) fn learn(&mut self, id: ScopeId, log_odds: f32, said: Said, given: bool, now: Moment) -> f32 {
        let Said { same, source, within, among_all } = said;
        let scope = self.scope(id);
        if given {
            scope.evidence.learn(now, same, source, within, 1.0);
        }
        let before = scope.shift.mean();
        scope.shift.learn(log_odds, same, source.weight() * scope.evidence.part(within) as f32);
        if given {
            self.all.learn(now, same, source, among_all, 1.0);
        }
        before
    }

    pub(crate) fn told(&self, now: Moment) -> FalseHits {
        FalseHits {
            rate: self.all.rate(now),
            shadow_only: self.by_id.values().filter(|scope| scope.shadow_only).count(),
        }
    }

    fn scope(&mut self, id: ScopeId) -> &mut Scope {
        if !self.by_id.contains_key(&id) && self.by_id.len() == MOST {
            let [serving, silent] = &mut self.order;
            if let Some((_, oldest)) = serving.pop_first().or_else(|| silent.pop_first()) {
                self.by_id.remove(&oldest);
            }
        }
        self.turn += 1;
        let labelled = self.turn;
        let new = || Scope {
            shift: Shift::scope(),
            evidence: Evidence::default(),
            shadow_only: false,
            labelled,
            looked_at: None,
        };
        let scope = self.by_id.entry(id).or_insert_with(new);
        let order = &mut self.order[usize::from(scope.shadow_only)];
        order.remove(&scope.labelled);
        order.insert(labelled, id);
        scope.labelled = labelled;
        scope.looked_at = None;
        scope
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cache::Keys, policy};

    fn id(caller: &str) -> ScopeId {
        Keys::new([7; 32]).scope(policy::Scope::Key, Some(caller), None).unwrap()
    }

    const NOW: Moment = Moment::from_nanos(1);

    #[test]
    fn scopes_are_judged_apart() {
        let mut scopes = Scopes::default();
        let bad = Said::by(Some(&"bad".into()), policy::Scope::Key, false);
        for _ in 0..30 {
            scopes.learn(id("bad"), 0.0, bad, true, NOW);
            scopes.learn(id("good"), 0.0, Said::found(true, Source::Rerun), true, NOW);
        }
        assert!(scopes.shadow_only(&id("bad"), 0.01, NOW) && !scopes.shadow_only(&id("good"), 0.01, NOW));
        assert!(!scopes.shadow_only(&id("new"), 0.01, NOW));
        let told = scopes.told(NOW);
        assert!(told.shadow_only == 1 && told.rate.rate > 0.1, "{told:?}");
        assert!(told.rate.rate <= 0.25 + 1e-9, "among all scopes one caller is one of many: {told:?}");
    }

    #[test]
    fn a_caller_of_a_shared_scope_moves_it_no_further_than_others_do() {
        let mut scopes = Scopes::default();
        let liar = Said::by(Some(&"liar".into()), policy::Scope::Shared, true);
        let before = scopes.shift(&id("shared")).mean();
        for _ in 0..500 {
            scopes.learn(id("shared"), 0.0, liar, true, NOW);
        }
        assert!((scopes.shift(&id("shared")).mean() - before).abs() < 1e-6, "alone he says nothing");
        for _ in 0..50 {
            scopes.learn(id("shared"), 0.0, Said::found(false, Source::Rerun), true, NOW);
        }
        let found = scopes.shift(&id("shared")).mean();
        for _ in 0..50 {
            scopes.learn(id("shared"), 0.0, liar, true, NOW);
        }
        assert!(found < before - 0.5 && scopes.shift(&id("shared")).mean() < before - 0.4);
    }

    #[test]
    fn the_scope_that_was_labelled_least_recently_goes_and_those_that_are_silent_stay() {
        let mut scopes = Scopes::default();
        let said = Said::found(false, Source::Rerun);
        for _ in 0..30 {
            scopes.learn(id("silent"), 0.0, said, true, NOW);
        }
        assert!(scopes.shadow_only(&id("silent"), 0.01, NOW));
        scopes.learn(id("first"), 0.0, said, false, NOW);
        scopes.learn(id("second"), 0.0, said, false, NOW);
        for number in 0..MOST - 3 {
            scopes.learn(id(&number.to_string()), 0.0, said, false, NOW);
        }
        scopes.learn(id("first"), 0.0, said, false, NOW);
        scopes.learn(id("one more"), 0.0, said, false, NOW);
        let known = |scopes: &Scopes, caller: &str| scopes.by_id.contains_key(&id(caller));
        assert!(known(&scopes, "silent") && known(&scopes, "first") && !known(&scopes, "second"));
        for number in 0..2 * MOST {
            scopes.learn(id(&format!("x{number}")), 0.0, said, false, NOW);
        }
        assert!(known(&scopes, "silent") && !known(&scopes, "first"));
        assert_eq!((scopes.by_id.len(), scopes.order[0].len(), scopes.order[1].len()), (MOST, MOST - 1, 1));
    }
}
