//! Callers' keys and teams as written in the file: their access, limits and permissions.

use std::time::Duration;

use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    tz::TimeZone,
};
use schemars::{JsonSchema, Schema, json_schema};
use serde::Deserialize;

use super::{
    caching::KeyCache,
    connection::ClientTls,
    key_hash::KeyHash,
    key_source::KeySource,
    mistake::Mistake,
    patterns::{one_of, text_schema, whole},
    redis::{KeyPrefix, SentinelLogin},
    scalar::{Field, Scalar, Token, Word, choice, choice_schema},
    shape::{Located, Named},
};
use signalbox_quota::Period;
use signalbox_types::Endpoint;

/// A key of callers; `signalbox key new` creates one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Its name in logs and metrics.
    pub id: Field<Word>,
    /// `blake3:` and 64 hex digits, or `sha256:` for a key whose BLAKE3 hash is not known, as in LiteLLM's database.
    pub hash: Field<KeyHash>,
    /// Other secrets of the same key, which callers still use, or will use, while it is rotated: limits, budget, usage,
    /// objects and cached answers are those of the one key.
    pub also: Option<Located<Vec<OtherSecret>>>,
    /// The team it belongs to: `key.team` in conditions.
    pub team: Option<Field<Word>>,
    /// Labels: `key.tags` in conditions.
    pub tags: Option<Vec<Field<Word>>>,
    /// The models that its callers may request, such as `[auto, "claude-*"]`. Default: all.
    pub models: Option<Located<Vec<Field<Word>>>>,
    /// The endpoints that its callers may use, such as `[chat, embeddings]`. Default: all.
    pub endpoints: Option<Located<Vec<Field<Endpoint>>>>,
    /// The limits of its callers.
    pub limits: Option<KeyLimits>,
    /// The time from which it is rejected: a day such as `2027-03-01`, which begins at midnight in UTC, or a time such as
    /// `2027-03-01T12:00:00Z`. Default: never.
    pub expires: Option<Field<Expiry>>,
    /// The budget of this key alone. A request needs room in it and in the budget of the key's team.
    pub budget: Option<Located<Budget>>,
    /// The priority of its requests while they wait for capacity, from 0 to 9. Default: 5.
    pub priority: Option<Field<Priority>>,
    /// The headers that its callers may use: `cache` for `x-signalbox-cache`, likewise `session`, `priority`, `pool`
    /// and `bound-ttft`; and `engine` for words that steer the engine itself. Default: none.
    pub allow: Option<Vec<Field<Allowed>>>,
    /// Cache settings for its callers.
    pub cache: Option<KeyCache>,
}

/// A further secret of a key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OtherSecret {
    /// Its hash, as that of the key.
    pub hash: Field<KeyHash>,
    /// The time from which it is rejected, as in `expires`. Default: never.
    pub valid_until: Option<Field<Expiry>>,
}

/// The time from which a key is rejected, in seconds since 1970.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Expiry(pub i64);

impl Scalar for Expiry {
    fn read(text: &str) -> Result<Self, Mistake> {
        let zoned = |time: DateTime| time.to_zoned(TimeZone::UTC).map_or(Timestamp::MAX, |time| time.timestamp());
        let time = if text.contains(['T', ' ']) {
            // The last days of the year 9999, which stand for never, are beyond what a time with a zone can be.
            let last = |text: &str| text.parse::<DateTime>().ok().filter(|time| *time >= last_days());
            text.parse::<Timestamp>().ok().or_else(|| last(text.trim_end_matches('Z')).map(zoned))
        } else {
            text.parse::<Date>().ok().map(|day| zoned(day.into()))
        };
        time.map(|time| Self(time.as_second())).ok_or_else(|| {
            Mistake::new("not a day or time")
                .help("write a day such as `2027-03-01`, or a time such as `2027-03-01T12:00:00Z`")
        })
    }

    fn schema() -> Schema {
        text_schema(
            r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]+(?:Z|[+-][0-9:]+))?",
            &["2027-03-01", "2027-03-01T12:00:00Z"],
        )
    }
}

/// The time from which on a zone of its own may move a time beyond the last one.
fn last_days() -> DateTime {
    jiff::civil::date(9999, 12, 29).into()
}

/// Keys that are created on the running gateway, by `signalbox key create` or `POST /admin/keys`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ManagedKeys {
    /// The file that they are stored in, as `{"keys": [...]}` with the settings of `keys`. The gateway creates and
    /// rewrites it. Relative to this file's folder.
    pub path: Field<String>,
}

/// The limits of a key's callers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyLimits {
    /// Requests per minute, such as `600`.
    pub rpm: Option<Field<u64>>,
    /// Tokens per minute, of prompts and answers together, such as `200k`.
    pub tpm: Option<Field<u64>>,
    /// Concurrent requests.
    pub concurrency: Option<Field<u64>>,
}

