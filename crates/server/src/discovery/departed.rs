//! Backends that left the fleet: shown until their requests end and a while longer, and kept with what was learned.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use signalbox_fleet::{Backend, Snapshot};
use signalbox_policy::{self as policy, BackendOrigin, Engine, KeptBackend, Policy};
use signalbox_types::Name;

/// Time for which learned state is kept for the return of an address.
const KEPT: Duration = Duration::from_hours(1);
/// Time for which a backend is shown as removed.
const SHOWN: Duration = Duration::from_mins(10);
/// The most backends that are kept; the oldest give way.
const MAX_DEPARTED: usize = 1_024;

/// Backends that left, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Departed(Vec<Left>);

#[derive(Debug)]
struct Left {
    pool: Name,
    backend: Arc<Backend>,
    engine: Engine,
    origin: BackendOrigin,
    since: Instant,
}

/// A backend that gets no new requests.
#[derive(Clone, Debug)]
pub(crate) struct Leaving {
    pub(crate) pool: Name,
    pub(crate) name: Name,
    pub(crate) engine: Name,
    pub(crate) url: String,
    pub(crate) model: Option<Name>,
    pub(crate) origin: String,
    /// `draining` while requests run, then `drained` if an operator asked for it, or `removed`.
    pub(crate) state: &'static str,
    pub(crate) in_flight: u32,
    /// Time since it left; `None` if that was before the start.
    pub(crate) since: Option<Duration>,
}

impl Departed {
    /// Notes the backends of `before` that `next` does not have, and forgets those that are back or long gone.
    pub(super) fn note(&mut self, before: &Snapshot, next: &Policy, now: Instant) {
        let policy = &before.policy;
        for pool in &before.pools {
            for backend in &pool.backends {
                let engine = &policy.engines[backend.spec.engine];
                let left = Left {
                    pool: pool.spec.name.clone(),
                    backend: backend.clone(),
                    engine: engine.clone(),
                    origin: policy.origin_of(backend.name()),
                    since: now,
                };
                if !serves(next, &left) {
                    self.0.push(left);
                }
            }
        }
        self.0.retain(|left| {
            let is_old = now.duration_since(left.since) > KEPT && left.backend.load.in_flight() == 0;
            !is_old && !serves(next, left)
        });
        let surplus = self.0.len().saturating_sub(MAX_DEPARTED);
        self.0.drain(..surplus);
    }

    /// Backends whose learned state is kept for their return. Engines that the policy itself named are dropped with it, unless they are drained.
    pub(super) fn kept(&self, now: Instant) -> impl Iterator<Item = KeptBackend> {
        let recent = self.0.iter().filter(move |left| now.duration_since(left.since) <= KEPT);
        let found = recent.filter(|left| left.origin != BackendOrigin::Policy);
        found.map(|left| KeptBackend { engine: left.engine.clone(), model: left.backend.spec.model.clone() })
    }

    /// Backends that left or are drained.
    pub(super) fn leaving(&self, serving: &Snapshot, now: Instant) -> Vec<Leaving> {
        let policy = &serving.policy;
        let left_as = |pool: &Name, backend: &policy::Backend| {
            let id = policy.engines[backend.engine].id();
            self.0.iter().rev().find(|left| left.pool == *pool && left.is(backend) && left.engine.id() == id)
        };
        let drained = policy.pools.iter().flat_map(|pool| pool.drained.iter().map(move |backend| (pool, backend)));
        let drained = drained.map(|(pool, backend)| {
            let left = left_as(&pool.name, backend);
            let in_flight = left.map_or(0, |left| left.backend.load.in_flight());
            let engine = &policy.engines[backend.engine];
            Leaving {
                origin: policy.origin_of(&backend.name).label(),
                state: if in_flight > 0 { "draining" } else { "drained" },
                in_flight,
                since: left.map(|left| now.duration_since(left.since)),
                ..plain(&pool.name, backend, engine)
            }
        });
        let removed = self.0.iter().filter(|left| {
            let in_flight = left.backend.load.in_flight() > 0;
            (in_flight || now.duration_since(left.since) < SHOWN) && !is_drained(policy, left)
        });
        let removed = removed.map(|left| {
            let in_flight = left.backend.load.in_flight();
            Leaving {
                origin: left.origin.label(),
                state: if in_flight > 0 { "draining" } else { "removed" },
                in_flight,
                since: Some(now.duration_since(left.since)),
                ..plain(&left.pool, &left.backend.spec, &left.engine)
            }
        });
        drained.chain(removed).collect()
    }
}

fn plain(pool: &Name, backend: &policy::Backend, engine: &Engine) -> Leaving {
    Leaving {
        pool: pool.clone(),
        name: backend.name.clone(),
        engine: engine.name.clone(),
        url: engine.url.clone(),
        model: backend.model.clone(),
        origin: String::new(),
        state: "removed",
        in_flight: 0,
        since: None,
    }
}

impl Left {
    /// True if `backend` serves the same model. A name alone says nothing: it changes with the other backends.
    fn is(&self, backend: &policy::Backend) -> bool {
        (&backend.model, &backend.serves) == (&self.backend.spec.model, &self.backend.spec.serves)
    }
}

/// True if the pool in `policy` has the backend, or one that follows the models of its engine.
fn serves(policy: &Policy, left: &Left) -> bool {
    let pool = policy.pools.iter().find(|it| it.name == left.pool);
    let is_it = |it: &policy::Backend| {
        (left.is(it) || it.follows.is_some()) && policy.engines[it.engine].id() == left.engine.id()
    };
    pool.is_some_and(|pool| pool.backends.iter().any(is_it))
}

fn is_drained(policy: &Policy, left: &Left) -> bool {
    let is_it = |it: &policy::Backend| left.is(it) && policy.engines[it.engine].id() == left.engine.id();
    policy.pools.iter().any(|pool| pool.name == left.pool && pool.drained.iter().any(is_it))
}
