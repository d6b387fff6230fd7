//! Policies without a file: over the built-in simulated engines, over engines found on this machine, or in front of an
//! observed gateway.

use std::sync::Arc;

use super::{
    Audience, Backend, Caching, Engine, Exact, Model, Objectives, Policy, Pool, Route, RouteChoice, Rule, Scope,
    Semantic, Strategy, Target, Tiers, Timeouts, Tokenizer,
    implicit_models::{AUTO, free, name_backends, table},
};
use signalbox_config::Scrape;
use signalbox_types::{Aim, Endpoint, Name};

/// An engine found on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name in logs, metrics and headers, such as `vllm` or `ollama`.
    pub name: String,
    /// Base address of its API, such as `http://127.0.0.1:8000/v1`.
    pub url: String,
    /// The models that the engine lists.
    pub models: Vec<String>,
}

/// Shares of the tiers of the built-in simulated engines.
const SHARES: [f64; 2] = [0.75, 0.25];

/// The policy over the built-in simulated engines at the given addresses. Its models are `auto` (`small` or `large` by the
/// complexity of the prompt, and `long` if they cannot), `small`, `large` and `long`.
pub fn simulated(small: &[String], large: &[String], long: &[String]) -> Policy {
    // Demonstrates the cache; no real money is involved.
    let caching = Caching {
        exact: Some(Exact::default()),
        // Only users of this machine can call.
        semantic: Some(Semantic { scope: Scope::Shared, ..Semantic::default() }),
        ..Caching::default()
    };
    let mut policy = Policy { simulated: true, caching: Some(caching), ..Policy::default() };
    for (name, urls) in [("small", small), ("large", large), ("long", long)] {
        let mut backends = Vec::with_capacity(urls.len());
        for (number, url) in urls.iter().enumerate() {
            let engine = add_engine(&mut policy.engines, &format!("sim-{name}-{}", number + 1), url);
            backends.push(backend(engine, Some(name.into())));
        }
        add_pool(&mut policy.pools, name, backends);
    }
    let mut policy = finish(policy);
    if policy.pools.len() == 3 {
        policy.models.replace(AUTO, tiers(policy.timeouts).into());
    }
    policy
}

/// The model that decides between the first two pools, each of which stands in for the other; the third one for both.
fn tiers(timeouts: Timeouts) -> Model {
    let name = Name::from(AUTO);
    let standing: Arc<[Target]> = [Target::whole(0), Target::whole(1)].into();
    let route = |order: [usize; 3]| {
        let route = Route::new(name.clone(), order.map(Target::whole).to_vec(), timeouts);
        Arc::new(Route { tiers: standing.clone(), ..route })
    };
    let routes = vec![route([0, 1, 2]), route([1, 0, 2])];
    let way = RouteChoice::Tiers(Tiers { aim: Aim::Shares(SHARES.to_vec()), routes }.into());
    Model { rules: vec![Rule { name, when: None, way }] }
}

/// The policy over engines found on this machine: one pool per model, so that engines with the same model share its
/// traffic. Its models are those of the engines and `auto` (the first model found, then the others).
pub fn discovered(found: &[Found]) -> Policy {
    let mut policy = Policy::default();
    for Found { name, url, models } in found {
        let engine = add_engine(&mut policy.engines, name, url);
        if models.is_empty() {
            add_pool(&mut policy.pools, name, vec![backend(engine, None)]);
        }
        for model in models {
            let backend = backend(engine, Some(model.as_str().into()));
            match policy.pools.iter_mut().find(|pool| pool.backends[0].model == backend.model) {
                Some(pool) => pool.backends.push(backend),
                None => add_pool(&mut policy.pools, model, vec![backend]),
            }
        }
    }
    finish(policy)
}

/// `policy` in observe mode: everything passes unchanged to the gateway at `url`, while the policy's decisions are
/// computed for each request and not applied. That gateway is the only backend of a pool named `observed`.
pub fn observing(mut policy: Policy, url: &str) -> Policy {
    let engine = add_engine(&mut policy.engines, "observed", url);
    policy.engines[engine].scrape = None;
    add_pool(&mut policy.pools, "observed", vec![backend(engine, None)]);
    policy.observed = policy.pools.len().checked_sub(1);
    policy.pools.last_mut().into_iter().for_each(|pool| {
        pool.speaks = Endpoint::ALL.to_vec();
        pool.learns_endpoints = false;
    });
    name_backends(&policy.engines, &mut policy.pools);
    policy
}

