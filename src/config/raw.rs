//! The file as it is typed: one struct a mapping, every value still text with its place.

use std::net::SocketAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    access::{AdminListener, Cors, Host, Keys},
    access_log::AccessLog,
    background::Background,
    caching::{Cache, CacheUse},
    checks::Logprob,
    engines::{Account, Engine},
    exporter::Exporter,
    key_source::KeySource,
    keys::{Objects, SharedLimits, Team, Usage},
    lengths::{Boundary, Context},
    objectives::Objective,
    otel::Otel,
    prices::{Hourly, Price},
    scalar::{Admin, Balance, Expression, Field, Pause, Predicted, Share, Switch, Total, Url, Word},
    shape::{Either, Located, Named, Open, Shapes},
    tokenizer::Tokenizer,
};
use crate::types::{Check, Endpoint};

/// A Signalbox policy: where requests may go, and who may send them.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Signalbox policy")]
pub struct Document {
    /// Where clients connect. Default: `127.0.0.1:4100`.
    pub listen: Option<Field<SocketAddr>>,
    /// Where operators connect (health, metrics), or `off`. Default: `127.0.0.1:4101`. Beyond loopback they need a credential:
    /// `{ listen: 0.0.0.0:4101, token: "${SIGNALBOX_ADMIN_TOKEN}" }`.
    pub admin: Option<Either<Admin, AdminListener>>,
    /// Names that clients ask for it by, beside its address and `localhost`. With it, no other name is answered; without it, any is, but on
    /// loopback where no keys are asked for.
    pub hosts: Option<Vec<Field<Host>>>,
    /// Web pages that may call, from other sites. Without it, none.
    pub cors: Option<Cors>,
    /// With it, clients connect over TLS; and operators, where they do not connect on this machine itself.
    pub tls: Option<Tls>,
    /// Limits of the gateway itself.
    pub limits: Option<Limits>,
    /// Deadlines where a model sets none.
    pub timeouts: Option<Timeouts>,
    /// Where decisions are written. Without it, they are not.
    pub journal: Option<Journal>,
    /// A line for each request that is over. Without it, there is none; `access_log: {}` writes text to the standard output.
    pub access_log: Option<AccessLog>,
    /// Where traces and measurements go, by OpenTelemetry. Without it, nowhere.
    pub otel: Option<Otel>,
    /// What routes with tiers learn of their own traffic.
    pub learning: Option<Learning>,
    /// Answers that are kept, to be given again. Without it, none are.
    pub cache: Option<Cache>,
    /// What traffic of the gateway's own making may cost, and where it may go. Without it, there is none.
    pub background: Option<Background>,
    /// Who may call. Without it, anyone who can connect; `none` says that this is meant, so that a reload may take keys away.
    #[serde(default, deserialize_with = "Keys::present")]
    pub keys: Option<Keys>,
    /// Callers who have a budget together.
    pub teams: Option<Named<Team>>,
    /// Where it is kept what was used. Without it, it is lost with the process.
    pub usage: Option<Usage>,
    /// Files, uploads, batches and stored responses at providers, which belong to the keys that made them.
    pub objects: Option<Objects>,
    /// Who pays: provider keys, used in turn.
    pub accounts: Option<Named<Account>>,
    /// What runs where. An engine may also be named by its address alone, in a pool.
    pub engines: Option<Named<Engine>>,
    /// Backends that serve the same purpose.
    pub pools: Option<Named<Pool>>,
    /// What clients may ask for, beside the models of the pools.
    pub models: Option<Named<Model>>,
}

/// The gateway's own certificate. Its files are looked at every half minute, so that one that was renewed is used without a restart.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM file of the certificate, and of those between it and its root.
    pub certificate: Field<String>,
    /// PEM file of its private key.
    pub key: Field<String>,
    /// PEM file of roots. With it, only clients are let in that show a certificate of one of them.
    pub client_roots: Option<Field<String>>,
}

