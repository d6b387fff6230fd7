//! The policy in force with the handles that measure its backends, replaced as a whole.

use std::{collections::HashMap, fmt::Write as _, sync::Arc};

use arc_swap::ArcSwap;
use xxhash_rust::xxh3::xxh3_64;

use super::estimator::Estimator;
use signalbox_accounting::{Caller, Callers};
use signalbox_cache::Origin;
use signalbox_fleet::Snapshot;
use signalbox_policy::{self as policy, Tokenizer};
use signalbox_prompt::tokens::{Counter, TokenizerSlot};
use signalbox_telemetry::{BackendMetrics, Metrics, PoolMetrics};
use signalbox_translation::CallerApi;
use signalbox_types::{Endpoint, Moment, wall_clock};

/// A snapshot and the handles needed to serve by it.
pub struct Serving {
    /// The policy with its pools and their state.
    pub snapshot: Snapshot,
    /// Time of creation.
    pub since: Moment,
    /// Time of creation, in seconds since 1970.
    pub loaded: i64,
    /// Metric handles, by pool and backend.
    meters: Vec<Vec<Arc<BackendMetrics>>>,
    /// Metric handles, by pool.
    pool_meters: Vec<Arc<PoolMetrics>>,
    /// Identity of each backend, as far as it may affect answers; by pool and backend.
    origins: Vec<Vec<Origin>>,
    /// Token counters of prompts, by pool.
    counters: Vec<Arc<Counter>>,
    /// Callers, by the indexes of their keys.
    callers: Vec<Arc<Caller>>,
    /// Secrets of the keys, by their hashes.
    keys: HashMap<[u8; 32], Secret>,
}

/// A secret of a key.
#[derive(Copy, Clone)]
pub(super) struct Secret {
    /// The index of the key.
    pub(super) key: usize,
    /// The hash by which it is revoked.
    pub(super) hash: [u8; 32],
    /// The time from which it is rejected, in seconds since 1970, if it ends before the key.
    pub(super) valid_until: Option<i64>,
}

impl Serving {
    /// Drops the metrics of removed pools, backends, routes and keys, and creates handles for every backend of
    /// `snapshot`. `source` returns the tokenizer of a pool.
    pub(super) fn new(
        snapshot: Snapshot,
        (metrics, estimator, callers): (&Metrics, &Estimator, &Callers),
        source: impl Fn(&Tokenizer) -> Arc<TokenizerSlot>,
        since: Moment,
    ) -> Self {
        // Removed series go first: their number is limited, and new ones need the room.
        metrics.retain_pools(|pool| snapshot.pools.iter().any(|known| *known.spec.name == *pool));
        metrics.retain(
            |pool, backend, _| {
                snapshot
                    .pools
                    .iter()
                    .any(|p| *p.spec.name == *pool && p.backends.iter().any(|b| **b.name() == *backend))
            },
            |route| {
                snapshot.policy.models.has_route(route) || Endpoint::ALL.iter().any(|endpoint| endpoint.name() == route)
            },
        );
        metrics.retain_keys(|id| snapshot.policy.keys.iter().any(|key| *key.id == *id));
        // Model label of a backend without a model of its own, where the client names the model.
        let any = "any".into();
        let meters: Vec<Vec<_>> = snapshot
            .pools
            .iter()
            .map(|pool| {
                let meter = |backend: &Arc<signalbox_fleet::Backend>| {
                    let model = backend.spec.model.as_ref().unwrap_or(&any);
                    metrics.backend_of(pool.backends.len(), &pool.spec.name, backend.name(), model)
                };
                pool.backends.iter().map(meter).collect()
            })
            .collect();
        let pool_meters = snapshot.pools.iter().map(|pool| metrics.pool(&pool.spec.name)).collect();
        metrics.set_config(&snapshot.policy.hash);
        let counters = snapshot.pools.iter().map(|pool| estimator.counter(&pool.spec, &source));
        let counters = counters.collect();
        let pools = &snapshot.policy.pools;
        let origins = pools.iter().map(|pool| origins(pool, &snapshot.policy.engines)).collect();
        let callers = callers.apply_policy(&snapshot.policy, metrics, since);
        let all = snapshot.policy.keys.iter().enumerate();
        let demo = all.clone().zip(&snapshot.policy.demo_hashes);
        let demo = demo.map(|((at, key), demo)| (*demo, Secret { key: at, hash: key.hash, valid_until: None }));
        let secrets = all.flat_map(|(at, key)| {
            let others = key.also.iter().map(|other| (other.hash, other.valid_until));
            let all = std::iter::once((key.hash, None)).chain(others);
            all.map(move |(hash, valid_until)| (hash, Secret { key: at, hash, valid_until }))
        });
        let keys = secrets.chain(demo).collect();
        Self { snapshot, since, loaded: wall_clock::seconds(), meters, pool_meters, origins, counters, callers, keys }
    }

