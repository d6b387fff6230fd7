//! Evidence from labels for each scope: a shift of the odds that two questions are the same, and the rate of false hits.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use xxhash_rust::xxh3::xxh3_64;

use signalbox_cache::{
    ScopeId,
    confidence::Shift,
    evidence::{Evidence, FalseHitRate, Source, Voice},
};
use signalbox_policy as policy;
use signalbox_types::{Moment, Name};

/// A label of a hit: the verdict, its source and its voices.
#[derive(Copy, Clone, Debug)]
pub struct HitLabel {
    pub(crate) same: bool,
    pub(crate) source: Source,
    /// The voice within its scope.
    in_scope: Voice,
    /// The voice among all scopes.
    overall: Voice,
}

impl HitLabel {
    /// A label of the gateway itself.
    pub(crate) fn found(same: bool, source: Source) -> Self {
        Self { same, source, in_scope: Voice::Gateway, overall: Voice::Gateway }
    }

    /// A label from a caller's feedback on a hit; `scope` is the policy's, within which answers are shared.
    pub fn by(caller: Option<&Name>, scope: policy::Scope, same: bool) -> Self {
        let overall = caller.map_or(Voice::Anyone, |name| Voice::Caller(xxh3_64(name.as_bytes())));
        let in_scope = match scope {
            policy::Scope::Key | policy::Scope::User => Voice::Owner,
            policy::Scope::Shared => overall,
        };
        Self { same, source: Source::Feedback, in_scope, overall }
    }
}

/// Maximum of scopes. A new one replaces the least recently labelled one. Scopes in shadow mode are removed last, since without their evidence
/// they would serve hits again.
const MAX_SCOPES: usize = 10_000;
/// Time for which the state of a scope without new labels is cached.
const FRESH: Duration = Duration::from_secs(1);

/// The rate of false hits among verified hits.
#[derive(Copy, Clone, Debug)]
pub struct FalseHits {
    /// Over all scopes.
    pub rate: FalseHitRate,
    /// Scopes that serve no hits at present, because too many were false.
    pub shadow_only: usize,
}

/// Evidence by scope, and over all.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    by_id: HashMap<ScopeId, Scope>,
    /// Scopes in the order of their latest label: those that serve hits, and those in shadow mode.
    order: [BTreeMap<u64, ScopeId>; 2],
    /// Number of labels so far.
    labels: u64,
    all: Evidence,
}

#[derive(Debug)]
struct Scope {
    shift: Shift,
    evidence: Evidence,
    shadow_only: bool,
    /// Number of its latest label.
    labelled: u64,
    /// Time and budget of the latest evaluation; `None` after a label.
    evaluated: Option<(Moment, f64)>,
}

impl Scopes {
    /// The shift of the log odds by the scope's own evidence.
    pub(crate) fn shift(&self, id: &ScopeId) -> Shift {
        self.by_id.get(id).map_or_else(Shift::scope, |scope| scope.shift)
    }

