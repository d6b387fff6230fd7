//! Callers' keys and teams as they are typed: who may call, for what, how much, and what a caller may decide itself.

use std::time::Duration;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::{
    caching::KeyCache,
    mistake::Mistake,
    scalar::{Field, KeyHash, Scalar, Token, Word, choice, choice_schema},
    shape::Located,
};
use crate::{quota::Period, types::Endpoint};

/// A key that may call; `signalbox key new` makes one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Its name in logs and metrics.
    pub id: Field<Word>,
    /// `blake3:` and 64 hex digits.
    pub hash: Field<KeyHash>,
    /// The team it belongs to: `key.team` in conditions.
    pub team: Option<Field<Word>>,
    /// What else it is known by: `key.tags` in conditions.
    pub tags: Option<Vec<Field<Word>>>,
    /// The models that its callers may ask for, such as `[auto, "claude-*"]`. Default: all.
    pub models: Option<Located<Vec<Field<Word>>>>,
    /// The endpoints that its callers may use, such as `[chat, embeddings]`. Default: all.
    pub endpoints: Option<Located<Vec<Field<Endpoint>>>>,
    /// How much its callers may use.
    pub limits: Option<KeyLimits>,
    /// How urgent its requests are where there is no room at once, from 0 to 9. Default: 5.
    pub priority: Option<Field<Priority>>,
    /// What its callers may decide by headers: `cache` for `x-signalbox-cache`, and so on for `session`, `priority`, `pool` and
    /// `bound-ttft`. Default: nothing.
    pub allow: Option<Vec<Field<Allowed>>>,
    /// What the cache does with the answers to its callers.
    pub cache: Option<KeyCache>,
}

/// How much the callers of a key may use.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyLimits {
    /// Requests per minute, such as `600`.
    pub rpm: Option<Field<u64>>,
    /// Tokens per minute, of prompts and answers together, such as `200k`.
    pub tpm: Option<Field<u64>>,
    /// Requests under way at once.
    pub concurrency: Option<Field<u64>>,
}

/// Gateways that count together what keys and teams use, through one server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedLimits {
    /// A Redis or Valkey: `redis://host:6379`, with a password `"redis://:${PASSWORD}@host:6379"`, with a database of its own
    /// `redis://host:6379/2`.
    pub url: Field<Token>,
    /// How long a request waits for an answer from there; then the gateway's own count decides. Default: `50ms`.
    pub timeout: Option<Field<Duration>>,
}

/// Callers who have a budget together.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Team {
    /// What they may spend. Without it, there is no limit.
    pub budget: Option<Budget>,
}

/// What a team may spend: `usd` or `tokens`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// US dollars, at the prices of the pools.
    pub usd: Option<Field<f64>>,
    /// Tokens of prompts and answers together, such as `10M`.
    pub tokens: Option<Field<u64>>,
    /// When it begins anew: at midnight (`day`), or on the first (`month`), in UTC.
    pub per: Field<Period>,
    /// What becomes of requests that it has no room for: `reject` (the default).
    pub on_exceeded: Option<Field<OnExceeded>>,
}

/// What was used, by day, key and model: where it is kept, with budgets and revocations. Without it, it is lost with the process.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// The folder, for one gateway alone, made where there is none; its path from this file.
    pub path: Field<String>,
    /// How long days are remembered by the process; their files stay. Default: `62d`.
    pub retention: Option<Field<Duration>>,
}

/// Files, uploads, batches and stored responses at providers: each belongs to the key that made it, and is not there for any other.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Objects {
    /// What becomes of requests for one that was made elsewhere, or is no longer remembered: `refuse` (the default), or `allow`.
    pub unknown: Option<Field<Unknown>>,
}

/// What becomes of requests for objects whose owner is not known.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// They are answered as if there were none.
    Refuse,
    /// They are sent on.
    Allow,
}

/// What becomes of requests that a budget has no room for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum OnExceeded {
    /// They are refused.
    Reject,
}

/// The choices, as files write them.
const PERIODS: [(&str, Period); 2] = [("day", Period::Day), ("month", Period::Month)];
const ON_EXCEEDED: [(&str, OnExceeded); 1] = [("reject", OnExceeded::Reject)];
const UNKNOWN: [(&str, Unknown); 2] = [("refuse", Unknown::Refuse), ("allow", Unknown::Allow)];

impl Scalar for Period {
    fn read(text: &str) -> Result<Self, Mistake> {
        choice(text, &PERIODS)
    }

    fn schema() -> Schema {
        choice_schema(&PERIODS)
    }
}

impl Scalar for Unknown {
    fn read(text: &str) -> Result<Self, Mistake> {
        choice(text, &UNKNOWN)
    }

    fn schema() -> Schema {
        choice_schema(&UNKNOWN)
    }
}

impl Scalar for OnExceeded {
    fn read(text: &str) -> Result<Self, Mistake> {
        choice(text, &ON_EXCEEDED)
    }

    fn schema() -> Schema {
        choice_schema(&ON_EXCEEDED)
    }
}

/// What an account at a provider lets us use.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccountLimits {
    /// Requests per minute, such as `5000`.
    pub rpm: Option<Field<u64>>,
    /// Tokens per minute, of prompts and answers together, such as `2M`.
    pub tpm: Option<Field<u64>>,
}

/// How urgent a request is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Priority(pub u8);

impl Scalar for Priority {
    fn read(text: &str) -> Result<Self, Mistake> {
        match text.as_bytes() {
            [digit @ b'0'..=b'9'] => Ok(Self(digit - b'0')),
            _ => Err(Mistake::new("not a priority").help("write a digit from 0 (last) to 9 (first); 5 is the default")),
        }
    }
}

/// What a key may decide by headers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// `x-signalbox-cache`
    Cache,
    /// `x-signalbox-session`
    Session,
    /// `x-signalbox-priority`
    Priority,
    /// `x-signalbox-pool`
    Pool,
    /// `x-signalbox-bound-ttft`
    BoundTtft,
}

/// What may be allowed, as files write it.
const ALLOWED: [(&str, Allowed); 5] = [
    ("cache", Allowed::Cache),
    ("session", Allowed::Session),
    ("priority", Allowed::Priority),
    ("pool", Allowed::Pool),
    ("bound-ttft", Allowed::BoundTtft),
];

impl Allowed {
    /// As files write it.
    pub fn name(self) -> &'static str {
        ALLOWED.iter().find(|(_, allowed)| *allowed == self).map_or("", |(name, _)| name)
    }
}

impl Scalar for Allowed {
    fn read(text: &str) -> Result<Self, Mistake> {
        choice(text, &ALLOWED)
    }

    fn schema() -> Schema {
        choice_schema(&ALLOWED)
    }
}
