//! A single value of the file: its text, its position and its type.

use std::{borrow::Cow, marker::PhantomData, net::SocketAddr, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use super::{
    mistake::{At, Mistake, nearest},
    units,
};
use crate::types::Endpoint;

/// A type of value that is read from text.
pub trait Scalar: Sized {
    /// Parses `text`, in which variables are already substituted.
    fn read(text: &str) -> Result<Self, Mistake>;

    /// The JSON schema for editors.
    fn schema() -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// A value of type `T` that is not parsed yet.
#[derive(Clone, Debug)]
pub struct Field<T> {
    text: String,
    at: At,
    kind: PhantomData<fn() -> T>,
}

impl<T> Field<T> {
    pub(super) fn new(text: String, at: At) -> Self {
        Self { text, at, kind: PhantomData }
    }

    /// The text as written in the file, before variables are substituted; safe to show.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its position.
    pub fn at(&self) -> At {
        self.at
    }
}

impl<'de, T> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<String>::deserialize(deserializer)?;
        let at = At::from(&spanned);
        Ok(Self::new(spanned.value, at))
    }
}

impl<T: Scalar> JsonSchema for Field<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        std::any::type_name::<T>().into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        T::schema()
    }
}

/// The value with the name `text` in `options`.
pub(super) fn choice<T: Copy>(text: &str, options: &[(&'static str, T)]) -> Result<T, Mistake> {
    if let Some((_, value)) = options.iter().find(|(name, _)| *name == text) {
        return Ok(*value);
    }
    let names = options.iter().map(|(name, _)| *name);
    let all = names.clone().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    Err(Mistake::new("not one of the values that are possible here").help(match nearest(text, names) {
        Some(name) => format!("did you mean `{name}`? possible: {all}"),
        None => format!("possible: {all}"),
    }))
}

/// Matches a value that comes from the environment.
const VARIABLE: &str = r"\$\{";

pub(super) fn choice_schema<T>(options: &[(&'static str, T)]) -> Schema {
    let names: Vec<_> = options.iter().map(|(name, _)| *name).collect();
    json_schema!({ "anyOf": [{ "enum": names }, { "type": "string", "pattern": VARIABLE }] })
}

/// Implements [`Scalar`] for a type with a fixed set of names.
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
pub(super) use choices;

/// The API dialect of an engine.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's.
    OpenAi,
    /// Azure's: by deployment and dated version.
    Azure,
}

/// The balancing strategy of a pool.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Balance {
    /// Least cost, counted in tokens in flight.
    LeastCost,
    /// One after the other, in order.
    RoundRobin,
    /// Fewest requests in flight.
    LeastRequest,
    /// The less loaded of two drawn at random.
    PowerOfTwo,
    /// Smallest moving average of latency, which rises at once.
    PeakEwma,
}

choices!(Dialect, [("openai", Self::OpenAi), ("azure", Self::Azure)]);
choices!(Endpoint, Endpoint::ALL.map(|endpoint| (endpoint.name(), endpoint)));
choices!(
    Balance,
    [
        ("least_cost", Self::LeastCost),
        ("round_robin", Self::RoundRobin),
        ("least_request", Self::LeastRequest),
        ("p2c", Self::PowerOfTwo),
        ("peak_ewma", Self::PeakEwma),
    ]
);

/// Any text that is not empty and fits on a line.
impl Scalar for String {
    fn read(text: &str) -> Result<Self, Mistake> {
        if text.trim().is_empty() {
            return Err(Mistake::new("empty").help("give it a value, or leave the key out"));
        }
        if text.contains(char::is_control) {
            return Err(Mistake::new("contains a line break or another control character").help("write it on one line"));
        }
        Ok(text.to_owned())
    }
}

/// A name that is valid in headers, metrics and paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word(pub String);

impl Scalar for Word {
    fn read(text: &str) -> Result<Self, Mistake> {
        if text.is_empty() || !text.chars().all(|c| c.is_ascii_graphic()) {
            return Err(Mistake::new("not a name that can stand in a header")
                .help("use visible ASCII characters without spaces, such as `gpu-1`"));
        }
        Ok(Self(text.to_owned()))
    }
}

/// A condition; its compiler validates it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression(pub String);

impl Scalar for Expression {
    fn read(text: &str) -> Result<Self, Mistake> {
        Ok(Self(text.to_owned()))
    }
}

/// A duration above zero.
impl Scalar for Duration {
    fn read(text: &str) -> Result<Self, Mistake> {
        if text == "auto" {
            return Err(
                Mistake::new("`auto` is not supported yet by this version").help("write a duration, such as `30s`")
            );
        }
        units::deadline(text)
    }
}

/// A duration, or `none`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Total(pub Option<Duration>);

impl Scalar for Total {
    fn read(text: &str) -> Result<Self, Mistake> {
        if text == "none" { Ok(Self(None)) } else { Duration::read(text).map(|duration| Self(Some(duration))) }
    }
}

/// A duration, or `auto`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Predicted(pub Option<Duration>);

impl Scalar for Predicted {
    fn read(text: &str) -> Result<Self, Mistake> {
        if text == "auto" { Ok(Self(None)) } else { Duration::read(text).map(|duration| Self(Some(duration))) }
    }
}

/// A duration that may be zero.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Pause(pub Duration);

impl Scalar for Pause {
    fn read(text: &str) -> Result<Self, Mistake> {
        units::duration(text).map(Self)
    }
}

impl Scalar for bool {
    fn read(text: &str) -> Result<Self, Mistake> {
        choice(text, &[("true", true), ("false", false)])
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [{ "type": "boolean" }, { "type": "string", "pattern": VARIABLE }] })
    }
}