/// Counts the usage of keys and teams across several gateways, through one server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedLimits {
    /// The Redis or Valkey server: `redis://host:6379`, with a database of its own
    /// `redis://host:6379/2`, with TLS `rediss://host:6379`, with Sentinels
    /// `redis+sentinel://host:26379,host2:26379/master-name`, or a cluster `redis+cluster://host:6379,host2:6379`.
    pub url: Field<Token>,
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
    /// The longest that a request waits for this server; after that the gateway's own count decides. Default: `50ms`.
    pub timeout: Option<Field<Duration>>,
}

/// Callers with a common budget.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Team {
    /// The budget. Without it, there is no limit.
    pub budget: Option<Located<Budget>>,
    /// Provider accounts of its own: for an account that engines use, the account that pays for this team's requests in
    /// its place, such as `{ openai: openai-search }`.
    pub accounts: Option<Named<Field<Word>>>,
}

/// The budget of a team or a key: `usd` or `tokens`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = one_of(&["usd", "tokens"])))]
pub struct Budget {
    /// US dollars, at the prices of the pools.
    pub usd: Option<Field<f64>>,
    /// Tokens of prompts and answers together, such as `10M`.
    pub tokens: Option<Field<u64>>,
    /// The period after which it is renewed: at midnight (`day`) or on the first of the month (`month`), in UTC.
    pub per: Field<Period>,
    /// The treatment of requests beyond the budget: `reject` (the default).
    pub on_exceeded: Option<Field<OnExceeded>>,
}

/// Stores usage by day, key and model on disk, with budgets and revocations. Without it, it is lost with the process.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// The folder, used by one gateway only and created if missing. Relative to this file's folder.
    pub path: Field<String>,
    /// The time that past days are kept in memory; their files are not deleted. Default: `62d`.
    pub retention: Option<Field<Duration>>,
}

/// Files, uploads, batches and stored responses at providers: each belongs to the key that created it and is invisible
/// to others.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Objects {
    /// The treatment of requests for an object whose owner is unknown, because it was created elsewhere or is no longer
    /// remembered: `refuse` (the default) or `allow`.
    pub unknown: Option<Field<Unknown>>,
}

/// The treatment of requests for objects whose owner is unknown.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// They are answered as if the object did not exist.
    Refuse,
    /// They are forwarded.
    Allow,
}

/// The treatment of requests beyond a budget.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum OnExceeded {
    /// They are rejected.
    Reject,
}

/// The names of the choices in files.
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

/// The limits of an account at a provider.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccountLimits {
    /// Requests per minute, such as `5000`.
    pub rpm: Option<Field<u64>>,
    /// Tokens per minute, of prompts and answers together, such as `2M`.
    pub tpm: Option<Field<u64>>,
}

/// The priority of a request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Priority(pub u8);

impl Scalar for Priority {
    fn read(text: &str) -> Result<Self, Mistake> {
        match text.as_bytes() {
            [digit @ b'0'..=b'9'] => Ok(Self(digit - b'0')),
            _ => Err(Mistake::new("not a priority").help("write a digit from 0 (last) to 9 (first); 5 is the default")),
        }
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["integer", "string"], "minimum": 0, "maximum": 9, "pattern": whole("[0-9]"), "examples": [7] })
    }
}

/// A decision that a key's callers may take.
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
    /// Words of engines, such as `priority` and `kv_transfer_params` in the body, which are removed otherwise.
    Engine,
}

/// The names of the headers in files.
const ALLOWED: [(&str, Allowed); 6] = [
    ("cache", Allowed::Cache),
    ("session", Allowed::Session),
    ("priority", Allowed::Priority),
    ("pool", Allowed::Pool),
    ("bound-ttft", Allowed::BoundTtft),
    ("engine", Allowed::Engine),
];

impl Allowed {
    /// The name used in files.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_expire_in_any_year() {
        let read = |text: &str| Expiry::read(text).map(|Expiry(unix)| unix);
        assert_eq!(read("2027-03-01"), Ok(1_803_859_200));
        assert_eq!(read("2027-03-01T12:00:00+02:00"), Ok(1_803_859_200 + 10 * 3600));
        assert_eq!(read("1969-12-31"), Ok(-86_400));
        let last = Timestamp::MAX.as_second();
        for far in ["9999-12-31", "9999-12-31T23:59:59Z", "9999-12-31 00:00:00Z", "9999-12-30T23:00:00.5Z"] {
            assert_eq!(read(far), Ok(last), "{far}");
        }
        for bad in ["2027-13-01", "2027-02-30", "2027-03-01T12:00:00", "tomorrow", "9999-12-32"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
