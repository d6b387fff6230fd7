//! State that outlives a policy: engines in use, and learned state of each model on them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use dashmap::DashMap;
use parking_lot::Mutex;

use super::{
    Account, BackendKey, Breaker, ComputedPrompt, Credential, Engine, EngineKey, EngineLoad, Learned, Load, Outbox,
    PoolLearned,
    account::Used,
    computed_prompts::{backend_key, engine_key},
};
use signalbox_measure::BytesPerToken;
use signalbox_policy::{self as policy, Policy, Secret};
use signalbox_schedule::{affinity::Affinity, prefix::PrefixIndex};
use signalbox_types::{EngineId, Moment, Name, Payer};

/// Memory limit of the prefix index, in bytes.
const PREFIX_MEMORY: usize = 64 << 20;
/// Number of models up to which those are kept that their engines do not list at present.
const MOST_KEPT: usize = 4096;

/// Live engines by identity, and learned state by (engine, model) and by pool.
pub struct Registry {
    engines: DashMap<EngineId, Arc<Engine>>,
    learned: DashMap<(EngineId, Option<Name>), Arc<Learned>>,
    /// Bytes per token by model, or by pool where the policy names no model.
    texts: DashMap<(bool, Name), Arc<BytesPerToken>>,
    pools: DashMap<Name, Arc<PoolLearned>>,
    accounts: DashMap<Name, Arc<Used>>,
    breakers: DashMap<(EngineId, Option<Name>), Arc<Breaker>>,
    /// Acceptance of keys, by account or by engine without one, with the keys it applies to.
    credentials: DashMap<KeyOwner, (Arc<[Secret]>, Arc<Credential>)>,
    /// Engines whose models come and go: what was learned about a model is kept for its return.
    followed: Mutex<HashSet<EngineId>>,
    /// By pool and backend.
    loads: DashMap<(Name, Name), Arc<Load>>,
    prefixes: Arc<PrefixIndex>,
    sessions: Arc<Affinity>,
    outbox: Arc<Outbox>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::with_prefix_memory(PREFIX_MEMORY)
    }
}

impl Registry {
    /// Creates a registry whose prefix index uses at most `bytes` bytes.
    fn with_prefix_memory(bytes: usize) -> Self {
        Self {
            engines: DashMap::new(),
            learned: DashMap::new(),
            texts: DashMap::new(),
            pools: DashMap::new(),
            accounts: DashMap::new(),
            breakers: DashMap::new(),
            credentials: DashMap::new(),
            followed: Mutex::default(),
            loads: DashMap::new(),
            prefixes: Arc::new(PrefixIndex::new(bytes)),
            sessions: Arc::default(),
            outbox: Arc::default(),
        }
    }

    /// The engine with this identity. Returns the known one unless its name changed.
    pub fn engine(&self, name: &Name, id: &EngineId) -> Arc<Engine> {
        let fresh = || Arc::new(Engine::new(name.clone(), id.clone()));
        let mut slot = self.engines.entry(id.clone()).or_insert_with(fresh);
        if slot.name != *name {
            *slot = fresh();
        }
        slot.clone()
    }

    /// Learned state of `model` on an engine; `pool` stands in where no model is named.
    pub fn learned(&self, engine: &EngineId, model: Option<&Name>, pool: &Name) -> Arc<Learned> {
        let texts = (model.is_some(), model.unwrap_or(pool).clone());
        let texts = self.texts.entry(texts).or_default().clone();
        let own = || (backend_key(engine, model), self.outbox.clone());
        let new = || Arc::new(Learned::new(texts, self.prefixes.clone(), self.sessions.clone(), own()));
        self.learned.entry((engine.clone(), model.cloned())).or_insert_with(new).clone()
    }

    /// Learned state of a pool.
    pub fn pool(&self, name: &Name) -> Arc<PoolLearned> {
        self.pools.entry(name.clone()).or_default().clone()
    }

    /// Load counters of a backend of a pool.
    pub fn load(&self, pool: &Name, backend: &Name) -> Arc<Load> {
        self.loads.entry((pool.clone(), backend.clone())).or_default().clone()
    }

    /// The breaker of `model` on an engine.
    pub fn breaker(&self, engine: &EngineId, model: Option<&Name>) -> Arc<Breaker> {
        self.breakers.entry((engine.clone(), model.cloned())).or_default().clone()
    }

    /// The account of `spec`. Its usage carries over; all of its keys are tried again.
    pub fn account(&self, spec: &policy::Account) -> Arc<Account> {
        let used = self.accounts.entry(spec.name.clone()).or_insert_with(|| Arc::new(Used::new(spec))).clone();
        Arc::new(Account::new(spec, used))
    }

    /// Acceptance of the keys of `engine`. Replaced keys start anew.
    pub fn credential(&self, engine: &policy::Engine) -> Arc<Credential> {
        let new = || (engine.keys.clone(), Arc::new(Credential::new(engine.keys.len())));
        let mut known = self.credentials.entry(key_owner(engine)).or_insert_with(new);
        if known.0 != engine.keys {
            *known = new();
        }
        known.1.clone()
    }

