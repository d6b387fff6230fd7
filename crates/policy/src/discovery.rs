//! Backends that are discovered at run time: where they come from, and the policy with those found.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use super::{
    Backend, DrainedBackend, Engine, Labels, Policy, Pool,
    implicit_models::{free, name_backends},
};
use signalbox_config::{
    At, ListedEndpoint, authority,
    discovery::{RecordKind, Scheme},
};
use signalbox_types::{Name, Payer};

/// A set of backends of a pool that changes at run time.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendSource {
    /// The source of its addresses.
    pub from: AddressSource,
    /// The scheme of addresses that bring none.
    pub scheme: Scheme,
    /// The path of addresses that bring none, without a trailing slash.
    pub path: String,
    /// The engine at each address, without its name and address.
    pub engine: Engine,
    /// The backend on each engine, without its name and engine.
    pub backend: Backend,
    /// Its position in the policy file.
    pub at: At,
}

/// The most addresses of a source that are used.
pub const MOST_ADDRESSES: usize = 1_000;

/// A source of addresses. Equal ones share their answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AddressSource {
    /// A DNS name.
    Dns(DnsName),
    /// A file of endpoints.
    File(PathBuf),
}

/// A DNS name and the way to resolve it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DnsName {
    /// The name.
    pub name: Name,
    /// The records that are asked for.
    pub kind: RecordKind,
    /// The port of every address; 0 with SRV records.
    pub port: u16,
    /// The longest time between two resolutions.
    pub every: Duration,
    /// The time for which answers must stay empty before the last backends are given up.
    pub empty_after: Duration,
    /// The DNS server; `None` for those of the system.
    pub server: Option<SocketAddr>,
    /// The host name for TLS, if it is not that of the record.
    pub host: Option<Name>,
}

/// An address that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundAddress {
    /// Host and port.
    pub authority: String,
    /// The host name for TLS and the `Host` header, if the address is only where to connect.
    pub host: Option<Name>,
    /// Its scheme, if it is not that of the source.
    pub scheme: Option<Scheme>,
    /// Its path, if it is not that of the source.
    pub path: Option<String>,
    /// Most concurrent requests, if they are not those of the source.
    pub max_concurrency: Option<u32>,
}

/// Origin of a backend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum BackendOrigin {
    /// Named in the policy.
    #[default]
    Policy,
    /// Found through a source.
    Found(Arc<AddressSource>),
    /// Added over the admin API.
    Admin,
}

/// A backend added over the admin API.
#[derive(Clone, Debug, PartialEq)]
pub struct AddedBackend {
    /// Its pool.
    pub pool: Name,
    /// Its name, unless another backend has it.
    pub id: Name,
    /// Its engine.
    pub engine: Engine,
    /// The backend, without its name and engine.
    pub backend: Backend,
}

/// A model on an engine that left, whose learned state is kept for its return.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptBackend {
    /// The engine.
    pub engine: Engine,
    /// The model.
    pub model: Option<Name>,
}

/// Knowledge of the fleet beside the policy file.
#[derive(Clone, Debug, Default)]
pub struct LiveFleet {
    /// Addresses in force, by source.
    pub found: HashMap<AddressSource, Vec<FoundAddress>>,
    /// Backends added over the admin API.
    pub added: Vec<AddedBackend>,
    /// Backends that get no new requests.
    pub drained: Vec<DrainedBackend>,
}

impl AddressSource {
    /// Kind and name for operators: `dns vllm.default.svc`, `file endpoints.yaml`.
    pub fn label(&self) -> String {
        match self {
            Self::Dns(dns) => format!("dns {}", dns.name),
            Self::File(path) => format!("file {}", path.display()),
        }
    }
}

impl BackendOrigin {
    /// Name for operators.
    pub fn label(&self) -> String {
        match self {
            Self::Policy => "policy".to_owned(),
            Self::Found(source) => source.label(),
            Self::Admin => "admin".to_owned(),
        }
    }
}

impl From<ListedEndpoint> for FoundAddress {
    fn from(listed: ListedEndpoint) -> Self {
        let ListedEndpoint { scheme, authority, path, max_concurrency } = listed;
        Self { authority, host: None, scheme, path, max_concurrency }
    }
}

impl FoundAddress {
    /// The address `authority` with the settings of its source.
    pub fn at(authority: String) -> Self {
        Self { authority, host: None, scheme: None, path: None, max_concurrency: None }
    }

