//! Backends that a request may still be sent to: the reasons to exclude one, and the standing of the rest.

use super::PlacementRequest;
use signalbox_fleet::Backend;
use signalbox_types::{Endpoint, Moment, Name};

impl PlacementRequest {
    /// Excludes the backends that are known not to implement `endpoint`, unless that leaves none.
    pub(crate) fn skip_lacking(&mut self, endpoint: Endpoint, now: Moment) {
        let lacking: Vec<_> = (0..self.tries.len()).map(|at| self.pool(at).1.lacking(endpoint, now)).collect();
        if lacking.iter().all(Vec::is_empty) {
            return;
        }
        for (tries, lacking) in self.tries.iter_mut().zip(lacking) {
            tries.tried = lacking;
        }
        if !self.has_untried() {
            self.tries.iter_mut().for_each(|tries| tries.tried.clear());
        }
    }

    /// Excludes the backends of models other than `model`. If that is `None`, excludes those of targets other than
    /// `target`.
    pub(crate) fn keep_model(&mut self, model: Option<&Name>, target: usize) {
        for at in 0..self.tries.len() {
            let (_, pool) = self.pool(at);
            let elsewhere = model.is_none() && at != target;
            let other = |place: &usize| elsewhere || pool.backends[*place].spec.identity() != model;
            let others: Vec<usize> = (0..pool.backends.len()).filter(other).collect();
            let tried = &mut self.tries[at].tried;
            tried.extend(others.into_iter().filter(|place| !tried.contains(place)).collect::<Vec<_>>());
        }
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