    /// Drops the keys that are not in `policy`.
    pub(crate) fn retain_credentials(&self, policy: &Policy) {
        let owners: HashSet<_> = policy.engines.iter().map(key_owner).collect();
        self.credentials.retain(|owner, _| owners.contains(owner));
    }

    /// Drops the accounts that are not in `accounts`.
    pub(crate) fn retain_accounts(&self, accounts: &[policy::Account]) {
        self.accounts.retain(|name, _| accounts.iter().any(|account| account.name == *name));
    }

    /// Keeps what is learned about models of these engines, although they are not listed at present.
    pub(crate) fn keep_followed(&self, engines: HashSet<EngineId>) {
        *self.followed.lock() = engines;
    }

    /// Drops engines outside `engines`, models outside `backends` (engine and model), and pools outside `pools`, so that
    /// changes of policy do not grow the registry.
    pub fn retain(
        &self,
        engines: &HashSet<EngineId>,
        backends: &HashSet<(EngineId, Option<Name>)>,
        pools: &HashSet<&Name>,
    ) {
        self.engines.retain(|id, _| engines.contains(id));
        let followed = self.followed.lock().clone();
        let most = if self.learned.len() > MOST_KEPT { &HashSet::new() } else { &followed };
        self.learned.retain(|backend, _| backends.contains(backend) || most.contains(&backend.0));
        self.texts.retain(|_, texts| Arc::strong_count(texts) > 1);
        self.breakers.retain(|backend, _| backends.contains(backend));
        self.pools.retain(|name, _| pools.contains(name));
        self.loads.retain(|_, load| Arc::strong_count(load) > 1);
    }

    /// All live engines.
    pub fn engines(&self) -> Vec<Arc<Engine>> {
        self.engines.iter().map(|entry| entry.value().clone()).collect()
    }

    /// Index of the prompts that are believed to be cached on each backend.
    pub fn prefixes(&self) -> &PrefixIndex {
        &self.prefixes
    }

    /// Prompts that wait to be published to other gateways.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Records prompts that other gateways had computed. Returns the number of those whose backend is not here.
    pub fn computed_elsewhere(&self, prompts: &[ComputedPrompt]) -> usize {
        let backends: HashMap<BackendKey, Arc<Learned>> =
            self.learned.iter().map(|entry| (entry.key, entry.value().clone())).collect();
        let is_unknown = |prompt: &&ComputedPrompt| match backends.get(&prompt.backend) {
            Some(learned) => {
                learned.computed_elsewhere(&prompt.blocks);
                false
            }
            None => true,
        };
        prompts.iter().filter(is_unknown).count()
    }

    /// Our load on each engine, for other gateways.
    pub fn engine_loads(&self, now: Moment) -> Vec<(EngineKey, EngineLoad)> {
        self.engines.iter().map(|engine| (engine_key(&engine.id), engine.own_load(now))).collect()
    }

    /// Records the loads that other gateways, each with its number, report. Engines that are not here are ignored.
    pub fn record_engine_loads<'a>(
        &self,
        reports: impl IntoIterator<Item = (u64, &'a [(EngineKey, EngineLoad)])>,
        now: Moment,
    ) {
        let engines: HashMap<EngineKey, Arc<Engine>> =
            self.engines.iter().map(|engine| (engine_key(&engine.id), engine.clone())).collect();
        for (gateway, loads) in reports {
            for (key, load) in loads {
                if let Some(engine) = engines.get(key) {
                    engine.record_peer(gateway, *load, now);
                }
            }
        }
    }

    /// Index of the backends that served each session last.
    pub fn sessions(&self) -> &Affinity {
        &self.sessions
    }
}

/// Owner of a set of keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum KeyOwner {
    Account(Name),
    Engine(EngineId),
}