/// Limits of the gateway itself.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Largest request body in bytes, such as `32Mi` (the default).
    pub body: Option<Field<u64>>,
    /// Most bytes of all request bodies that are held at once, such as `1Gi` (the default).
    pub bodies: Option<Field<u64>>,
    /// Most requests under way at once, such as `10k` (the default).
    pub in_flight: Option<Field<u64>>,
    /// How long a client may take to send its headers. Default: `10s`.
    pub header: Option<Field<Duration>>,
    /// How long streams may go on after SIGTERM. Default: `30s`.
    pub drain: Option<Field<Pause>>,
    /// How long connections are still taken after SIGTERM, while the gateway says that it is not ready. Default: `0s`.
    pub lame_duck: Option<Field<Pause>>,
    /// Requests that wait for room in a pool.
    pub queue: Option<Queue>,
    /// Limits of keys and budgets of teams that several gateways keep together, through Redis or Valkey. Without it, each counts for
    /// itself.
    pub shared: Option<SharedLimits>,
}

/// Requests that wait for room in a pool.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Most that wait for one pool, such as `1k` (the default).
    pub length: Option<Field<u64>>,
    /// How long each may wait. Default: `30s`; `0s` for not at all.
    pub wait: Option<Field<Pause>>,
}

/// Deadlines of a request.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// Until the upstream connection stands. Default: `5s`.
    pub connect: Option<Field<Duration>>,
    /// Until another backend is asked beside one that has given no token yet. Default: `auto`, 10 s, and more where its prediction says so.
    pub first_token: Option<Field<Predicted>>,
    /// Between two events of a stream. Default: `60s`.
    pub idle: Option<Field<Duration>>,
    /// From arrival to the last byte, or `none` (the default).
    pub total: Option<Field<Total>>,
}

/// Deadlines of a model's requests; those left out are taken from the top of the file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteTimeouts {
    /// Until another backend is asked beside one that has given no token yet, or `auto`.
    pub first_token: Option<Field<Predicted>>,
    /// Between two events of a stream.
    pub idle: Option<Field<Duration>>,
    /// From arrival to the last byte, or `none`.
    pub total: Option<Field<Total>>,
}

/// Where decisions are written, a line of JSON each.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// The file; rotated ones get `.1`, `.2`, … appended.
    pub path: Field<String>,
    /// Size at which it is rotated. Default: `64Mi`.
    pub max_size: Option<Field<u64>>,
    /// How many rotated files are kept. Default: 5.
    pub keep: Option<Field<u32>>,
    /// Whether every prompt's language, complexity and keyed hashes are noted too, for `signalbox replay`. Default: `off`.
    pub facts: Option<Field<Switch>>,
}

/// What routes with tiers learn of their own traffic: from `POST /v1/feedback`, and from conversations.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Learning {
    /// Where it is kept. Without it, it is lost with the process.
    pub file: Option<Field<String>>,
    /// Whether a conversation that asks the same again counts against the answer before, and one that goes on for it. Default: `off`.
    pub re_ask: Option<Field<Switch>>,
}

/// Backends that serve the same purpose.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The model's name upstream, for backends that name none.
    pub model: Option<Field<Word>>,
    /// What its prompts are counted with: `o200k`, `cl100k`, a `tokenizer.json` (its path from this file), a model on the Hugging Face
    /// hub such as `Qwen/Qwen2.5-7B-Instruct`, or `learned`. Default: by the model's name for OpenAI's families, else learned.
    pub tokenizer: Option<Field<Tokenizer>>,
    /// How a backend is chosen. Default: `least_cost`.
    pub balance: Option<Field<Balance>>,
    /// The endpoints it serves. Default: chat, completions, embeddings.
    pub speaks: Option<Located<Vec<Field<Endpoint>>>>,
    /// What its tokens, or the hours of its engines, cost.
    pub price: Option<Located<Price>>,
    /// Tokens of prompt and answer together that its backends take, such as `128k`. Default: `auto`, as they report it.
    pub context: Option<Field<Context>>,
    /// What to keep to for nearly all of its requests: error budgets go by it, and backends are chosen by it.
    pub objectives: Option<Located<Vec<Located<Objective>>>>,
    /// Where it runs: addresses, or mappings.
    pub backends: Located<Vec<Backend>>,
}