    fn url(&self, source: &BackendSource) -> String {
        let (scheme, path) = (self.scheme.unwrap_or(source.scheme), self.path.as_deref().unwrap_or(&source.path));
        let default_port = if scheme == Scheme::Https { ":443" } else { ":80" };
        let authority = self.authority.strip_suffix(default_port).unwrap_or(&self.authority);
        format!("{}://{authority}{path}", scheme.name())
    }

    fn engine(&self, source: &BackendSource) -> Engine {
        let url = self.url(source);
        let secured = url.starts_with("https://");
        let host = self.host.clone().filter(|_| secured);
        let max_concurrency = self.max_concurrency.or(source.engine.max_concurrency);
        Engine { url, host, max_concurrency, ..source.engine.clone() }
    }
}

impl Pool {
    /// Every kind of backend that the policy gives it: those that it names, and those that sources may bring.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &Backend> {
        self.backends.iter().chain(self.sources.iter().map(|source| &source.backend))
    }
}

impl Policy {
    /// The distinct sources of all pools.
    pub fn sources(&self) -> Vec<AddressSource> {
        let mut all: Vec<AddressSource> = Vec::new();
        for source in self.pools.iter().flat_map(|pool| &pool.sources) {
            if !all.contains(&source.from) {
                all.push(source.from.clone());
            }
        }
        all
    }

    /// The policy as written, with the backends of `fleet`, without those that are drained. Names and routes stay valid
    /// for any set, so that this cannot fail.
    #[must_use]
    pub fn with_fleet(&self, fleet: &LiveFleet) -> Self {
        let mut policy = self.clone();
        let mut origins: HashMap<(usize, usize), BackendOrigin> = HashMap::new();
        let mut engines = EngineIndex::new(&policy.engines, policy.named_engines);
        for (at, pool) in policy.pools.iter_mut().enumerate() {
            let mut known: HashSet<_> = pool.backends.iter().map(same).collect();
            for source in &pool.sources {
                let origin = BackendOrigin::Found(Arc::new(source.from.clone()));
                for address in fleet.found.get(&source.from).into_iter().flatten() {
                    let engine = engines.at(&mut policy.engines, address.engine(source), None);
                    let backend = Backend { engine, ..source.backend.clone() };
                    if known.insert(same(&backend)) {
                        pool.backends.push(backend);
                        origins.insert((at, pool.backends.len() - 1), origin.clone());
                    }
                }
            }
            for added in fleet.added.iter().filter(|added| added.pool == pool.name) {
                let engine = engines.at(&mut policy.engines, added.engine.clone(), Some(&added.id));
                let backend = Backend { engine, ..added.backend.clone() };
                if known.insert(same(&backend)) {
                    pool.backends.push(backend);
                    origins.insert((at, pool.backends.len() - 1), BackendOrigin::Admin);
                }
            }
        }
        name_backends(&policy.engines, &mut policy.pools);
        policy.labels = Labels::new(&policy.engines, policy.named_engines, &policy.pools);
        policy.labels.reveal(&fleet.added.iter().map(|added| &added.id).collect::<Vec<_>>());
        for (at, pool) in policy.pools.iter_mut().enumerate() {
            for (place, backend) in pool.backends.iter().enumerate() {
                if let Some(origin) = origins.get(&(at, place)) {
                    policy.backend_origins.insert(backend.name.clone(), origin.clone());
                }
            }
            let of_pool = fleet.drained.iter().filter(|drained| drained.pool == pool.name);
            let found = of_pool.filter_map(|drained| drained.find(&policy.engines, &pool.backends));
            let names: Vec<Name> = found.map(|backend| backend.name.clone()).collect();
            let is_drained = |backend: &Backend| names.contains(&backend.name);
            (pool.drained, pool.backends) = std::mem::take(&mut pool.backends).into_iter().partition(is_drained);
        }
        policy
    }

    /// Keeps the learned state of models on engines that left.
    pub fn keep(&mut self, left: impl Iterator<Item = KeptBackend>) {
        let mut engines = EngineIndex::new(&self.engines, self.named_engines);
        for KeptBackend { engine, model } in left {
            let name = engine.name.clone();
            let at = engines.at(&mut self.engines, engine, Some(&name));
            self.kept.push((at, model));
        }
    }

    /// The origin of the backend with this name.
    pub fn origin_of(&self, backend: &Name) -> BackendOrigin {
        self.backend_origins.get(backend).cloned().unwrap_or_default()
    }

