//! The file as written: one struct per mapping, with every value as text and position.

use std::{net::SocketAddr, time::Duration};

pub use super::lengths::Length;
use super::{
    access::{AdminListener, Cors, Host, Keys},
    access_log::AccessLog,
    background::Background,
    caching::{Cache, CacheUse},
    checks::Logprob,
    connection::Tls,
    discovery::{BasePath, Discovery, Dns, Scheme},
    engine_scalars::Scrape,
    engines::{Account, Engine, Exporter, Health, Hourly, Metrics, Price, Prices},
    key_source::KeySource,
    keys::{ManagedKeys, Objects, Team, Usage},
    lengths::Context,
    limits::Limits,
    notifications::Notifications,
    objectives::{Bound, ErrorBudgets, Objective},
    otel::Otel,
    patterns::one_of,
    placement::PlacementSection,
    responses::StoredResponses,
    scalar::{Admin, Expression, Field, Pause, Predicted, Share, Switch, Total, Url, Word},
    shape::{Either, Located, Named, Open, Shapes},
    tokenizer::Tokenizer,
};
use schemars::JsonSchema;
use serde::Deserialize;
use signalbox_types::{AnswerModel, Check, Endpoint, Overload, Strategy};

/// A Signalbox policy: where requests may go, and who may send them.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Signalbox policy", extend("required" = ["pools"]))]
pub struct Document {
    /// The address for clients. Default: `127.0.0.1:4100`.
    pub listen: Option<Field<SocketAddr>>,
    /// The address for operators (health, metrics, status page), or `off`. Default: `127.0.0.1:4101`. An address other
    /// than loopback requires a credential: `{ listen: 0.0.0.0:4101, token: "${SIGNALBOX_ADMIN_TOKEN}" }`.
    pub admin: Option<Either<Admin, AdminListener>>,
    /// Host names under which clients may address it, besides its address and `localhost`. If set, requests for other
    /// names are rejected. Default: any name, except on loopback without keys.
    pub hosts: Option<Vec<Field<Host>>>,
    /// Web pages of other sites that may call from browsers. Default: none.
    pub cors: Option<Cors>,
    /// TLS for clients, and for operators who do not connect over loopback.
    pub tls: Option<Tls>,
    /// Limits of the gateway itself.
    pub limits: Option<Limits>,
    /// Default deadlines of requests.
    pub timeouts: Option<Timeouts>,
    /// The model that answers of chat and completions name: `served`, the one that answered, or `asked`, the one that was
    /// asked for, as answers of Messages and Responses always do. Default: `served`.
    pub answer_model: Option<Field<AnswerModel>>,
    /// A journal of decisions. Default: none.
    pub journal: Option<Journal>,
    /// A line for each completed request. Default: none; `access_log: {}` writes text to standard output.
    pub access_log: Option<AccessLog>,
    /// Export of traces and metrics with OpenTelemetry. Default: none.
    pub otel: Option<Otel>,
    /// Notifications by webhook. Default: none.
    pub notifications: Option<Notifications>,
    /// The windows and rates by which the error budgets of all objectives are judged.
    pub error_budgets: Option<ErrorBudgets>,
    /// Learning from own traffic for routes with tiers.
    pub learning: Option<Learning>,
    /// The answer cache. Default: nothing is cached.
    pub cache: Option<Cache>,
    /// Responses and conversations that are stored for callers of the Responses API. Default: in memory, for an hour after
    /// their last use.
    pub responses: Option<StoredResponses>,
    /// Placement of requests on backends.
    pub placement: Option<PlacementSection>,
    /// The budget and the pools of requests that the gateway sends by itself. Default: it sends none.
    pub background: Option<Background>,
    /// The callers' keys. Without it, everyone who can connect may call; `none` states that this is intended, so that a
    /// reload may remove the keys.
    #[serde(default, deserialize_with = "Keys::present")]
    pub keys: Option<Keys>,
    /// Keys that are created on the running gateway. With it, callers need a key even if `keys` is empty or missing.
    /// Default: only the keys of this file.
    pub managed_keys: Option<ManagedKeys>,
    /// Teams: callers with a common budget.
    pub teams: Option<Named<Team>>,
    /// Storage of usage. Default: it is lost with the process.
    pub usage: Option<Usage>,
    /// Files, uploads, batches and stored responses at providers, which belong to the keys that created them.
    pub objects: Option<Objects>,
    /// Prices and context sizes of pools that give none of their own: `builtin` takes those of well-known hosted models
    /// from a dated table, which `signalbox prices` prints. Default: `none`.
    pub prices: Option<Field<Prices>>,
    /// Accounts at providers, with their keys.
    pub accounts: Option<Named<Account>>,
    /// The engines by name. A pool may also name an engine by its address.
    pub engines: Option<Named<Engine>>,
    /// Changes of the fleet at run time, over the admin API.
    pub discovery: Option<Discovery>,
    /// Pools: backends that serve the same purpose.
    pub pools: Option<Named<Pool>>,
    /// The models that clients may request, besides those of the pools.
    pub models: Option<Named<Model>>,
}

