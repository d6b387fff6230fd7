//! A policy together with the live state of its pools. It is swapped as a whole when the policy changes.

use std::sync::Arc;

use super::{Backend, Pool, Registry};
use crate::policy::Policy;

/// One policy with the live backends it names.
#[derive(Debug)]
pub struct Snapshot {
    /// The policy.
    pub policy: Policy,
    /// Its pools, at their indices in the policy.
    pub pools: Vec<Pool>,
}

impl Snapshot {
    /// Binds `policy` to the live state in `registry` and drops the state that it no longer names.
    pub fn new(policy: Policy, registry: &Registry) -> Self {
        let urls = policy.engines.iter().map(|engine| engine.url.as_str()).collect();
        let backends = policy.pools.iter().flat_map(|pool| pool.backends.iter().chain(&pool.drained));
        let backends = backends.map(|backend| (backend.engine, backend.model.as_ref()));
        let kept = policy.kept.iter().map(|(engine, model)| (*engine, model.as_ref()));
        let backends =
            backends.chain(kept).map(|(engine, model)| (policy.engines[engine].url.as_str(), model)).collect();
        registry.retain_accounts(&policy.accounts);
        registry.retain(&urls, &backends, &policy.pools.iter().map(|pool| &pool.name).collect());
        registry.retain_credentials(&policy);
        let accounts: Vec<_> = policy.accounts.iter().map(|account| registry.account(account)).collect();
        let pools = policy
            .pools
            .iter()
            .map(|pool| {
                let backends = pool.backends.iter().map(|spec| {
                    let engine = &policy.engines[spec.engine];
                    let account = engine.account.map(|at| &accounts[at]);
                    Arc::new(Backend {
                        spec: spec.clone(),
                        breaker: registry.breaker(&engine.url, spec.model.as_ref(), account.map(|it| &it.name)),
                        account: account.cloned(),
                        credential: registry.credential(&policy, engine),
                        max_concurrency: engine.max_concurrency,
                        kv_tokens: engine.kv_tokens,
                        load: registry.load(&pool.name, &spec.name),
                        engine: registry.engine(&engine.name, &engine.url),
                        learned: registry.learned(&engine.url, spec.model.as_ref(), &pool.name),
                        by_model: Arc::default(),
                    })
                });
                Pool::new(pool.clone(), backends.collect(), registry.pool(&pool.name))
            })
            .collect();
        Self { policy, pools }
    }
}
