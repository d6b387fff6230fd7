//! What the operator decided, compiled: engines, pools, the models clients may ask for, and where each one goes. Pure.

pub mod access;
mod cache;
mod compile;
pub mod condition;
mod defaults;
mod keys;
mod labels;
mod models;
mod objectives;
mod offered;
mod secret;
mod simulated;
mod tokenizer;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;

pub use self::{
    access::AdminAccess,
    cache::{CacheUse, Caching, Decider, EmbeddingBackend, Exact, Persist, Replay, Scope, Semantic, Shared},
    compile::compile,
    defaults::USAGE_RETENTION,
    keys::{Account, Key, ModelPattern, PRIORITY, SharedLimits, Team, Usage},
    labels::Labels,
    models::{ByLength, Cascade, Model, ModelTable, Route, Rule, Target, Tiers, Way},
    objectives::{End, Fared, Measure, Objective, Objectives},
    secret::Secret,
    simulated::{Found, discovered, observing, simulated},
    tokenizer::{Encoding, Tokenizer},
};
pub use crate::config::{AccessFormat, keys::Allowed};
use crate::types::{Endpoint, Name, Price, Strategy};

/// A policy, checked whole and ready to serve. Names are resolved to indices, defaults are filled in.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where operators connect (page, metrics, reload); `None` when switched off.
    pub admin: Option<SocketAddr>,
    /// How operators are known there.
    pub admin_access: AdminAccess,
    /// The names that clients ask by, beside the address and `localhost`; `None` where any will do.
    pub hosts: Option<Vec<Name>>,
    /// Other sites whose pages may call, as browsers name them.
    pub origins: Vec<Name>,
    /// The gateway's own certificate; `None` where connections are in the clear.
    pub tls: Option<Tls>,
    /// Who may call; empty means anyone.
    pub keys: Vec<Key>,
    /// True if the policy says in so many words that there are none.
    pub keys_none: bool,
    /// Teams with a budget.
    pub teams: Vec<Team>,
    /// With whom what callers use is counted together; `None` where with nobody.
    pub shared_limits: Option<SharedLimits>,
    /// Where it is kept what was used; `None` where it is lost with the process.
    pub usage: Option<Usage>,
    /// True if a key may ask for objects at providers that the gateway does not know the owner of.
    pub allows_unknown_objects: bool,
    /// Accounts at providers, by their place in this list.
    pub accounts: Vec<Account>,
    /// The engines, by their place in this list.
    pub engines: Vec<Engine>,
    /// The pools, by their place in this list.
    pub pools: Vec<Pool>,
    /// What clients may ask for.
    pub models: ModelTable,
    /// Limits of the gateway itself.
    pub limits: Limits,
    /// Deadlines where a route sets none.
    pub timeouts: Timeouts,
    /// Where decisions are written, if anywhere.
    pub journal: Option<Journal>,
    /// How and where requests that are over are told, if at all.
    pub access_log: Option<AccessLog>,
    /// Where traces and measurements go, if anywhere.
    pub otel: Option<Otel>,
    /// Which answers are kept to be given again; `None` where none are.
    pub caching: Option<Caching>,
    /// What routes with tiers learn of their own traffic.
    pub learning: Learning,
    /// Traffic of the gateway's own making, if there may be any.
    pub background: Option<Background>,
    /// Place of the pool that stands for an existing gateway, where everything passes to that one unchanged.
    pub observed: Option<usize>,
    /// What callers are told in the place of names that are addresses.
    pub labels: Labels,
    /// Whether the engines are simulated.
    pub simulated: bool,
    /// First 12 hex digits of the BLAKE3 hash of the policy's text.
    pub hash: String,
}

/// An engine: one server process (or one hosted endpoint) that runs models.
#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    /// Its name in logs, metrics and headers.
    pub name: Name,
    /// Base address, without a trailing slash: `http://host:8000/v1`, or the resource's root for Azure.
    pub url: String,
    /// How requests are addressed and authorised.
    pub dialect: Dialect,
    /// Provider keys, used in turn; empty when it asks for none.
    pub keys: Arc<[Secret]>,
    /// Place of the account that they belong to, if it is called through one.
    pub account: Option<usize>,
    /// The time between two readings of its `/metrics`; `None` where they are not read.
    pub scrape: Option<Duration>,
    /// Most requests there at once, those of others included, where limited.
    pub max_concurrency: Option<u32>,
    /// Size of its KV cache in tokens, where it does not report it itself.
    pub kv_tokens: Option<u64>,
    /// US dollars that an hour of it costs, busy or not, where it is paid for so.
    pub gpu_hour: Option<f64>,
    /// Where an exporter has the metrics of its GPUs.
    pub dcgm: Option<String>,
    /// The active check of whether it is well, if there is one.
    pub health: Option<Health>,
}

/// An active check of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The path to ask for, at the root of its server.
    pub path: Name,
    /// Time between two checks.
    pub every: Duration,
    /// The longest that an answer may take.
    pub timeout: Duration,
}

impl Engine {
    /// An engine that nothing is said of but where it is; its metrics are not read.
    pub fn at(name: Name, url: String) -> Self {
        Self {
            name,
            url,
            dialect: Dialect::OpenAi,
            keys: [].into(),
            account: None,
            scrape: None,
            max_concurrency: None,
            kv_tokens: None,
            gpu_hour: None,
            dcgm: None,
            health: None,
        }
    }
}