fn key_owner(engine: &policy::Engine) -> KeyOwner {
    match &engine.payer {
        Payer::Account(name) => KeyOwner::Account(name.clone()),
        Payer::Own | Payer::Key(_) => KeyOwner::Engine(engine.id()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PlacementQuery, Scratch, Snapshot, Ticket};
    use signalbox_policy::{Policy, Target, simulated};
    use signalbox_prompt::Blocks;
    use signalbox_types::{Layout, Moment};

    /// A pool of `small` engines at these addresses, and one each of `large` and `long`.
    fn policy(small: &[&str], large: &str) -> Policy {
        let owned = |urls: &[&str]| urls.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>();
        simulated(&owned(small), &owned(&[large]), &owned(&["http://long"]))
    }

    /// A prompt that one of the pool's backends takes and begins to answer.
    fn served(snapshot: &Snapshot, family: u64) -> Ticket {
        placed(snapshot, family).1
    }

    /// The same, with the address of the engine.
    fn placed(snapshot: &Snapshot, family: u64) -> (String, Ticket) {
        let pool = &snapshot.pools[0];
        let target = Target::whole(0);
        let blocks = prompt(family);
        let outputs = pool.learned.outputs.of(&target, &"route".into());
        let ask = PlacementQuery {
            target: &target,
            tried: &[],
            prompt: blocks.prompt(),
            session: None,
            room_only: false,
            outputs: &outputs,
            max_tokens: None,
            whole: false,
            bounded: false,
            ttft_limit: None,
            tpot_limit: None,
        };
        let now = Moment::default();
        let placed = pool.place(&ask, now, 0.5, &mut Scratch::default()).unwrap();
        let backend = pool.backends[placed.backend].clone();
        let url = backend.engine.id.url.clone();
        let mut ticket = Ticket::take(pool.learned.clone(), outputs, backend, placed.forecast, blocks.clone(), now);
        ticket.first_token(now);
        (url, ticket)
    }

    fn prompt(family: u64) -> Blocks {
        Blocks::new((0..100).map(|block| family << 32 | block).collect(), 6_400, Layout::Fixed(64))
    }

    fn sizes(registry: &Registry) -> [usize; 5] {
        let Registry { engines, learned, pools, loads, prefixes, .. } = registry;
        [engines.len(), learned.len(), pools.len(), loads.len(), prefixes.len()]
    }

    #[test]
    fn state_that_no_policy_names_is_dropped() {
        let registry = Registry::default();
        let two = Snapshot::new(policy(&["http://a", "http://b"], "http://large"), &registry);
        let mut tickets: Vec<Ticket> = (0..4).map(|family| served(&two, family)).collect();
        assert_eq!(sizes(&registry), [4, 4, 3, 4, 400], "each took two of the four prompts");
        let one = Snapshot::new(policy(&["http://a"], "http://large"), &registry);
        drop(two);
        // A request under way keeps its part of the index until its ticket is dropped.
        assert_eq!(sizes(&registry)[..3], [3, 3, 3]);
        tickets.clear();
        assert_eq!(registry.prefixes().len(), 200);
        // Counters for metrics go with the change after the one that dropped their backend.
        drop(one);
        let _moved = Snapshot::new(policy(&["http://a"], "http://a"), &registry);
        assert_eq!(sizes(&registry), [2, 3, 3, 3, 200]);
    }

    #[test]
    fn prompts_computed_for_one_gateway_are_known_to_another() {
        let (one, other) = (Registry::default(), Registry::default());
        let engines = ["http://a", "http://b", "http://c"];
        let here = Snapshot::new(policy(&engines, "http://large"), &one);
        // It names the engines in another order, and lacks one.
        let there = Snapshot::new(policy(&["http://b", "http://a"], "http://large"), &other);
        one.outbox().set_open(true);
        let placed_here: Vec<(String, Ticket)> = (0..30).map(|family| placed(&here, family)).collect();
        let computed = one.outbox().take();
        assert_eq!((computed.len(), &computed[7].blocks), (30, &prompt(7)));
        let lacking = placed_here.iter().filter(|(url, _)| url == "http://c").count();
        assert_eq!((lacking, other.computed_elsewhere(&computed)), (10, 10));
        for (family, (url, _)) in (0..30).zip(&placed_here).filter(|(_, (url, _))| url != "http://c") {
            assert_eq!(placed(&there, family).0, *url, "family {family}");
        }
    }

    #[test]
    fn requests_of_another_gateway_are_load() {
        let (one, other) = (Registry::default(), Registry::default());
        let (here, there) =
            (policy(&["http://a", "http://b"], "http://l"), policy(&["http://b", "http://a"], "http://l"));
        let (here, there) = (Snapshot::new(here, &one), Snapshot::new(there, &other));
        for family in 0..10 {
            let (busy, ticket) = placed(&here, family);
            let loads = one.engine_loads(Moment::default());
            other.record_engine_loads([(7, &*loads)], Moment::default());
            assert_ne!(placed(&there, 100 + family).0, busy, "it decodes a request of the other gateway");
            drop(ticket);
        }
    }

    #[test]
    fn engines_with_the_same_model_share_bytes_per_token() {
        let registry = Registry::default();
        let snapshot = Snapshot::new(policy(&["http://a", "http://b"], "http://large"), &registry);
        let texts = |pool: usize, backend: usize| &snapshot.pools[pool].backends[backend].learned.bytes_per_token;
        (0..200).for_each(|_| texts(0, 0).observe(2_500, 1_000));
        assert_eq!(texts(0, 0).prompt_tokens(2_500), texts(0, 1).prompt_tokens(2_500));
        assert_ne!(texts(0, 0).prompt_tokens(2_500), texts(1, 0).prompt_tokens(2_500), "another model");
    }

    #[test]
    fn models_come_and_go_on_an_engine_that_stays() {
        let registry = Registry::default();
        for round in 0..20 {
            let mut policy = policy(&["http://a"], "http://large");
            policy.pools[0].backends[0].model = Some(format!("adapter-{round}").into());
            let snapshot = Snapshot::new(policy, &registry);
            drop(served(&snapshot, round));
            assert_eq!(sizes(&registry)[1], 3, "round {round}");
            assert!(registry.texts.len() <= 4, "round {round}: {:?}", registry.texts);
            assert_eq!(registry.prefixes().len(), 100, "round {round}");
        }
    }
}
