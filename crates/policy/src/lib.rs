//! The compiled policy: engines, pools, the models that clients may request, and their routes. Pure.

#![forbid(unsafe_code)]

pub mod access;
mod cache;
mod capture_content;
mod compile;
pub mod condition;
mod defaults;
mod discovery;
mod drained;
mod engine;
mod engine_way;
mod followed;
mod implicit_models;
mod keys;
mod labels;
mod listed;
mod models;
mod notifications;
mod objectives;
mod own_address;
pub mod prices;
mod redaction;
mod responses;
mod secret;
mod shared_placement;
mod simulated;
mod tokenizer;

use std::{collections::HashMap, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;

pub use self::{
    access::AdminAccess,
    cache::{
        CacheUse, Caching, EmbedderChoice, EmbeddingBackend, Exact, IndexKind, Persist, Replay, Scope, Semantic, Shared,
    },
    capture_content::CaptureContent,
    compile::{compile, compile_added, compile_managed_keys, has_variable},
    defaults::USAGE_RETENTION,
    discovery::{
        AddedBackend, AddressSource, BackendOrigin, BackendSource, DnsName, FoundAddress, KeptBackend, LiveFleet,
        MOST_ADDRESSES,
    },
    drained::{BackendIdentity, DrainedBackend},
    engine::{Dialect, Engine, Health, MetricsPlace},
    engine_way::{Connection, EngineWay},
    followed::{FileKind, FollowedFile},
    keys::{Account, Key, ManagedKeys, OtherSecret, PRIORITY, SharedLimits, Team, Usage},
    labels::Labels,
    listed::{ListedModel, MOST_LISTED},
    models::{ByLength, Cascade, Model, ModelTable, Route, RouteChoice, Rule, Target, Tiers},
    notifications::{Format, Notifications, Receiver, Topic},
    objectives::{Judged, Measure, Objective, Objectives, RequestEnd, RequestResult},
    redaction::Redactor,
    responses::StoredResponses,
    secret::Secret,
    shared_placement::SharedPlacement,
    simulated::{Found, discovered, observing, simulated},
    tokenizer::Tokenizer,
};
pub use signalbox_config::{AccessFormat, keys::Allowed};
pub use signalbox_types::ModelGlob;
use signalbox_types::{AnswerModel, Endpoint, Name, Overload, Price, Strategy};

/// A validated policy, ready to serve. Names are resolved to indices and defaults are filled in.
#[expect(clippy::struct_excessive_bools, reason = "independent switches of a policy")]
#[derive(Clone, Debug)]
pub struct Policy {
    /// The address for clients.
    pub listen: SocketAddr,
    /// The address for operators (status page, metrics, reload); `None` if it is off.
    pub admin: Option<SocketAddr>,
    /// The credentials of operators.
    pub admin_access: AdminAccess,
    /// The host names that clients may address, besides the address and `localhost`; `None` for any.
    pub hosts: Option<Vec<Name>>,
    /// The web origins that may call from browsers.
    pub origins: Vec<Name>,
    /// The gateway's own certificate; `None` for plain connections.
    pub tls: Option<Tls>,
    /// The callers' keys. Anyone may call if it is empty and there are no managed keys either.
    pub keys: Vec<Key>,
    /// True if the policy states explicitly that there are no keys.
    pub keys_none: bool,
    /// The storage of keys that are created on the running gateway; `None` if there are none.
    pub managed_keys: Option<ManagedKeys>,
    /// Teams with a budget.
    pub teams: Vec<Team>,
    /// Teams with provider accounts of their own.
    pub paying_teams: Vec<Name>,
    /// The server through which gateways count usage together; `None` if each counts its own.
    pub shared_limits: Option<SharedLimits>,
    /// The storage of usage; `None` if it is lost with the process.
    pub usage: Option<Usage>,
    /// True if a key may request objects at providers whose owner is unknown.
    pub allows_unknown_objects: bool,
    /// Accounts at providers, referred to by index.
    pub accounts: Vec<Account>,
    /// The engines, referred to by index.
    pub engines: Vec<Engine>,
    /// Number of engines that the policy names; those that follow are named after their address.
    pub named_engines: usize,
    /// The pools, referred to by index.
    pub pools: Vec<Pool>,
    /// The origins of backends that the policy does not name.
    pub backend_origins: HashMap<Name, BackendOrigin>,
    /// Indices of engines that left, each with a model whose learned state is kept.
    pub kept: Vec<(usize, Option<Name>)>,
    /// The file that keeps the backends added and drained over the admin API.
    pub fleet_state: Option<PathBuf>,
    /// The models that clients may request.
    pub models: ModelTable,
    /// Limits of the gateway itself.
    pub limits: Limits,
    /// Deadlines of routes that set none.
    pub timeouts: Timeouts,
    /// The journal of decisions, if any.
    pub journal: Option<Journal>,
    /// The access log, if any.
    pub access_log: Option<AccessLog>,
    /// The OpenTelemetry export, if any.
    pub otel: Option<Otel>,
    /// The cache settings; `None` if nothing is cached.
    pub caching: Option<Caching>,
    /// The storage of responses and conversations.
    pub responses: StoredResponses,
    /// Sharing of what is cached where with other gateways; `None` if it is off.
    pub shared_placement: Option<SharedPlacement>,
    /// Notifications of budgets and objectives, if any.
    pub notifications: Option<Notifications>,
    /// The rules by which the error budgets of objectives are judged.
    pub error_budgets: signalbox_measure::BurnRules,
    /// Learning from own traffic for routes with tiers.
    pub learning: Learning,
    /// Background requests, if any are allowed.
    pub background: Option<Background>,
    /// Index of the pool that stands for an existing gateway, to which everything is passed unchanged (observe mode).
    pub observed: Option<usize>,
    /// The names shown to callers in place of addresses.
    pub labels: Labels,
    /// The model that answers of chat and completions name.
    pub answer_model: AnswerModel,
    /// True if the engines are simulated.
    pub simulated: bool,
    /// True if pools without a price or a context size take them from the [built-in table](prices).
    pub builtin_prices: bool,
    /// Hashes of further secrets of the keys, in their order: those with which a policy is tried over simulated engines.
    pub demo_hashes: Vec<[u8; 32]>,
    /// The files of secrets, each with the BLAKE3 hash of its content.
    pub secret_files: Vec<(PathBuf, [u8; 32])>,
    /// First 12 hex digits of the BLAKE3 hash of the policy's text.
    pub hash: String,
    /// The policy's text with secrets masked; empty without a file.
    pub text: Arc<str>,
}

/// A pool: backends that serve the same purpose.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Its name.
    pub name: Name,
    /// The endpoints that its backends support.
    pub speaks: Vec<Endpoint>,
    /// True if the policy names no endpoints: those that all of its engines are found to serve are added.
    pub learns_endpoints: bool,
    /// The tokenizer for its prompts.
    pub tokenizer: Tokenizer,
    /// The balancing strategy.
    pub balance: Strategy,
    /// The price of its tokens, if known.
    pub price: Option<Price>,
    /// Its service-level objectives.
    pub objectives: Objectives,
    /// The order of waiting requests that miss them.
    pub overload: Overload,
    /// The context size in tokens, for prompt and answer together; `None` for the size that the backends report.
    pub context: Option<u64>,
    /// The model's name upstream, for backends that name none.
    pub model: Option<Name>,
    /// Its backends.
    pub backends: Vec<Backend>,
    /// Backends that get no new requests, since an operator drains them.
    pub drained: Vec<Backend>,
    /// Sets of backends that change at run time.
    pub sources: Vec<BackendSource>,
}