/// A backend: an address alone, or a mapping.
pub type Backend = Either<Url, LongBackend>;

/// A model on an engine.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LongBackend {
    /// Base address of its engine, where that has no name.
    pub url: Option<Field<Url>>,
    /// Its engine, by name.
    pub engine: Option<Field<Word>>,
    /// The model's name upstream.
    pub model: Option<Field<Word>>,
    /// The key its address is called with.
    pub key: Option<KeySource>,
    /// What an hour of its address costs in US dollars, busy or not.
    pub gpu_hour: Option<Field<Hourly>>,
    /// Where NVIDIA's DCGM exporter has the metrics of its GPUs.
    pub dcgm: Option<Field<Exporter>>,
    /// Whether the model is a `LoRA` adapter. Default: no.
    pub adapter: Option<Field<bool>>,
    /// The name under which alone clients reach it.
    #[serde(rename = "as")]
    pub serves: Option<Field<Word>>,
    /// The Azure deployment.
    pub deployment: Option<Field<Word>>,
    /// Its share of the pool's traffic, such as `5%`. Without it, the balancer decides.
    pub weight: Option<Field<Share>>,
    /// The model that it really serves, where others name the same one differently: backends with one name here continue each other's
    /// broken streams.
    pub same_as: Option<Field<Word>>,
    /// Request fields that it cannot take.
    pub drop: Option<Vec<Field<Word>>>,
    /// Request fields to add where the client sent none.
    pub defaults: Option<Named<Open>>,
}

impl Shapes for LongBackend {
    const EXPECTED: &'static str = "an address such as `http://host:8000/v1`, or a mapping with `url` or `engine`";
}

/// A name clients may ask for, and where it goes: `to`, `complexity`, `length`, `alias` or `routes`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The pool it goes to.
    pub to: Option<Field<Word>>,
    /// The pools it goes to by how hard its prompt seems.
    pub complexity: Option<Complexity>,
    /// The pools it goes to by the length of its prompt.
    pub length: Option<Length>,
    /// Pools to try in turn where those cannot answer.
    pub fallback: Option<Vec<Field<Word>>>,
    /// Whether the pools after the first also take requests that it has no room for, or would serve late. Default: `on`.
    pub spill: Option<Field<Switch>>,
    /// Whether another backend may be asked early, beside one whose first token is late; the first answer counts. Default: where its
    /// pool has no price.
    pub hedge: Option<Field<Switch>>,
    /// Tokens of a stream that are held back, for a second at most: one that breaks off among them is begun anew. Default: none.
    pub hold_back: Option<Field<u64>>,
    /// Its deadlines.
    pub timeouts: Option<RouteTimeouts>,
    /// What each of its requests is to keep to: one that will hardly do so may be refused at once.
    pub bound: Option<Bound>,
    /// What to keep to for nearly all of its requests: error budgets go by it.
    pub objectives: Option<Located<Vec<Located<Objective>>>>,
    /// How long its requests may wait for room. Default: `limits.queue.wait`.
    pub queue: Option<Field<Pause>>,
    /// A larger pool that is asked where an answer is of no use.
    pub cascade: Option<Cascade>,
    /// Which of the policy's caches its requests use.
    pub cache: Option<CacheUse>,
    /// Another name that it stands for.
    pub alias: Option<Field<Word>>,
    /// Where it goes, in the long form: the first whose condition holds.
    pub routes: Option<Located<Vec<Located<Route>>>>,
}