    /// The policy with the addresses that `found` returns in place of its sources, for work without a network. A source
    /// without any gets one stand-in named after its file.
    #[must_use]
    pub fn with_stand_ins(&self, found: impl Fn(&AddressSource) -> Vec<FoundAddress>) -> Self {
        let stand_in = |from: &AddressSource| {
            let mut found = found(from);
            if let (AddressSource::File(path), true) = (from, found.is_empty()) {
                let name = path.file_stem().map_or_else(|| "endpoint".into(), |name| name.to_string_lossy());
                let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
                found.push(FoundAddress::at(name.chars().map(plain).collect()));
            }
            (from.clone(), found)
        };
        let found = self.sources().iter().map(stand_in).collect();
        let mut policy = self.with_fleet(&LiveFleet { found, ..LiveFleet::default() });
        policy.pools.iter_mut().for_each(|pool| pool.sources.clear());
        policy
    }
}

/// The engines of a policy by address.
struct EngineIndex {
    by_url: HashMap<String, Vec<usize>>,
    names: HashSet<Name>,
    /// Engines before this index are named in the policy.
    named: usize,
}

impl EngineIndex {
    fn new(engines: &[Engine], named: usize) -> Self {
        let mut index = Self { by_url: HashMap::new(), names: HashSet::new(), named };
        for (at, engine) in engines.iter().enumerate() {
            index.note(at, engine);
        }
        index
    }

    fn note(&mut self, at: usize, engine: &Engine) {
        self.by_url.entry(engine.url.clone()).or_default().push(at);
        self.names.insert(engine.name.clone());
    }

    /// The index of `engine` in `engines`, to which it is added if it is new. An engine that the policy names at this
    /// address, or that was found first, keeps its settings. Credentials are never mixed: at an address that was found
    /// with other keys or another host name, it is an engine of its own.
    fn at(&mut self, engines: &mut Vec<Engine>, engine: Engine, name: Option<&Name>) -> usize {
        let there = self.by_url.get(&engine.url).map_or(&[][..], Vec::as_slice);
        let is_same = |at: usize| {
            let known = &engines[at];
            if at < self.named {
                return known.payer == engine.payer;
            }
            let is_further = engine.payer == Payer::Own && matches!(known.payer, Payer::Key(_));
            (known.payer == engine.payer || is_further) && (&known.keys, &known.host) == (&engine.keys, &engine.host)
        };
        if let Some(known) = there.iter().copied().find(|at| is_same(*at)) {
            return known;
        }
        let is_taken = there.iter().any(|at| engines[*at].payer == engine.payer);
        let wanted = name.map_or_else(|| authority(&engine.url), Name::as_ref);
        let name = free(wanted, |name| self.names.contains(name));
        let payer = if is_taken { Payer::Key(name.clone()) } else { engine.payer.clone() };
        engines.push(Engine { name, payer, ..engine });
        let at = engines.len() - 1;
        self.note(at, &engines[at]);
        at
    }
}