/// The interval between readings of an engine's metrics: `true` for every second, `false` for none, or a duration.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Scrape(pub Option<Duration>);

impl Scrape {
    /// Every second: engines do not refresh their gauges more often.
    pub const USUAL: Self = Self(Some(Duration::from_secs(1)));
    /// Shorter intervals would be a load on the engine; longer ones are too old to describe a queue.
    const RANGE: std::ops::RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(15);
}

impl Scalar for Scrape {
    fn read(text: &str) -> Result<Self, Mistake> {
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return choice(text, &[("true", Self::USUAL), ("false", Self(None))]).map_err(|_| {
                Mistake::new("not an interval, `true` or `false`").help("write it like `1s`, or `false`")
            });
        }
        let every = units::duration(text)?;
        if !Self::RANGE.contains(&every) {
            return Err(Mistake::new("not an interval from `50ms` to `15s`")
                .help("write it like `1s`; `false` leaves its metrics alone"));
        }
        Ok(Self(Some(every)))
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["boolean", "string"] })
    }
}

/// On or off.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Switch(pub bool);

impl Scalar for Switch {
    fn read(text: &str) -> Result<Self, Mistake> {
        choice(text, &[("on", Self(true)), ("off", Self(false)), ("true", Self(true)), ("false", Self(false))])
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [{ "type": "boolean" }, { "enum": ["on", "off"] }, { "type": "string", "pattern": VARIABLE }] })
    }
}

/// A whole number above zero, with an optional unit.
impl Scalar for u64 {
    fn read(text: &str) -> Result<Self, Mistake> {
        units::size(text)
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["integer", "string"] })
    }
}

/// A whole number.
impl Scalar for u32 {
    fn read(text: &str) -> Result<Self, Mistake> {
        text.parse()
            .map_err(|_| Mistake::new("not a whole number of zero or more").help("write it in digits, such as `5`"))
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["integer", "string"] })
    }
}

/// A percentage.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Share(pub f64);

impl Scalar for Share {
    fn read(text: &str) -> Result<Self, Mistake> {
        units::share(text).map(Self)
    }
}

/// US dollars per million tokens.
impl Scalar for f64 {
    fn read(text: &str) -> Result<Self, Mistake> {
        units::amount(text)
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["number", "string"] })
    }
}

/// An address to listen on.
impl Scalar for SocketAddr {
    fn read(text: &str) -> Result<Self, Mistake> {
        let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
        local.as_deref().unwrap_or(text).parse().map_err(|_| {
            Mistake::new("not an address and port")
                .help("write `127.0.0.1:4100` for this machine only, `0.0.0.0:4100` for every network it is on")
        })
    }
}

/// An address to listen on, or `off`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Admin(pub Option<SocketAddr>);

impl Scalar for Admin {
    fn read(text: &str) -> Result<Self, Mistake> {
        if text == "off" { Ok(Self(None)) } else { SocketAddr::read(text).map(|address| Self(Some(address))) }
    }
}

/// A provider key.
#[derive(Clone)]
pub struct Token(pub String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

impl Scalar for Token {
    fn read(text: &str) -> Result<Self, Mistake> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Mistake::new("an empty key").help("leave it out where the engine asks for none"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Mistake::new("not a key that can stand in a header")
                .help("a key has no spaces, and no characters beyond ASCII"));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The hash of a caller's key.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct KeyHash(pub [u8; 32]);

impl Scalar for KeyHash {
    fn read(text: &str) -> Result<Self, Mistake> {
        let Some(hex) = text.strip_prefix("blake3:") else {
            return Err(Mistake::new("not a hash: this file holds no plaintext keys").help(
                "`signalbox key new` makes a key and prints the line to put here; a key that stood in a file is best replaced",
            ));
        };
        let hash = blake3::Hash::from_hex(hex).map_err(|_| {
            Mistake::new("not a BLAKE3 hash")
                .help("write `blake3:` and 64 hex digits, as `signalbox key new` prints them")
        })?;
        Ok(Self(*hash.as_bytes()))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^(blake3:[0-9a-fA-F]{64}|.*\$\{.*)$" })
    }
}

/// The base address of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url(pub String);

impl Scalar for Url {
    fn read(text: &str) -> Result<Self, Mistake> {
        super::url::read(text).map(Self)
    }
}