/// Deadlines of a request.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// Until the connection to the engine is established. Default: `5s`.
    pub connect: Option<Field<Duration>>,
    /// Until another backend is tried in parallel because the first token is late. Default: `auto`: 10 s, or more if a
    /// later first token is predicted.
    pub first_token: Option<Field<Predicted>>,
    /// Between two signs of life of a stream: events, comments or any other bytes. Default: `60s`.
    pub idle: Option<Field<Duration>>,
    /// Between two events of a stream other than pings and comments. Default: `10m`.
    pub content: Option<Field<Duration>>,
    /// From arrival to the last byte, or `none` (the default).
    pub total: Option<Field<Total>>,
}

/// Deadlines of a model's requests. Default: those at the top of the file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteTimeouts {
    /// Until another backend is tried in parallel because the first token is late, or `auto`.
    pub first_token: Option<Field<Predicted>>,
    /// Between two signs of life of a stream: events, comments or any other bytes.
    pub idle: Option<Field<Duration>>,
    /// Between two events of a stream other than pings and comments.
    pub content: Option<Field<Duration>>,
    /// From arrival to the last byte, or `none`.
    pub total: Option<Field<Total>>,
}

/// A journal of decisions, one line of JSON each.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// The file; rotated files get `.1`, `.2`, … appended.
    pub path: Field<String>,
    /// The size at which it is rotated. Default: `64Mi`.
    pub max_size: Option<Field<u64>>,
    /// The number of rotated files that are kept. Default: 5.
    pub keep: Option<Field<u32>>,
    /// Also records every prompt's language, complexity and keyed hashes, for `signalbox replay`. Default: `off`.
    pub facts: Option<Field<Switch>>,
}

/// Learning from own traffic for routes with tiers: from `POST /v1/feedback` and from conversations.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Learning {
    /// The file that stores what was learned. Default: it is lost with the process.
    pub file: Option<Field<String>>,
    /// Counts a repeated question against the previous answer, and a continued conversation in favour of it. Default:
    /// `off`.
    pub re_ask: Option<Field<Switch>>,
}

/// Backends that serve the same purpose.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The model's name upstream, for backends that name none.
    pub model: Option<Field<Word>>,
    /// The models that its backends serve, if they name none: those that their engines list and that match, such as
    /// `"qwen-*"`. Models may come and go.
    pub serves: Option<Field<Word>>,
    /// The tokenizer for its prompts: `o200k`, `cl100k`, a `tokenizer.json` (relative to this file's folder), a model
    /// on the Hugging Face hub such as `Qwen/Qwen2.5-7B-Instruct`, or `learned`. Default: by the model's name for
    /// OpenAI's families, otherwise learned.
    pub tokenizer: Option<Field<Tokenizer>>,
    /// The balancing strategy. Default: `least_cost`.
    pub balance: Option<Field<Strategy>>,
    /// The endpoints it supports. Default: chat, completions, embeddings, and responses and messages where all of its
    /// engines are found to serve them.
    pub speaks: Option<Located<Vec<Field<Endpoint>>>>,
    /// The price of its tokens, or of the hours of its engines.
    pub price: Option<Located<Price>>,
    /// The context size of its backends in tokens, for prompt and answer together, such as `128k`. Default: `auto`, the
    /// size that they report.
    pub context: Option<Field<Context>>,
    /// Service-level objectives: error budgets are derived from them, and pools are chosen to meet them.
    pub objectives: Option<Located<Vec<Located<Objective>>>>,
    /// The order of waiting requests under overload: `attainment` for as many as possible within the `ttft` of its
    /// objectives, `tail` for none much later than others. Default: `attainment`.
    pub overload: Option<Field<Overload>>,
    /// Its backends: addresses or mappings.
    #[schemars(length(min = 1))]
    pub backends: Located<Vec<Backend>>,
}

/// A backend: an address, or a mapping.
pub type Backend = Either<Url, LongBackend>;