/// How an engine is addressed and authorised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `POST {url}/chat/completions`, `Authorization: Bearer`.
    OpenAi,
    /// `POST {url}/openai/deployments/{deployment}/chat/completions?api-version=…`, `api-key`.
    Azure {
        /// The dated version of Azure's API.
        api_version: String,
    },
}

/// A set of backends that serve the same purpose.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Its name.
    pub name: Name,
    /// The endpoints its backends speak.
    pub speaks: Vec<Endpoint>,
    /// What its prompts are counted with.
    pub tokenizer: Tokenizer,
    /// How a backend is chosen.
    pub balance: Strategy,
    /// What its tokens cost, where known.
    pub price: Option<Price>,
    /// What it is to keep to.
    pub objectives: Objectives,
    /// Tokens of prompt and answer together that its backends take; `None` as they report it.
    pub context: Option<u64>,
    /// Its backends.
    pub backends: Vec<Backend>,
}

/// A model on an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// Its name: the engine's, with the model's where the engine has several backends.
    pub name: Name,
    /// Place of its engine in [`Policy::engines`].
    pub engine: usize,
    /// The model's name upstream; `None` passes on what the client asked for.
    pub model: Option<Name>,
    /// Whether the model is a `LoRA` adapter.
    pub adapter: bool,
    /// The name under which alone it is asked for; backends without one serve the pool.
    pub serves: Option<Name>,
    /// The Azure deployment.
    pub deployment: Option<Name>,
    /// The model that it really serves, where others name the same one differently.
    pub same_as: Option<Name>,
    /// A fixed share of the pool's traffic in `0..=1`; without one the balancer decides.
    pub weight: Option<f64>,
    /// Top-level request fields that it cannot take.
    pub drop: Vec<String>,
    /// Top-level request fields to add where the client sent none: name and JSON value.
    pub defaults: Vec<(String, Bytes)>,
}

impl Backend {
    /// The model that it serves: backends with the same one may continue each other's streams.
    pub fn identity(&self) -> Option<&Name> {
        self.same_as.as_ref().or(self.model.as_ref())
    }
}

/// The gateway's own certificate, as files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate and those between it and its root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Roots of clients' certificates; `None` where clients are asked for none.
    pub client_roots: Option<PathBuf>,
}

/// Limits of the gateway itself.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest request body, in bytes.
    pub body: usize,
    /// Most bytes of all request bodies that are held at once.
    pub bodies: usize,
    /// Most requests under way at once.
    pub in_flight: usize,
    /// How long a client may take to send its headers.
    pub header: Duration,
    /// How long streams may go on after SIGTERM.
    pub drain: Duration,
    /// How long connections are still taken after SIGTERM, while readiness is denied.
    pub lame_duck: Duration,
    /// Most requests that wait for room in one pool.
    pub queue_length: usize,
    /// How long each may wait, where its route says nothing else.
    pub queue_wait: Duration,
}

/// Deadlines of one request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the upstream connection stands.
    pub connect: Duration,
    /// Until the first content, reasoning or tool delta of a stream: then another backend is asked beside. `None`: by the prediction.
    pub first_token: Option<Duration>,
    /// Between two events of a stream.
    pub idle: Duration,
    /// From arrival to the last byte, where limited.
    pub total: Option<Duration>,
}

/// What routes with tiers learn of their own traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learning {
    /// Where it is kept, if anywhere.
    pub file: Option<PathBuf>,
    /// Whether conversations that ask again, or go on, count as labels.
    pub re_ask: bool,
}

/// Traffic of the gateway's own making, by which it learns.
#[derive(Clone, Debug, PartialEq)]
pub struct Background {
    /// Most that it costs, as a share of what callers' own requests cost; above 0, at most 1.
    pub budget: f64,
    /// Whether costs are told in US dollars; else in tokens, because a pool has no price.
    pub in_dollars: bool,
    /// The only pools that it may go to; `None` for those of the request that it is about.
    pub pools: Option<Vec<usize>>,
    /// Who compares answers.
    pub judge: Option<Target>,
}

impl Background {
    /// Whether it may go to the pool at this place.
    pub fn allows(&self, pool: usize) -> bool {
        self.pools.as_ref().is_none_or(|pools| pools.contains(&pool))
    }
}

/// Where and how decisions are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// The file; rotated ones get `.1`, `.2`, … appended.
    pub path: PathBuf,
    /// Size at which it is rotated, in bytes.
    pub max_size: u64,
    /// How many rotated files are kept.
    pub keep: u32,
    /// Whether lines have what only some conditions ask (language, complexity), and hashes of prompts' blocks.
    pub facts: bool,
}

/// How and where a line is written for each request that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// How a line is written.
    pub format: AccessFormat,
    /// The file; `None` for the standard output.
    pub path: Option<PathBuf>,
    /// Size at which the file is rotated, in bytes.
    pub max_size: u64,
    /// How many rotated files are kept.
    pub keep: u32,
}

/// Where traces and measurements go: an OpenTelemetry collector.
#[derive(Clone, Debug, PartialEq)]
pub struct Otel {
    /// Its base address, without a trailing slash.
    pub endpoint: String,
    /// Headers that it asks for.
    pub headers: Vec<(Name, Secret)>,
    /// The share of new traces that are recorded.
    pub sample: f64,
    /// The service's name.
    pub service: Name,
    /// How often measurements are sent.
    pub interval: Duration,
}
