//! A policy together with the live state of its pools. It is swapped as a whole when the policy changes.

use std::sync::Arc;

use super::{Backend, Engine, Pool, Registry};
use signalbox_policy::{self as policy, Policy};

/// One policy with the live backends it names.
#[derive(Debug)]
pub struct Snapshot {
    /// The policy.
    pub policy: Policy,
    /// Its pools, at their indices in the policy.
    pub pools: Vec<Pool>,
    /// The policy before listed models became backends; `None` if no backend follows the list of its engine.
    pub base: Option<Arc<Policy>>,
    /// Engines whose lists of models are followed.
    pub followed: Vec<(usize, Arc<Engine>)>,
}

impl Snapshot {
    /// The policy before listed models became backends: the one to change and apply again.
    pub fn source(&self) -> &Policy {
        self.base.as_deref().unwrap_or(&self.policy)
    }

    /// Binds `policy` to the live state in `registry` and drops the state that it no longer names. Backends that follow
    /// the list of their engine become those of the models listed now.
    pub fn new(policy: Policy, registry: &Registry) -> Self {
        let ids: Vec<_> = policy.engines.iter().map(policy::Engine::id).collect();
        let base = policy.follows_models().then(|| Arc::new(policy.clone()));
        let mut followed: Vec<(usize, Arc<Engine>)> = Vec::new();
        for backend in policy.pools.iter().flat_map(|pool| &pool.backends).filter(|backend| backend.follows.is_some()) {
            let at = backend.engine;
            if followed.iter().all(|(known, _)| *known != at) {
                followed.push((at, registry.engine(&policy.engines[at].name, &ids[at])));
            }
        }
        let listed =
            |at: usize| followed.iter().find(|(known, _)| *known == at).map(|(_, engine)| engine.models.listed());
        let policy = match &base {
            Some(base) => base.with_listed_models(|at| listed(at).unwrap_or_default()),
            None => policy,
        };
        let backends = policy.pools.iter().flat_map(|pool| pool.backends.iter().chain(&pool.drained));
        let backends = backends.map(|backend| (ids[backend.engine].clone(), backend.model.clone()));
        let kept = policy.kept.iter().map(|(engine, model)| (ids[*engine].clone(), model.clone()));
        let backends = backends.chain(kept).collect();
        registry.retain_accounts(&policy.accounts);
        registry.keep_followed(followed.iter().map(|(at, _)| ids[*at].clone()).collect());
        registry.retain(
            &ids.iter().cloned().collect(),
            &backends,
            &policy.pools.iter().map(|pool| &pool.name).collect(),
        );
        registry.retain_credentials(&policy);
        let accounts: Vec<_> = policy.accounts.iter().map(|account| registry.account(account)).collect();
        let pools = policy
            .pools
            .iter()
            .map(|pool| {
                let backends = pool.backends.iter().map(|spec| {
                    let (engine, id) = (&policy.engines[spec.engine], &ids[spec.engine]);
                    Arc::new(Backend {
                        spec: spec.clone(),
                        breaker: registry.breaker(id, spec.model.as_ref()),
                        account: engine.account.map(|at| accounts[at].clone()),
                        credential: registry.credential(engine),
                        max_concurrency: engine.max_concurrency,
                        kv_tokens: engine.kv_tokens,
                        load: registry.load(&pool.name, &spec.name),
                        engine: registry.engine(&engine.name, id),
                        learned: registry.learned(id, spec.model.as_ref(), &pool.name),
                        by_model: Arc::default(),
                    })
                });
                Pool::new(pool.clone(), backends.collect(), registry.pool(&pool.name))
            })
            .collect();
        Self { policy, pools, base, followed }
    }
}