/// A way to go: `to`, `complexity` or `length`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Its name in headers and metrics. Default: the model's, with its number where there are several.
    pub name: Option<Field<Word>>,
    /// The requests that go this way, as a condition in CEL, such as `prompt.tokens > 8000`. Default: all that come so far.
    pub when: Option<Field<Expression>>,
    /// The pool it goes to.
    pub to: Option<Field<Word>>,
    /// The pools it goes to by how hard the prompt seems.
    pub complexity: Option<Complexity>,
    /// The pools it goes to by the length of the prompt.
    pub length: Option<Length>,
    /// Pools to try in turn where those cannot answer.
    pub fallback: Option<Vec<Field<Word>>>,
    /// Whether the pools after the first also take requests that it has no room for, or would serve late. Default: `on`.
    pub spill: Option<Field<Switch>>,
    /// Whether another backend may be asked early, beside one whose first token is late; the first answer counts. Default: where its
    /// pool has no price.
    pub hedge: Option<Field<Switch>>,
    /// Tokens of a stream that are held back, for a second at most: one that breaks off among them is begun anew. Default: none.
    pub hold_back: Option<Field<u64>>,
    /// Its deadlines.
    pub timeouts: Option<RouteTimeouts>,
    /// What each of its requests is to keep to: one that will hardly do so may be refused at once.
    pub bound: Option<Bound>,
    /// What to keep to for nearly all of its requests: error budgets go by it.
    pub objectives: Option<Located<Vec<Located<Objective>>>>,
    /// How long its requests may wait for room. Default: `limits.queue.wait`.
    pub queue: Option<Field<Pause>>,
    /// A larger pool that is asked where an answer is of no use.
    pub cascade: Option<Cascade>,
    /// Which of the policy's caches its requests use.
    pub cache: Option<CacheUse>,
}

/// What each request is to keep to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// Time to the first token, such as `800ms`.
    pub ttft: Field<Duration>,
}

/// A larger pool that is asked where the answer of a smaller one does not pass, before the client has any of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cascade {
    /// The larger pool.
    pub to: Field<Word>,
    /// What an answer has to pass. Default: all but `logprobs`.
    pub checks: Option<Located<Vec<Field<Check>>>>,
    /// Tokens of a stream that are held back to be looked at. Default: 32.
    pub hold: Option<Field<u64>>,
    /// How long after its arrival a request is still sent to the larger pool, such as `8s`. Default: half of the least of two
    /// minutes, `bound.ttft` (of a stream), `timeouts.first_token` and `timeouts.total`.
    pub within: Option<Field<Duration>>,
    /// The mean logprob below which an answer does not pass, such as `-1.2`, for clients that ask for logprobs.
    pub min_logprob: Option<Field<Logprob>>,
}

/// Tiers of pools, from the cheapest to the most capable, and what decides between them: one of the four below.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Complexity {
    /// The pools, the cheapest first.
    pub tiers: Located<Vec<Field<Word>>>,
    /// The share of requests that each is to serve, such as `[75%, 25%]`.
    pub shares: Option<Located<Vec<Field<Share>>>>,
    /// The mean quality to expect of answers, such as `80%`, at the least cost.
    pub min_quality: Option<Field<Share>>,
    /// US dollars that a hundredth of quality is worth, on one request.
    pub value_per_quality_point: Option<Field<f64>>,
    /// US dollars that a second of waiting for an answer costs, beside `value_per_quality_point`. Default: nothing.
    pub value_per_second: Option<Field<f64>>,
    /// US dollars that the requests of an hour may cost.
    pub max_spend_per_hour: Option<Field<f64>>,
}

/// Two pools, by the length of the prompt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Length {
    /// The pool for short prompts.
    pub short: Field<Word>,
    /// The pool for long ones.
    pub long: Field<Word>,
    /// The tokens from which on a prompt is long, such as `8k`. Default: `auto`, where the pool for long ones serves it sooner and at
    /// less cost to others.
    pub boundary: Option<Field<Boundary>>,
}
