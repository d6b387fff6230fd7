//! Values of engines and pools: dialects, ids of calls, balancing strategies, endpoints, and scrape intervals.

use std::time::Duration;

use schemars::{Schema, json_schema};

use super::{
    mistake::Mistake,
    patterns::{self, whole},
    scalar::{Scalar, choice, choice_schema, choices},
    units,
};
use signalbox_types::{AnswerModel, Endpoint, Overload, Strategy};

/// The API dialect of an engine.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's.
    OpenAi,
    /// Azure's: by deployment and dated version.
    Azure,
    /// Anthropic's: Messages.
    Anthropic,
}

/// The base of the paths of an engine's API.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// The address if it has a version, else `/v1` below it.
    #[default]
    Auto,
    /// The address.
    Exact,
}

/// The ids of tool calls that an engine accepts.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ToolCallIds {
    /// Any.
    Any,
    /// Mistral's: nine letters and digits.
    Mistral,
}

choices!(ToolCallIds, [("any", Self::Any), ("mistral", Self::Mistral)]);
choices!(Base, [("auto", Self::Auto), ("exact", Self::Exact)]);
choices!(Dialect, [("openai", Self::OpenAi), ("azure", Self::Azure), ("anthropic", Self::Anthropic)]);
choices!(Endpoint, Endpoint::ALL.map(|endpoint| (endpoint.name(), endpoint)));
choices!(Strategy, Strategy::ALL.map(|strategy| (strategy.name(), strategy)));
choices!(AnswerModel, AnswerModel::ALL.map(|model| (model.name(), model)));
choices!(Overload, Overload::ALL.map(|overload| (overload.name(), overload)));

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
        let pattern = whole(&format!("true|false|{}", patterns::SCRAPE));
        json_schema!({ "type": ["boolean", "string"], "pattern": pattern, "examples": ["1s", false] })
    }
}

/// The name of a header, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderWord(pub String);

impl Scalar for HeaderWord {
    fn read(text: &str) -> Result<Self, Mistake> {
        let is_mark = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte)) {
            return Err(Mistake::new("not the name of a header").help("write it like `x-tenant`"));
        }
        Ok(Self(text.to_ascii_lowercase()))
    }

    fn schema() -> Schema {
        patterns::text_schema("[A-Za-z0-9!#$%&'*+.^_`|~-]+", &["x-tenant"])
    }
}