/// A model on an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// Its name: the engine's, with the model's if the engine has several backends.
    pub name: Name,
    /// Index of its engine in [`Policy::engines`].
    pub engine: usize,
    /// The model's name upstream; `None` passes on the requested name.
    pub model: Option<Name>,
    /// A prefix of the requested name that is removed upstream, for backends without a model of their own.
    pub strip: Option<Name>,
    /// True if the model is a `LoRA` adapter.
    pub adapter: bool,
    /// The only name under which it can be requested; backends without one serve the pool.
    pub serves: Option<Name>,
    /// The Azure deployment.
    pub deployment: Option<Name>,
    /// The name of the model that it really serves, if backends name the same model differently.
    pub same_as: Option<Name>,
    /// A fixed share of the pool's traffic in `0..=1`; `None` if the balancer decides.
    pub weight: Option<f64>,
    /// Top-level request fields that it does not support.
    pub drop: Vec<String>,
    /// Top-level request fields to add if the client sent none: name and JSON value.
    pub defaults: Vec<(String, Bytes)>,
    /// The teams whose requests it takes.
    pub audience: Audience,
    /// It stands for the models that its engine lists and that match, and has no requests itself.
    pub follows: Option<ModelGlob>,
}

/// The teams whose requests a backend takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Audience {
    /// All.
    #[default]
    All,
    /// All but these, which have provider accounts of their own.
    Others(Arc<[Name]>),
    /// This team alone, through its own account.
    Team(Name),
}

impl Audience {
    /// True for requests of `team`; `None` stands for all teams without accounts of their own.
    pub fn admits(&self, team: Option<&Name>) -> bool {
        match self {
            Self::All => true,
            Self::Others(teams) => team.is_none_or(|team| !teams.contains(team)),
            Self::Team(own) => team == Some(own),
        }
    }
}

