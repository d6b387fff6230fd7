//! Simulated engines in the place of a policy's own, so that a policy can be tried before its engines are there.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::sync::Mutex;

use super::{Profile, Running, http_server::ANY_MODEL, start};
use crate::{
    policy::{Dialect, Policy, Pool},
    types::Name,
};

/// A pool whose context is at least this long is taken for one of a long-context model.
const LONG: u64 = 200_000;

/// Simulated engines by the names of those they stand in for. They stop when this is dropped.
#[derive(Debug, Default)]
pub struct Substitutes {
    // Held while engines start, so that two reloads do not start one twice.
    engines: Mutex<HashMap<Name, Running>>,
}

impl Substitutes {
    /// `policy` over simulated engines: one for each of its own, those that run already as they are.
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
            // Where an Azure deployment was, there is a model's name now.
            backend.model = backend.model.take().or(backend.deployment.take());
        }
        // What is made up must not be taken for what was seen.
        policy.journal = None;
        policy.learning.file = None;
        policy.simulated = true;
        Ok(policy)
    }
}

/// The engine that a pool's name or context suggests; else the first pool of a policy has the small model.
fn profile(pool: &Pool, place: usize) -> Profile {
    Profile::named(&pool.name).unwrap_or_else(|| match pool.context {
        Some(tokens) if tokens >= LONG => Profile::long(),
        _ if place == 0 => Profile::small(),
        _ => Profile::large(),
    })
}