/// A model on an engine.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = one_of(&["url", "engine"])))]
pub struct LongBackend {
    /// Base address of its engine, if that has no name.
    pub url: Option<Field<Url>>,
    /// The name of its engine.
    pub engine: Option<Field<Word>>,
    /// A DNS name, each address of which is a backend with the settings of this one.
    pub dns: Option<Dns>,
    /// A file of endpoints, each of which is a backend with the settings of this one; relative to this file's folder. A list
    /// of addresses, or target groups in the `file_sd` format of Prometheus; YAML or JSON. Changes are applied at once.
    pub file: Option<Field<String>>,
    /// The scheme of discovered addresses: `http` (the default) or `https`.
    pub scheme: Option<Field<Scheme>>,
    /// The path of the API at discovered addresses. Default: `/v1`.
    pub path: Option<Field<BasePath>>,
    /// The model's name upstream.
    pub model: Option<Field<Word>>,
    /// Models in place of `model`: those that its engine lists and that match, such as `"qwen-*"`. Models may come and go.
    #[serde(rename = "serves")]
    pub follows: Option<Field<Word>>,
    /// The API key for its address.
    pub key: Option<KeySource>,
    /// The cost of its address per hour in US dollars, busy or idle.
    pub gpu_hour: Option<Field<Hourly>>,
    /// The address of NVIDIA's DCGM exporter for its GPUs.
    pub dcgm: Option<Field<Exporter>>,
    /// The interval at which the `/metrics` of its address is read, as of an engine.
    pub scrape: Option<Field<Scrape>>,
    /// The place of the metrics page of its address, as of an engine.
    pub metrics: Option<Metrics>,
    /// An active health check of its address.
    pub health: Option<Health>,
    /// The most concurrent requests of its address. Default: no limit.
    pub max_concurrency: Option<Field<u64>>,
    /// The size of the KV cache of its address in tokens, if it does not report it.
    pub kv_tokens: Option<Field<u64>>,
    /// The model is a `LoRA` adapter. Default: no.
    pub adapter: Option<Field<bool>>,
    /// The only name under which clients reach it.
    #[serde(rename = "as")]
    pub serves: Option<Field<Word>>,
    /// The Azure deployment.
    pub deployment: Option<Field<Word>>,
    /// A prefix of the requested name that is removed before the request goes upstream, such as `openai/`. For backends
    /// without `model`, which are asked for any name.
    pub strip: Option<Field<Word>>,
    /// Its fixed share of the pool's traffic, such as `5%`; conversations keep their side. Default: the balancer decides.
    pub weight: Option<Field<Share>>,
    /// The name of the model that it really serves, if backends name the same model differently: those with the same
    /// name here continue each other's broken streams.
    pub same_as: Option<Field<Word>>,
    /// Request fields that it does not support, to be removed.
    pub drop: Option<Vec<Field<Word>>>,
    /// Request fields to add if the client sent none.
    pub defaults: Option<Named<Open>>,
}

impl Shapes for LongBackend {
    const EXPECTED: &'static str =
        "an address such as `http://host:8000/v1`, or a mapping with `url`, `engine`, `dns` or `file`";
}

/// A name that clients may request, and its target: `to`, `complexity`, `length`, `alias`, `routes`, or `refuse`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = one_of(&["to", "complexity", "length", "alias", "routes", "refuse"])))]
pub struct Model {
    /// The pool it goes to.
    pub to: Option<Field<Word>>,
    /// A prefix of the requested name that is removed before the request goes upstream: `"openai/*": { to: hosted,
    /// strip: openai/ }`. For pools whose backends name no model.
    pub strip: Option<Field<Word>>,
    /// Pools by the estimated complexity of the prompt.
    pub complexity: Option<Complexity>,
    /// Pools by the length of the prompt.
    pub length: Option<Length>,
    /// Pools to try in order if those cannot answer.
    pub fallback: Option<Vec<Field<Word>>>,
    /// Also uses the pools after the first for requests that it has no capacity for or would serve late. Default: `on`.
    pub spill: Option<Field<Switch>>,
    /// Hedging: tries another backend in parallel if the first token is late, and uses the first answer. Default: `on`
    /// if its pool has no price.
    pub hedge: Option<Field<Switch>>,
    /// Tokens of a stream that are held back, for a second at most: a stream that breaks within them is restarted
    /// unseen. Default: none.
    pub hold_back: Option<Field<u64>>,
    /// Its deadlines.
    pub timeouts: Option<RouteTimeouts>,
    /// Limits for each single request: one that will hardly meet them may be rejected at once.
    pub bound: Option<Bound>,
    /// Service-level objectives, from which error budgets are derived.
    pub objectives: Option<Located<Vec<Located<Objective>>>>,
    /// The longest that its requests wait for capacity. Default: that of `limits.queue.wait`.
    pub queue: Option<Field<Pause>>,
    /// A larger pool that answers if the first answer is unusable.
    pub cascade: Option<Cascade>,
    /// The caches that its requests use.
    pub cache: Option<CacheUse>,
    /// The name of another model that it stands for.
    pub alias: Option<Field<Word>>,
    /// The reason why requests for it are answered with 404, in place of what a pattern of names or an engine's list would do
    /// with them.
    pub refuse: Option<Field<String>>,
    /// Routes: the first one whose condition is true is used.
    pub routes: Option<Located<Vec<Located<Route>>>>,
}

