//! Simulated engines in place of a policy's own, to try a policy before its engines exist.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::sync::Mutex;

use super::{Profile, Running, http_server::ANY_MODEL, start};
use signalbox_policy::{Backend, Dialect, ListedModel, Policy, Pool};
use signalbox_types::Name;

/// Context length from which a pool is taken for a long-context model.
const LONG: u64 = 200_000;

/// Simulated engines by the name of the engine they replace. Dropping it stops them.
#[derive(Debug, Default)]
pub struct Substitutes {
    // Locked while engines start, so that two reloads do not start one twice.
    engines: Mutex<HashMap<Name, Running>>,
}

impl Substitutes {
    /// Returns `policy` with every engine replaced by a simulated one. Engines that run already are reused.
    pub async fn substitute(&self, mut policy: Policy) -> io::Result<Policy> {
        let mut running = self.engines.lock().await;
        for (at, engine) in policy.engines.iter_mut().enumerate() {
            if !running.contains_key(&engine.name) {
                let pool =
                    policy.pools.iter().position(|pool| pool.backends.iter().any(|backend| backend.engine == at));
                let profile = pool.map_or_else(Profile::default, |place| profile(&policy.pools[place], place));
                let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                running.insert(engine.name.clone(), start(profile, ANY_MODEL, listen).await?);
            }
            engine.url = format!("{}/v1", running[&engine.name].url());
            engine.dialect = Dialect::OpenAi;
            engine.keys = [].into();
            engine.dcgm = None;
        }
        for backend in policy.pools.iter_mut().flat_map(|pool| &mut pool.backends) {
            // The name of an Azure deployment takes the place of the model's.
            backend.model = backend.model.take().or(backend.deployment.take());
        }
        // A simulated engine serves any model, so each pattern stands for one.
        let backends = policy.pools.iter().flat_map(|pool| &pool.backends);
        let stands_for = |backend: &Backend| {
            Some((backend.engine, Name::from(backend.follows.as_ref()?.0.replace('*', "simulated"))))
        };
        let followed: Vec<_> = backends.filter_map(stands_for).collect();
        let mut policy = policy.with_listed_models(|at| {
            let own = followed.iter().filter(|(engine, _)| *engine == at);
            own.map(|(_, id)| ListedModel { id: id.clone(), is_adapter: false }).collect()
        });
        // Simulated traffic must not enter the journal or the learned state.
        policy.journal = None;
        policy.learning.file = None;
        policy.simulated = true;
        // Nobody has the secrets of a policy that is only tried, and nothing real is behind it.
        let demo = policy.keys.iter().map(|key| *blake3::hash(demo_key(&key.id).as_bytes()).as_bytes());
        policy.demo_hashes = demo.collect();
        Ok(policy)
    }
}

/// The secret with which the key `id` is tried over simulated engines.
pub fn demo_key(id: &str) -> String {
    format!("sb-demo-{id}")
}

/// Profile by the pool's name or context; otherwise the small model for the first pool and the large one for the others.
fn profile(pool: &Pool, place: usize) -> Profile {
    Profile::named(&pool.name).unwrap_or_else(|| match pool.context {
        Some(tokens) if tokens >= LONG => Profile::long(),
        _ if place == 0 => Profile::small(),
        _ => Profile::large(),
    })
}
