//! The cache as written in the file: which answers are cached, for whom and for how long.

use std::time::Duration;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::{
    connection::ClientTls,
    embedder::Embedder,
    engine_scalars::HeaderWord,
    key_source::KeySource,
    mistake::Mistake,
    redis::{KeyPrefix, SentinelLogin},
    scalar::{Field, Scalar, Share, Switch, Token, choice, choice_schema, choices},
};

/// The answer cache. Without it, nothing is cached.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// The most memory for all cached answers, such as `256Mi` (the default).
    pub memory: Option<Field<u64>>,
    /// Answers to identical requests.
    pub exact: Option<ExactCache>,
    /// Answers to requests with the same meaning.
    pub semantic: Option<SemanticCache>,
    /// Merges identical concurrent requests into one upstream request. Default: `on`.
    pub coalesce: Option<Field<Switch>>,
    /// Headers that change answers, such as `[x-tenant]`: requests with other values share nothing. Default: only
    /// those by which APIs are asked for versions and features (`openai-beta`, `anthropic-beta`, …).
    pub key_headers: Option<Vec<Field<HeaderWord>>>,
    /// Stores cached answers on disk, so that they survive a restart. Without it, they are only in memory.
    pub persist: Option<Persist>,
    /// Shares cached answers between gateways through Redis or Valkey. Without it, each gateway has its own.
    pub shared: Option<Shared>,
}

/// Cached answers of several gateways, shared through one server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// The Redis or Valkey server: `redis://host:6379`, with TLS `rediss://host:6379`, with
    /// Sentinels `redis+sentinel://host:26379,host2:26379/master-name`, or a cluster
    /// `redis+cluster://host:6379,host2:6379`.
    pub url: Field<Token>,
    /// A secret common to all gateways that share answers: it names and authenticates the shared entries. At least 16
    /// characters.
    pub key: KeySource,
    /// The user of the server (ACL). It may have the keys that begin with `prefix`. Default: `default`.
    pub user: Option<Field<String>>,
    /// The password of the server, with any characters. In the address, some are percent-encoded (`@` is `%40`).
    pub password: Option<KeySource>,
    /// Certificates, for addresses with `rediss`.
    pub tls: Option<ClientTls>,
    /// The password of the Sentinels, if they require one; `password` is for the servers.
    pub sentinel: Option<SentinelLogin>,
    /// The beginning of the names of all keys on the server. Gateways with different ones share nothing, as on servers of
    /// their own. Default: `signalbox`.
    pub prefix: Option<Field<KeyPrefix>>,
    /// The longest that a request waits for this server. Default: `20ms`.
    pub timeout: Option<Field<Duration>>,
}

/// Cached answers on disk, in files readable by the gateway's own user only.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Persist {
    /// The folder, used by one gateway only and created if missing. Relative to this file's folder.
    pub path: Field<String>,
    /// The most disk space, such as `1Gi` (the default); the oldest answers are deleted first.
    pub max_size: Option<Field<u64>>,
    /// The longest that an answer stays on disk, whatever its `ttl`. Default: `7d`.
    pub retention: Option<Field<Duration>>,
}

/// Answers to identical requests.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExactCache {
    /// The time to live of an answer. Default: `1h`.
    pub ttl: Option<Field<Duration>>,
    /// The callers who share answers: those with the same `key` (the default), the same `user` of a key (as the request
    /// names them), or all (`shared`).
    pub scope: Option<Field<Scope>>,
    /// The temperatures that are cached: `zero` (the default), whose answers are not sampled at random, or `any`.
    pub temperature: Option<Field<Temperature>>,
    /// The longest answer that is cached, in bytes, such as `1Mi` (the default).
    pub largest: Option<Field<u64>>,
    /// The replay of streamed answers: at once (`burst`, the default) or with their original pauses (`paced`).
    pub replay: Option<Field<Replay>>,
}

/// Answers to requests that differ only in the last user text, if the texts have the same meaning.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SemanticCache {
    /// The share of hits that may be wrong, such as `1%` (the default). A cached answer is used only if its estimated
    /// error is below that.
    pub max_false_hit_rate: Option<Field<Share>>,
    /// The time to live of an answer. Default: `10m`.
    pub ttl: Option<Field<Duration>>,
    /// The callers who share answers: those with the same `key` (the default), the same `user` of a key (as the request
    /// names them), or all (`shared`). If keys are not required, `shared` must be set explicitly.
    pub scope: Option<Field<Scope>>,
    /// The time to live of answers to questions about things that soon change ("today", "the latest …", "where is my order"). Without it,
    /// they are not cached.
    pub volatile: Option<Field<Duration>>,
    /// `serve` (the default), or `shadow`: hits are evaluated and measured but never used.
    pub mode: Option<Field<SemanticMode>>,
    /// Index that finds near texts: `auto` (the default), a scan of all vectors (`flat`) or a graph (`hnsw`). `auto` is
    /// flat up to millions of texts, since up to there a scan is faster at the same recall.
    pub index: Option<Field<SemanticIndex>>,
    /// The model that decides whether two texts have the same meaning, after a small built-in table has found
    /// candidates: `built-in` (the default), a server (`backend`), or another local model (`fastembed`, `onnx`).
    pub embedder: Option<Embedder>,
}

/// The caches that a model's requests use.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheUse {
    /// Uses the exact cache. Default: `on`, if the policy has one.
    pub exact: Option<Field<Switch>>,
    /// Uses the semantic cache. Default: `on`, if the policy has one.
    pub semantic: Option<Field<Switch>>,
    /// Allows its prompts and answers on disk and on other gateways. Default: `on`, if the policy has that.
    pub persist: Option<Field<Switch>>,
}

/// Cache settings for one key's callers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyCache {
    /// Allows their prompts and answers on disk and on other gateways. Default: `on`, if the policy has that.
    pub persist: Option<Field<Switch>>,
}

/// The callers who share answers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those with the same key.
    Key,
    /// The same end user of a key.
    User,
    /// All callers.
    Shared,
}

/// The temperatures whose requests share answers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Temperature {
    /// An explicit 0.
    Zero,
    /// Any, or none.
    Any,
}

/// The replay of a cached answer as a stream.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Replay {
    /// At once.
    Burst,
    /// With the original pauses.
    Paced,
}

/// The use of semantic hits.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SemanticMode {
    /// Hits are served.
    Serve,
    /// Hits are only measured.
    Shadow,
}

/// The index of the semantic cache.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SemanticIndex {
    /// Flat, or a graph from the size on at which it is faster.
    Auto,
    /// A scan of all vectors.
    Flat,
    /// A graph.
    Hnsw,
}

choices!(Scope, [("key", Self::Key), ("user", Self::User), ("shared", Self::Shared)]);
choices!(Temperature, [("zero", Self::Zero), ("any", Self::Any)]);
choices!(Replay, [("burst", Self::Burst), ("paced", Self::Paced)]);
choices!(SemanticMode, [("serve", Self::Serve), ("shadow", Self::Shadow)]);
choices!(SemanticIndex, [("auto", Self::Auto), ("flat", Self::Flat), ("hnsw", Self::Hnsw)]);