/// A route to pools: `to`, `complexity` or `length`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = one_of(&["to", "complexity", "length"])))]
pub struct Route {
    /// Its name in headers and metrics. Default: the model's name, with a number if there are several routes.
    pub name: Option<Field<Word>>,
    /// The requests of this route, as a CEL condition such as `prompt.tokens > 8000`. Default: all that no earlier
    /// route took.
    pub when: Option<Field<Expression>>,
    /// The pool it goes to.
    pub to: Option<Field<Word>>,
    /// Pools by the estimated complexity of the prompt.
    pub complexity: Option<Complexity>,
    /// Pools by the length of the prompt.
    pub length: Option<Length>,
    /// Pools to try in order if those cannot answer.
    pub fallback: Option<Vec<Field<Word>>>,
    /// Also uses the pools after the first for requests that it has no capacity for or would serve late. Default: `on`.
    pub spill: Option<Field<Switch>>,
    /// Hedging: tries another backend in parallel if the first token is late, and uses the first answer. Default: `on`
    /// if its pool has no price.
    pub hedge: Option<Field<Switch>>,
    /// Tokens of a stream that are held back, for a second at most: a stream that breaks within them is restarted
    /// unseen. Default: none.
    pub hold_back: Option<Field<u64>>,
    /// Its deadlines.
    pub timeouts: Option<RouteTimeouts>,
    /// Limits for each single request: one that will hardly meet them may be rejected at once.
    pub bound: Option<Bound>,
    /// Service-level objectives, from which error budgets are derived.
    pub objectives: Option<Located<Vec<Located<Objective>>>>,
    /// The longest that its requests wait for capacity. Default: that of `limits.queue.wait`.
    pub queue: Option<Field<Pause>>,
    /// A larger pool that answers if the first answer is unusable.
    pub cascade: Option<Cascade>,
    /// The caches that its requests use.
    pub cache: Option<CacheUse>,
}

/// A larger pool that answers if the smaller one's answer fails a check, before the client has received any of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cascade {
    /// The larger pool.
    pub to: Field<Word>,
    /// The checks that an answer has to pass. Default: all but `logprobs`.
    pub checks: Option<Located<Vec<Field<Check>>>>,
    /// Tokens of a stream that are held back for the checks. Default: 32.
    pub hold: Option<Field<u64>>,
    /// The time after its arrival up to which a request may be sent to the larger pool, such as `8s`. Default: half of the
    /// least of two minutes, `bound.ttft` (of a stream), `timeouts.first_token` and `timeouts.total`.
    pub within: Option<Field<Duration>>,
    /// The mean logprob below which an answer fails, such as `-1.2`, for clients that request logprobs.
    pub min_logprob: Option<Field<Logprob>>,
}

/// Tiers of pools, from the cheapest to the most capable, and the objective that decides between them: one of the four
/// below.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = one_of(&["shares", "min_quality", "value_per_quality_point", "max_spend_per_hour"])))]
pub struct Complexity {
    /// The pools, the cheapest first.
    #[schemars(length(min = 2))]
    pub tiers: Located<Vec<Field<Word>>>,
    /// The share of requests for each tier, such as `[75%, 25%]`.
    pub shares: Option<Located<Vec<Field<Share>>>>,
    /// The mean expected quality of answers, such as `80%`, reached at the least cost.
    pub min_quality: Option<Field<Share>>,
    /// The value in US dollars of one hundredth of quality, per request.
    pub value_per_quality_point: Option<Field<f64>>,
    /// The cost in US dollars of a second of waiting for an answer, with `value_per_quality_point`. Default: 0.
    pub value_per_second: Option<Field<f64>>,
    /// The most that the requests of an hour may cost, in US dollars.
    pub max_spend_per_hour: Option<Field<f64>>,
}
