//! A single value of the file: its text, its position and its type.

use std::{borrow::Cow, marker::PhantomData, net::SocketAddr, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use super::{
    mistake::{At, Mistake, nearest},
    patterns::{self, VARIABLE, number_schema, plain_schema, text_schema, whole},
    units,
};

/// A type of value that is read from text.
pub trait Scalar: Sized {
    /// Parses `text`, in which variables are already substituted.
    fn read(text: &str) -> Result<Self, Mistake>;

    /// The JSON schema for editors. It accepts a reference to a variable in place of every text.
    fn schema() -> Schema;
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

    fn schema() -> Schema {
        plain_schema(patterns::LINE)
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

    fn schema() -> Schema {
        plain_schema("[!-~]+")
    }
}

/// A condition; its compiler validates it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression(pub String);

impl Scalar for Expression {
    fn read(text: &str) -> Result<Self, Mistake> {
        Ok(Self(text.to_owned()))
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["string", "boolean"], "minLength": 1 })
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

    fn schema() -> Schema {
        text_schema(patterns::DEADLINE, &["30s", "500ms"])
    }
}

/// A duration, or `none`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Total(pub Option<Duration>);

impl Scalar for Total {
    fn read(text: &str) -> Result<Self, Mistake> {
        if text == "none" { Ok(Self(None)) } else { Duration::read(text).map(|duration| Self(Some(duration))) }
    }

    fn schema() -> Schema {
        text_schema(&format!("none|{}", patterns::DEADLINE), &["none", "10m"])
    }
}

/// A duration, or `auto`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Predicted(pub Option<Duration>);

impl Scalar for Predicted {
    fn read(text: &str) -> Result<Self, Mistake> {
        if text == "auto" { Ok(Self(None)) } else { Duration::read(text).map(|duration| Self(Some(duration))) }
    }

    fn schema() -> Schema {
        text_schema(&format!("auto|{}", patterns::DEADLINE), &["auto", "10s"])
    }
}

/// A duration that may be zero.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Pause(pub Duration);

impl Scalar for Pause {
    fn read(text: &str) -> Result<Self, Mistake> {
        units::duration(text).map(Self)
    }

    fn schema() -> Schema {
        text_schema(patterns::DURATION, &["30s", "0s"])
    }
}

impl Scalar for bool {
    fn read(text: &str) -> Result<Self, Mistake> {
        choice(text, &[("true", true), ("false", false)])
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [{ "type": "boolean" }, { "type": "string", "pattern": whole("true|false") }] })
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
        json_schema!({ "anyOf": [
            { "type": "boolean" },
            { "enum": ["on", "off"] },
            { "type": "string", "pattern": whole("true|false") }
        ] })
    }
}

/// A whole number above zero, with an optional unit.
impl Scalar for u64 {
    fn read(text: &str) -> Result<Self, Mistake> {
        units::size(text)
    }

    fn schema() -> Schema {
        number_schema("integer", 1, patterns::SIZE, &[])
    }
}

/// A whole number.
impl Scalar for u32 {
    fn read(text: &str) -> Result<Self, Mistake> {
        text.parse()
            .map_err(|_| Mistake::new("not a whole number of zero or more").help("write it in digits, such as `5`"))
    }

    fn schema() -> Schema {
        number_schema("integer", 0, "[0-9]+", &[])
    }
}

/// A percentage.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Share(pub f64);

impl Scalar for Share {
    fn read(text: &str) -> Result<Self, Mistake> {
        units::share(text).map(Self)
    }

    fn schema() -> Schema {
        text_schema(patterns::SHARE, &["5%", "75%"])
    }
}

/// US dollars per million tokens.
impl Scalar for f64 {
    fn read(text: &str) -> Result<Self, Mistake> {
        units::amount(text)
    }

    fn schema() -> Schema {
        number_schema("number", 0, patterns::AMOUNT, &[])
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

    fn schema() -> Schema {
        text_schema(patterns::SOCKET, &["127.0.0.1:4100", "0.0.0.0:4100"])
    }
}

/// An address to listen on, or `off`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Admin(pub Option<SocketAddr>);

impl Scalar for Admin {
    fn read(text: &str) -> Result<Self, Mistake> {
        if text == "off" { Ok(Self(None)) } else { SocketAddr::read(text).map(|address| Self(Some(address))) }
    }

    fn schema() -> Schema {
        let address = text_schema(patterns::SOCKET, &["127.0.0.1:4101"]);
        // YAML 1.1 reads `off` as false.
        json_schema!({ "anyOf": [{ "enum": ["off", false] }, address] })
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

    fn schema() -> Schema {
        text_schema(r"\s*[!-~]+\s*", &["${API_KEY}"])
    }
}

/// The base address of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url(pub String);

impl Scalar for Url {
    fn read(text: &str) -> Result<Self, Mistake> {
        super::url::read(text).map(Self)
    }

    fn schema() -> Schema {
        super::url::schema()
    }
}
