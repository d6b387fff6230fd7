//! The cache as it is typed: which answers are kept, for whom and for how long.

use std::time::Duration;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::{
    mistake::Mistake,
    scalar::{Field, Scalar, Switch, choice, choice_schema},
};

/// Answers that are kept, to be given again. Without it, none are.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Most bytes of memory for all of it, such as `256Mi` (the default).
    pub memory: Option<Field<u64>>,
    /// Answers to requests that ask for exactly the same.
    pub exact: Option<ExactCache>,
    /// Whether equal requests that are under way at once share one request to an engine. Default: `on`.
    pub coalesce: Option<Field<Switch>>,
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

/// Which of the caches a model's requests use.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheUse {
    /// Whether equal requests may share answers. Default: `on`, where the policy has such a cache.
    pub exact: Option<Field<Switch>>,
    /// Whether requests that mean the same may. Default: `on`, where the policy has such a cache.
    pub semantic: Option<Field<Switch>>,
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

/// What a key may decide by headers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// `x-signalbox-cache`
    Cache,
}

choices!(Scope, [("key", Self::Key), ("user", Self::User), ("shared", Self::Shared)]);
choices!(Temperature, [("zero", Self::Zero), ("any", Self::Any)]);
choices!(Replay, [("burst", Self::Burst), ("paced", Self::Paced)]);
choices!(Allowed, [("cache", Self::Cache)]);