fn add_engine(engines: &mut Vec<Engine>, name: &str, url: &str) -> usize {
    let name = free(name, |name| engines.iter().any(|engine| &*engine.name == name));
    let url = url.trim_end_matches('/').to_owned();
    let Scrape(scrape) = Scrape::USUAL;
    engines.push(Engine { scrape, ..Engine::at(name, url) });
    engines.len() - 1
}

fn backend(engine: usize, model: Option<Name>) -> Backend {
    Backend {
        name: Name::from(""),
        engine,
        model,
        strip: None,
        adapter: false,
        serves: None,
        deployment: None,
        same_as: None,
        weight: None,
        drop: Vec::new(),
        defaults: Vec::new(),
        audience: Audience::All,
        follows: None,
    }
}

/// Adds a pool, unless it has no backends.
fn add_pool(pools: &mut Vec<Pool>, name: &str, backends: Vec<Backend>) {
    if backends.is_empty() {
        return;
    }
    let name = free(name, |name| pools.iter().any(|pool| &*pool.name == name));
    let speaks = Endpoint::DEFAULT.to_vec();
    pools.push(Pool {
        name,
        speaks,
        learns_endpoints: true,
        tokenizer: Tokenizer::of(&backends),
        balance: Strategy::default(),
        price: None,
        objectives: Objectives::default(),
        overload: signalbox_types::Overload::default(),
        context: None,
        model: None,
        backends,
        drained: Vec::new(),
        sources: Vec::new(),
    });
}

fn finish(mut policy: Policy) -> Policy {
    name_backends(&policy.engines, &mut policy.pools);
    policy.models = table(&policy.pools, policy.timeouts);
    let mut hash = blake3::Hasher::new();
    for engine in &policy.engines {
        hash.update(engine.url.as_bytes()).update(b"\n");
    }
    Policy { hash: hash.finalize().to_hex()[..12].to_owned(), ..policy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_engines_form_three_pools() {
        let urls = |port: u16| vec![format!("http://127.0.0.1:{port}/v1"), format!("http://127.0.0.1:{}/v1", port + 1)];
        let policy = simulated(&urls(1), &urls(3), &urls(5)[..1]);
        assert!(policy.simulated);
        assert_eq!(policy.models.names().map(|name| &**name).collect::<Vec<_>>(), ["auto", "small", "large", "long"]);
        let auto = policy.models.get("auto").unwrap().first().unwrap();
        assert_eq!(auto.targets.iter().map(|target| target.pool).collect::<Vec<_>>(), [0, 1, 2]);
        let RouteChoice::Tiers(tiers) = &policy.models.get("auto").unwrap().rules[0].way else { panic!("no tiers") };
        assert_eq!(tiers.routes[1].targets.iter().map(|target| target.pool).collect::<Vec<_>>(), [1, 0, 2]);
        assert_eq!(&*policy.pools[1].backends[1].name, "sim-large-2");
    }

    #[test]
    fn engines_that_share_a_model_share_a_pool() {
        let found = |name: &str, port: u16, models: &[&str]| Found {
            name: name.to_owned(),
            url: format!("http://127.0.0.1:{port}/v1/"),
            models: models.iter().map(ToString::to_string).collect(),
        };
        let policy = discovered(&[found("ollama", 1, &["a", "b"]), found("vllm", 2, &["b"]), found("vllm", 3, &[])]);
        let pools: Vec<_> = policy
            .pools
            .iter()
            .map(|pool| (&*pool.name, pool.backends.iter().map(|backend| &*backend.name).collect::<Vec<_>>()))
            .collect();
        assert_eq!(pools, [("a", vec!["ollama/a"]), ("b", vec!["ollama/b", "vllm"]), ("vllm", vec!["vllm-2"]),]);
        assert_eq!(policy.models.names().map(|name| &**name).collect::<Vec<_>>(), ["auto", "a", "b"]);
        assert_eq!(policy.engines[0].url, "http://127.0.0.1:1/v1");
    }
}
