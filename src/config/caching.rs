//! The cache as it is typed: which answers are kept, for whom and for how long.

use std::time::Duration;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::{
    embedder::Embedder,
    key_source::KeySource,
    mistake::Mistake,
    scalar::{Field, Scalar, Share, Switch, Token, choice, choice_schema},
};

/// Answers that are kept, to be given again. Without it, none are.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Most bytes of memory for all of it, such as `256Mi` (the default).
    pub memory: Option<Field<u64>>,
    /// Answers to requests that ask for exactly the same.
    pub exact: Option<ExactCache>,
    /// Answers to requests that mean the same.
    pub semantic: Option<SemanticCache>,
    /// Whether equal requests that are under way at once share one request to an engine. Default: `on`.
    pub coalesce: Option<Field<Switch>>,
    /// Kept answers on disk, to be there after a restart. Without it, they are in memory only.
    pub persist: Option<Persist>,
    /// Kept answers of several gateways, shared through Redis or Valkey. Without it, each has its own.
    pub shared: Option<Shared>,
}

/// Kept answers of several gateways, shared through one server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// A Redis or Valkey: `redis://host:6379`, with a password `"redis://:${PASSWORD}@host:6379"`.
    pub url: Field<Token>,
    /// What all gateways that share have in common, and nobody else knows: it names and seals what they share. At least 16 characters.
    pub key: KeySource,
    /// How long a request waits for an answer from there. Default: `20ms`.
    pub timeout: Option<Field<Duration>>,
}

/// Kept answers on disk, in files for the gateway's own user alone.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Persist {
    /// The folder, for one gateway alone, made where there is none; its path from this file.
    pub path: Field<String>,
    /// Most bytes of answers on disk, such as `1Gi` (the default); the oldest go first.
    pub max_size: Option<Field<u64>>,
    /// The longest that an answer stays on disk, whatever its `ttl`. Default: `7d`.
    pub retention: Option<Field<Duration>>,
}

/// Answers to requests that ask for exactly the same.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExactCache {
    /// How long an answer is kept. Default: `1h`.
    pub ttl: Option<Field<Duration>>,
    /// Who shares answers: those who call with one `key` (the default), one `user` of a key as the request names him, or all (`shared`).
    pub scope: Option<Field<Scope>>,
    /// Requests with which temperature: `zero` (the default), whose answers are not drawn at random, or `any`.
    pub temperature: Option<Field<Temperature>>,
    /// The longest answer that is kept, in bytes, such as `1Mi` (the default).
    pub largest: Option<Field<u64>>,
    /// How a kept answer is streamed: at once (`burst`, the default), or with the pauses it came with (`paced`).
    pub replay: Option<Field<Replay>>,
}

/// Answers to requests that differ in nothing but the last text of their user, where that means the same.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SemanticCache {
    /// The share of hits that may be false, such as `1%` (the default). An answer is given only where it is surer than that.
    pub max_false_hit_rate: Option<Field<Share>>,
    /// How long an answer is kept. Default: `10m`.
    pub ttl: Option<Field<Duration>>,
    /// Who shares answers: those who call with one `key` (the default), one `user` of a key as the request names him, or all (`shared`).
    /// Where no keys are asked for, only `shared` can be meant, and has to be written out.
    pub scope: Option<Field<Scope>>,
    /// How long an answer is kept whose text asks for what soon changes ("today", "latest", "my …"). Without it, none is.
    pub volatile: Option<Field<Duration>>,
    /// `serve` (the default), or `shadow`: hits are looked at, and measured, and never given.
    pub mode: Option<Field<SemanticMode>>,
    /// What decides whether two texts mean the same, after a small table that is compiled in has found what is near: `built-in` (the
    /// default), a server (`backend`), or another model on this machine (`fastembed`, `onnx`).
    pub embedder: Option<Embedder>,
}

/// Which of the caches a model's requests use.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheUse {
    /// Whether equal requests may share answers. Default: `on`, where the policy has such a cache.
    pub exact: Option<Field<Switch>>,
    /// Whether requests that mean the same may. Default: `on`, where the policy has such a cache.
    pub semantic: Option<Field<Switch>>,
    /// Whether its answers, and what was asked, may be on disk and with other gateways. Default: `on`, where the policy has that.
    pub persist: Option<Field<Switch>>,
}

/// What the cache does with the answers to one key's callers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyCache {
    /// Whether they, and what was asked, may be on disk and with other gateways. Default: `on`, where the policy has that.
    pub persist: Option<Field<Switch>>,
}

/// A kind of value with a fixed set of names.
macro_rules! choices {
    ($type:ty, $options:expr) => {
        impl Scalar for $type {
            fn read(text: &str) -> Result<Self, Mistake> {
                choice(text, &$options)
            }

            fn schema() -> Schema {
                choice_schema(&$options)
            }
        }
    };
}

/// Who shares answers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those who call with one key.
    Key,
    /// One end user of a key.
    User,
    /// All callers.
    Shared,
}

/// Requests with which temperature share answers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Temperature {
    /// With 0, written out.
    Zero,
    /// With any, and with none.
    Any,
}

/// How a kept answer is streamed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Replay {
    /// At once.
    Burst,
    /// With the pauses that it came with.
    Paced,
}

/// What is done with hits by meaning.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SemanticMode {
    /// They are given.
    Serve,
    /// They are looked at.
    Shadow,
}

choices!(Scope, [("key", Self::Key), ("user", Self::User), ("shared", Self::Shared)]);
choices!(Temperature, [("zero", Self::Zero), ("any", Self::Any)]);
choices!(Replay, [("burst", Self::Burst), ("paced", Self::Paced)]);
choices!(SemanticMode, [("serve", Self::Serve), ("shadow", Self::Shadow)]);