    /// True if the scope is in shadow mode, because its hits were false more often than `budget` allows.
    pub(crate) fn shadow_only(&mut self, id: &ScopeId, budget: f64, now: Moment) -> bool {
        let Some(scope) = self.by_id.get_mut(id) else { return false };
        // Computing the bounds takes tens of microseconds, too long for each lookup.
        if scope.evaluated.is_some_and(|(at, of)| now.since(at) < FRESH && of.total_cmp(&budget).is_eq()) {
            return scope.shadow_only;
        }
        scope.evaluated = Some((now, budget));
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
                    "cache: too many semantic hits of a scope were false; it serves none until the rate is back within the budget (cache.semantic.max_false_hit_rate)"
                );
            } else {
                tracing::info!(
                    rate,
                    upper,
                    labels,
                    budget,
                    "cache: the false hits of a scope are within the budget again; it serves semantic hits"
                );
            }
        }
        scope.shadow_only
    }

    /// Adds a label of a candidate whose log odds without the scope's shift were `log_odds`; `is_hit`: the candidate was served, or would have
    /// been in shadow mode. Returns the mean of the scope's shift before the label.
    pub(crate) fn learn(&mut self, id: ScopeId, log_odds: f32, label: HitLabel, is_hit: bool, now: Moment) -> f32 {
        let HitLabel { same, source, in_scope, overall } = label;
        let scope = self.scope(id);
        if is_hit {
            scope.evidence.learn(now, same, source, in_scope, 1.0);
        }
        let before = scope.shift.mean();
        scope.shift.learn(log_odds, same, source.weight() * scope.evidence.part(in_scope) as f32);
        if is_hit {
            self.all.learn(now, same, source, overall, 1.0);
        }
        before
    }

    pub(super) fn false_hits(&self, now: Moment) -> FalseHits {
        FalseHits {
            rate: self.all.rate(now),
            shadow_only: self.by_id.values().filter(|scope| scope.shadow_only).count(),
        }
    }

    fn scope(&mut self, id: ScopeId) -> &mut Scope {
        if !self.by_id.contains_key(&id) && self.by_id.len() == MAX_SCOPES {
            let [serving, shadow] = &mut self.order;
            if let Some((_, oldest)) = serving.pop_first().or_else(|| shadow.pop_first()) {
                self.by_id.remove(&oldest);
            }
        }
        self.labels += 1;
        let labelled = self.labels;
        let new = || Scope {
            shift: Shift::scope(),
            evidence: Evidence::default(),
            shadow_only: false,
            labelled,
            evaluated: None,
        };
        let scope = self.by_id.entry(id).or_insert_with(new);
        let order = &mut self.order[usize::from(scope.shadow_only)];
        order.remove(&scope.labelled);
        order.insert(labelled, id);
        scope.labelled = labelled;
        scope.evaluated = None;
        scope
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_cache::Keys;
    use signalbox_policy as policy;

    fn id(caller: &str) -> ScopeId {
        Keys::new([7; 32]).scope(policy::Scope::Key, Some(caller), None).unwrap()
    }

    const NOW: Moment = Moment::from_nanos(1);

    #[test]
    fn scopes_are_evaluated_separately() {
        let mut scopes = Scopes::default();
        let bad = HitLabel::by(Some(&"bad".into()), policy::Scope::Key, false);
        for _ in 0..30 {
            scopes.learn(id("bad"), 0.0, bad, true, NOW);
            scopes.learn(id("good"), 0.0, HitLabel::found(true, Source::Rerun), true, NOW);
        }
        assert!(scopes.shadow_only(&id("bad"), 0.01, NOW) && !scopes.shadow_only(&id("good"), 0.01, NOW));
        assert!(!scopes.shadow_only(&id("new"), 0.01, NOW));
        let all = scopes.false_hits(NOW);
        assert!(all.shadow_only == 1 && all.rate.rate > 0.1, "{all:?}");
        assert!(all.rate.rate <= 0.25 + 1e-9, "one caller has a bounded weight among all scopes: {all:?}");
    }

    #[test]
    fn a_caller_of_a_shared_scope_has_a_bounded_weight() {
        let mut scopes = Scopes::default();
        let liar = HitLabel::by(Some(&"liar".into()), policy::Scope::Shared, true);
        let before = scopes.shift(&id("shared")).mean();
        for _ in 0..500 {
            scopes.learn(id("shared"), 0.0, liar, true, NOW);
        }
        assert!((scopes.shift(&id("shared")).mean() - before).abs() < 1e-6, "one caller alone has no weight");
        for _ in 0..50 {
            scopes.learn(id("shared"), 0.0, HitLabel::found(false, Source::Rerun), true, NOW);
        }
        let found = scopes.shift(&id("shared")).mean();
        for _ in 0..50 {
            scopes.learn(id("shared"), 0.0, liar, true, NOW);
        }
        assert!(found < before - 0.5 && scopes.shift(&id("shared")).mean() < before - 0.4);
    }

    #[test]
    fn the_least_recently_labelled_scope_is_evicted_and_those_in_shadow_mode_last() {
        let mut scopes = Scopes::default();
        let label = HitLabel::found(false, Source::Rerun);
        for _ in 0..30 {
            scopes.learn(id("silent"), 0.0, label, true, NOW);
        }
        assert!(scopes.shadow_only(&id("silent"), 0.01, NOW));
        scopes.learn(id("first"), 0.0, label, false, NOW);
        scopes.learn(id("second"), 0.0, label, false, NOW);
        for number in 0..MAX_SCOPES - 3 {
            scopes.learn(id(&number.to_string()), 0.0, label, false, NOW);
        }
        scopes.learn(id("first"), 0.0, label, false, NOW);
        scopes.learn(id("one more"), 0.0, label, false, NOW);
        let known = |scopes: &Scopes, caller: &str| scopes.by_id.contains_key(&id(caller));
        assert!(known(&scopes, "silent") && known(&scopes, "first") && !known(&scopes, "second"));
        for number in 0..2 * MAX_SCOPES {
            scopes.learn(id(&format!("x{number}")), 0.0, label, false, NOW);
        }
        assert!(known(&scopes, "silent") && !known(&scopes, "first"));
        assert_eq!((scopes.by_id.len(), scopes.order[0].len(), scopes.order[1].len()), (MAX_SCOPES, MAX_SCOPES - 1, 1));
    }
}