/// The parts by which a backend differs from others of its pool.
fn same(backend: &Backend) -> (usize, Option<Name>, Option<Name>) {
    (backend.engine, backend.model.clone(), backend.serves.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile;
    use signalbox_config::Config;

    const POLICY: &str = "engines: { own: { url: \"http://10.0.0.1:8000/v1\", max_concurrency: 3 } }\n\
        pools:\n  main:\n    model: m\n    backends:\n      - engine: own\n      - dns: { name: llm.test, port: 8000 }\n        \
        max_concurrency: 9\n        key: k\n      - file: list.yaml\n        scheme: https\n        path: /\n        model: n\n  \
        spare: { model: m, backends: [{ dns: { name: llm.test, port: 8000 }, key: k }] }\n";

    fn policy() -> Policy {
        compile(&POLICY.parse::<Config>().unwrap()).unwrap()
    }

    fn found(policy: &Policy, by_name: &[&str], in_file: &[&str]) -> HashMap<AddressSource, Vec<FoundAddress>> {
        let addresses = |of: &[&str]| of.iter().map(|at| FoundAddress::at((*at).to_owned())).collect::<Vec<_>>();
        let of = |from: AddressSource| {
            let list = if matches!(from, AddressSource::Dns(_)) { by_name } else { in_file };
            (from, addresses(list))
        };
        policy.sources().into_iter().map(of).collect()
    }

    fn names(policy: &Policy) -> Vec<Vec<&str>> {
        policy.pools.iter().map(|pool| pool.backends.iter().map(|backend| &*backend.name).collect()).collect()
    }

    #[test]
    fn models_are_offered_before_any_address_is_known() {
        let policy = policy();
        assert_eq!(policy.models.names().map(|name| &**name).collect::<Vec<_>>(), ["auto", "m", "n"]);
        assert_eq!(policy.sources().len(), 2, "two pools share a name");
        assert_eq!(names(&policy.with_fleet(&LiveFleet::default())), [vec!["own"], vec![]]);
    }

    #[test]
    fn addresses_become_backends_with_the_settings_of_their_source() {
        let base = policy();
        let fleet = LiveFleet {
            found: found(&base, &["10.0.0.2:8000", "10.0.0.1:8000"], &["gpu:443"]),
            ..LiveFleet::default()
        };
        let policy = base.with_fleet(&fleet);
        // An address that the policy names is its engine, and in the pool already.
        assert_eq!(names(&policy), [vec!["own/m", "10.0.0.2:8000/m", "gpu"], vec!["10.0.0.2:8000/m-2", "own/m-2"]]);
        let engine = |url: &str| policy.engines.iter().find(|engine| engine.url == url).unwrap();
        let other = engine("http://10.0.0.2:8000/v1");
        assert_eq!((other.max_concurrency, other.keys.len(), other.scrape.is_some()), (Some(9), 1, true));
        assert_eq!(engine("http://10.0.0.1:8000/v1").max_concurrency, Some(3));
        assert_eq!((engine("https://gpu").scrape, &*policy.pools[0].backends[2].model.clone().unwrap()), (None, "n"));
        assert_eq!(policy.origin_of(&"gpu".into()).label(), "file list.yaml");
        assert_eq!(policy.origin_of(&"10.0.0.2:8000/m".into()).label(), "dns llm.test");
        assert_eq!(policy.origin_of(&"own/m".into()), BackendOrigin::Policy);
        // Callers do not see addresses.
        assert_eq!(&**policy.labels.shown(&"10.0.0.2:8000/m".into()), "main-2");
        // The set may shrink again, and the policy as written stays what it was.
        assert_eq!(names(&base), [vec!["own"], vec![]]);
    }

    #[test]
    fn sources_that_meet_at_one_address_do_not_share_keys() {
        let source =
            |name: &str| format!("{{ dns: {{ name: {name}.test, port: 443 }}, scheme: https, key: sk-{name} }}");
        let text = format!(
            "pools:\n  a: {{ model: m, backends: [{}, {}] }}\n  b: {{ model: m, backends: [{}] }}\n",
            source("one"),
            source("two"),
            source("two")
        );
        let base = compile(&text.parse::<Config>().unwrap()).unwrap();
        let at = |from: AddressSource| {
            let AddressSource::Dns(dns) = &from else { panic!() };
            let address = FoundAddress { host: Some(dns.name.clone()), ..FoundAddress::at("10.0.0.1:443".into()) };
            (from, vec![address])
        };
        let found = base.sources().into_iter().map(at).collect();
        let policy = base.with_fleet(&LiveFleet { found, ..LiveFleet::default() });
        let engines: Vec<_> =
            policy.engines.iter().map(|it| (it.host.as_deref().unwrap(), it.keys[0].expose())).collect();
        assert_eq!(engines, [("one.test", "sk-one"), ("two.test", "sk-two")]);
        assert!(policy.engines[0].id() != policy.engines[1].id());
        assert_eq!(policy.pools[1].backends[0].engine, 1, "the same source in another pool");
    }

    #[test]
    fn drained_backends_keep_their_names_and_get_nothing() {
        let base = policy();
        let drained = vec![DrainedBackend { pool: "main".into(), id: "10.0.0.2:8000/m".into(), identity: None }];
        let fleet = LiveFleet { found: found(&base, &["10.0.0.2:8000"], &[]), drained, ..LiveFleet::default() };
        let mut policy = base.with_fleet(&fleet);
        assert_eq!(names(&policy), [vec!["own"], vec!["10.0.0.2:8000/m-2"]]);
        assert_eq!(&*policy.pools[0].drained[0].name, "10.0.0.2:8000/m");
        let left = KeptBackend { engine: Engine::at("gone".into(), "http://gone/v1".into()), model: None };
        policy.keep([left.clone(), left].into_iter());
        assert_eq!(policy.kept, [(2, None), (2, None)]);
    }

    #[test]
    fn stand_ins_take_the_place_of_sources() {
        let policy = policy().with_stand_ins(|_| Vec::new());
        assert_eq!(names(&policy), [vec!["own", "list"], vec![]]);
        assert!(policy.pools.iter().all(|pool| pool.sources.is_empty()));
    }
}
