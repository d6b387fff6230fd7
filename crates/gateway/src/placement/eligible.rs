//! Backends that a request may still be sent to: the reasons to exclude one, and the standing of the rest.

use super::PlacementRequest;
use signalbox_fleet::Backend;
use signalbox_types::{Endpoint, Moment, Name};

impl PlacementRequest {
    /// Excludes the backends of models that may not serve the request, and those that are known not to implement
    /// `endpoint`, unless that leaves none.
    pub(crate) fn skip_lacking(&mut self, endpoint: Endpoint, now: Moment) {
        if let Some(only) = self.route.only.clone() {
            let asked = self.model.clone();
            self.exclude(|_, backend| backend.spec.identity_for(asked.as_deref()) != Some(&*only));
        }
        let before: Vec<_> = self.tries.iter().map(|tries| tries.tried.clone()).collect();
        let lacking: Vec<_> = (0..self.tries.len()).map(|at| self.pool(at).1.lacking(endpoint, now)).collect();
        if lacking.iter().all(Vec::is_empty) {
            return;
        }
        for (tries, lacking) in self.tries.iter_mut().zip(lacking) {
            tries.tried.extend(lacking);
        }
        if !self.has_untried() {
            self.tries.iter_mut().zip(before).for_each(|(tries, before)| tries.tried = before);
        }
    }

    /// Excludes the backends, given with their targets, that cannot serve the request.
    pub(crate) fn exclude(&mut self, cannot: impl Fn(usize, &Backend) -> bool) {
        for at in 0..self.tries.len() {
            let (_, pool) = self.pool(at);
            let is_new = |place: &usize| !self.tries[at].tried.contains(place) && cannot(at, &pool.backends[*place]);
            let excluded: Vec<_> = (0..pool.backends.len()).filter(is_new).collect();
            self.tries[at].tried.extend(excluded);
        }
    }

    /// Excludes the backends that speak the API of the one at `target` and `backend`, which cannot express the request. The
    /// attempt there does not count: nothing was sent.
    pub(crate) fn leave_dialect(&mut self, target: usize, backend: usize) {
        self.tries[target].attempts = self.tries[target].attempts.saturating_sub(1);
        let serving = self.serving.clone();
        let dialect = |backend: &Backend| &serving.snapshot.policy.engines[backend.spec.engine].dialect;
        let own = self.backend(target, backend);
        self.exclude(|_, other| dialect(other) == dialect(&own));
    }

    /// Excludes the backends of models other than `model`. If that is `None`, excludes those of targets other than
    /// `target`.
    pub(crate) fn keep_model(&mut self, model: Option<&Name>, target: usize) {
        let model = model.cloned();
        self.exclude(|at, backend| model.is_none() && at != target || backend.spec.identity() != model.as_ref());
    }

    /// Excludes the backends of the account that the one at `target` and `backend` belongs to.
    pub(crate) fn leave_account(&mut self, target: usize, backend: usize) {
        let own = self.backend(target, backend).engine.id.account();
        self.exclude(|_, other| other.engine.id.account() == own);
    }

    /// True if an untried backend is left.
    pub(crate) fn has_untried(&self) -> bool {
        self.preferred().is_some()
    }

    /// True if an untried backend is in good standing: neither it nor its engine failed lately.
    pub(crate) fn has_sound(&self, now: Moment) -> bool {
        self.has_untried_that(|backend| !backend.breaker.is_open(now) && !backend.engine.breaker.is_open(now))
    }

    /// True if moving to another backend is free of charge: an untried one has not failed lately.
    ///
    /// Failed connections of its engine do not count: the model that was just tried may be what ends them, and a
    /// request that cannot be sent causes no load.
    pub(crate) fn moves_free(&self, now: Moment) -> bool {
        self.has_untried_that(|backend| !backend.breaker.is_open(now))
    }

    fn has_untried_that(&self, is_such: impl Fn(&Backend) -> bool) -> bool {
        (0..self.tries.len()).any(|at| {
            let (_, pool) = self.pool(at);
            let is_untried = |member: &usize| !self.tries[at].tried.contains(member);
            let mut untried = pool.members(&self.route.targets[at]).filter(is_untried);
            self.may_try(at) && untried.any(|member| is_such(&self.backend(at, member)))
        })
    }

    /// Excludes the pool of `target`, whose context was too short, and the pools whose context is known to be no
    /// longer. Returns true if any pool is left.
    pub(crate) fn keep_longer_than(&mut self, target: usize) -> bool {
        let context = |at: usize| self.pool(at).1.context(&self.route.targets[at]);
        let own = context(target);
        let is_too_short = |at: usize| at == target || context(at).zip(own).is_some_and(|(it, own)| it <= own);
        let too_short: Vec<usize> = (0..self.tries.len()).filter(|at| is_too_short(*at)).collect();
        for at in too_short {
            self.tries[at].tried = (0..self.pool(at).1.backends.len()).collect();
        }
        self.has_untried()
    }
}
