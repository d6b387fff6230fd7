//! Notifications as written in the file: their receivers, and the events that are sent.

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::{
    key_source::KeySource,
    mistake::Mistake,
    scalar::{Field, Scalar, Share, choice, choice_schema},
    shape::Located,
};

/// Notifications of budgets that are nearly spent and of objectives that are missed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Notifications {
    /// The receivers.
    pub to: Located<Vec<Receiver>>,
    /// The shares of a budget at which an event is sent. Default: `[50%, 80%, 100%]`.
    pub budgets: Option<Located<Vec<Field<Share>>>>,
}

/// A receiver of notifications.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Receiver {
    /// The URL that events are posted to: `"${WEBHOOK}"` or `{ file: path }`. Many such URLs are secrets.
    pub webhook: KeySource,
    /// The form of the body: `json` (the default) or `slack`, a text that Slack, Mattermost and Discord (at `/slack`)
    /// show.
    pub format: Option<Field<Format>>,
    /// The secret that signs events as Standard Webhooks do: `"${SECRET}"` or `{ file: path }`. Default: unsigned.
    pub secret: Option<KeySource>,
    /// The events that it receives: `budget`, `objective`. Default: all.
    pub events: Option<Vec<Field<Topic>>>,
}

/// The form of an event's body.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// The event as a JSON object.
    Json,
    /// A text.
    Slack,
}

/// The kind of an event.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A budget's threshold was reached.
    Budget,
    /// The state of an objective changed.
    Objective,
}

/// The names of the choices in files.
const FORMATS: [(&str, Format); 2] = [("json", Format::Json), ("slack", Format::Slack)];
const TOPICS: [(&str, Topic); 2] = [("budget", Topic::Budget), ("objective", Topic::Objective)];

impl Scalar for Format {
    fn read(text: &str) -> Result<Self, Mistake> {
        choice(text, &FORMATS)
    }

    fn schema() -> Schema {
        choice_schema(&FORMATS)
    }
}

impl Scalar for Topic {
    fn read(text: &str) -> Result<Self, Mistake> {
        choice(text, &TOPICS)
    }

    fn schema() -> Schema {
        choice_schema(&TOPICS)
    }
}