    /// True if the pool at this index speaks the API of `endpoint`, or one to which a request for a model can be
    /// translated.
    pub(super) fn serves(&self, pool: usize, endpoint: Endpoint) -> bool {
        let pool = &self.snapshot.pools[pool];
        pool.speaks(endpoint) || CallerApi::of(endpoint).is_some() && pool.speaks(Endpoint::Chat)
    }

    /// Metric handle of a backend, by the indexes of its pool and itself.
    pub fn meter(&self, pool: usize, backend: usize) -> &Arc<BackendMetrics> {
        &self.meters[pool][backend]
    }

    /// Identity of a backend, as far as it may affect answers.
    pub(super) fn origin(&self, pool: usize, backend: usize) -> Origin {
        self.origins[pool][backend]
    }

    /// The secret with this hash. A BLAKE3 hash gives away nothing about its secret by the time of the look-up.
    pub(super) fn secret(&self, hash: &[u8; 32]) -> Option<Secret> {
        self.keys.get(hash).copied()
    }

    /// Caller with the key at this index.
    pub(super) fn caller(&self, key: usize) -> &Arc<Caller> {
        &self.callers[key]
    }

    /// Token counter of the pool at this index.
    pub(super) fn counter(&self, pool: usize) -> &Arc<Counter> {
        &self.counters[pool]
    }

    /// Metric handle of the pool at this index.
    pub fn pool_meter(&self, pool: usize) -> &Arc<PoolMetrics> {
        &self.pool_meters[pool]
    }
}

/// Computes the identities of a pool's backends: hashes over the pool, address, model and changes made to requests.
fn origins(pool: &policy::Pool, engines: &[policy::Engine]) -> Vec<Origin> {
    let origin = |backend: &policy::Backend| {
        let policy::Backend {
            name: _,
            engine,
            model,
            strip,
            adapter,
            serves,
            deployment,
            same_as: _,
            weight: _,
            drop,
            defaults,
            audience,
            follows: _,
        } = backend;
        let policy::Engine { url, dialect, payer, .. } = &engines[*engine];
        let mut what = format!("{:?}", (&pool.name, url, dialect, model, adapter, serves, deployment, drop, defaults));
        // Without a prefix the text is the one of earlier versions, so that answers on disk are found again.
        what += strip.as_deref().unwrap_or_default();
        // Accounts at one address give the same answers. A team's own account may have models of its own, and its
        // answers are the team's.
        if let policy::Audience::Team(team) = audience {
            let _ = write!(what, "{team:?}{payer:?}");
        }
        Origin(xxh3_64(what.as_bytes()))
    };
    pool.backends.iter().map(origin).collect()
}

/// The serving state in force.
pub struct Live(ArcSwap<Serving>);

impl Live {
    /// Starts with `serving`.
    pub fn new(serving: Serving) -> Self {
        Self(ArcSwap::from_pointee(serving))
    }

    /// Returns the state in force. A request that loaded it keeps it to its end.
    pub fn load(&self) -> Arc<Serving> {
        self.0.load_full()
    }

    /// Serves by `serving` from the next request on.
    pub fn swap(&self, serving: Serving) {
        self.0.store(Arc::new(serving));
    }
}