impl Backend {
    /// The identity of its model: backends with the same one may continue each other's streams.
    pub fn identity(&self) -> Option<&Name> {
        self.same_as.as_ref().or(self.model.as_ref())
    }

    /// The identity of the model that answers a request for `asked`; `None` where no name tells it.
    pub fn identity_for<'n>(&'n self, asked: Option<&'n str>) -> Option<&'n str> {
        self.same_as.as_deref().or_else(|| self.model_for(asked)).or(asked)
    }

    /// The name to send upstream for a request for `asked`, unless that name is passed on.
    pub fn model_for<'n>(&'n self, asked: Option<&'n str>) -> Option<&'n str> {
        match (&self.model, &self.strip) {
            (Some(model), _) => Some(model),
            (None, Some(prefix)) => asked?.strip_prefix(&**prefix).filter(|rest| !rest.is_empty()),
            (None, None) => None,
        }
    }
}

/// The gateway's own certificate, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate, followed by its intermediate certificates.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Root certificates for clients' certificates; `None` if clients need none.
    pub client_roots: Option<PathBuf>,
}

/// Limits of the gateway itself.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest request body, in bytes.
    pub body: usize,
    /// Most memory for all request bodies together, in bytes.
    pub bodies: usize,
    /// Most concurrent requests.
    pub in_flight: usize,
    /// The longest that a client may take to send its headers.
    pub header: Duration,
    /// The time that streams may continue after SIGTERM.
    pub drain: Duration,
    /// The time that new connections are accepted after SIGTERM while the gateway reports that it is not ready.
    pub lame_duck: Duration,
    /// Most requests that wait for capacity in one pool.
    pub queue_length: usize,
    /// The longest that a request waits, unless its route sets a limit.
    pub queue_wait: Duration,
}

/// Deadlines of one request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection to the engine is established.
    pub connect: Duration,
    /// Until the first content, reasoning or tool delta of a stream; then another backend is tried in parallel. `None`:
    /// derived from the prediction.
    pub first_token: Option<Duration>,
    /// Between two signs of life of a stream: events, comments or any other bytes.
    pub idle: Duration,
    /// Between two events of a stream other than pings and comments.
    pub content: Duration,
    /// From arrival to the last byte, if limited.
    pub total: Option<Duration>,
}

/// Learning from own traffic for routes with tiers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learning {
    /// The file that stores what was learned, if any.
    pub file: Option<PathBuf>,
    /// True if repeated questions and continued conversations count as labels.
    pub re_ask: bool,
}

/// Requests that the gateway sends by itself in order to learn.
#[derive(Clone, Debug, PartialEq)]
pub struct Background {
    /// The most that they may cost, as a share of the cost of callers' requests; above 0, at most 1.
    pub budget: f64,
    /// True if costs are counted in US dollars; false for tokens, because a pool has no price.
    pub in_dollars: bool,
    /// The only pools that may receive them; `None` for those of the original request.
    pub pools: Option<Vec<usize>>,
    /// The pool and model that compares answers.
    pub judge: Option<Target>,
}

impl Background {
    /// True if the pool with this index may receive them.
    pub fn allows(&self, pool: usize) -> bool {
        self.pools.as_ref().is_none_or(|pools| pools.contains(&pool))
    }
}

/// The journal of decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// The file; rotated files get `.1`, `.2`, … appended.
    pub path: PathBuf,
    /// The size at which it is rotated, in bytes.
    pub max_size: u64,
    /// The number of rotated files that are kept.
    pub keep: u32,
    /// True if lines include values that only some conditions need (language, complexity), and hashes of prompts'
    /// blocks.
    pub facts: bool,
}

/// The access log: a line for each completed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// The format of a line.
    pub format: AccessFormat,
    /// The file; `None` for standard output.
    pub path: Option<PathBuf>,
    /// The size at which the file is rotated, in bytes.
    pub max_size: u64,
    /// The number of rotated files that are kept.
    pub keep: u32,
}

/// The export of traces and metrics to an OpenTelemetry collector.
#[derive(Clone, Debug, PartialEq)]
pub struct Otel {
    /// Its base address, without a trailing slash. What the policy does not set is read from the environment.
    pub endpoint: Option<String>,
    /// Headers for the collector.
    pub headers: Vec<(Name, Secret)>,
    /// The share of new traces that are recorded.
    pub sample: Option<f64>,
    /// The service name.
    pub service: Option<Name>,
    /// The id of this process among those of the service.
    pub instance: Option<Name>,
    /// The interval at which metrics are sent.
    pub interval: Option<Duration>,
    /// Content of prompts and answers in spans; `None` if none is captured.
    pub content: Option<CaptureContent>,
}
