//! A request of `/v1/messages`, as it is read.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::content::Message;
use crate::{
    Unsupported,
    json::{Str, part},
    unsupported,
};

/// The most top-level fields: each is compared with those before it.
const MOST_FIELDS: usize = 256;

/// A request, of which only the two large lists are read in depth.
#[derive(Default)]
pub(super) struct Request<'a> {
    pub(super) messages: Option<Vec<Message<'a>>>,
    pub(super) tools: Option<Vec<Tool<'a>>>,
    /// All other top-level fields, in order.
    pub(super) fields: Vec<(Cow<'a, str>, &'a RawValue)>,
}

/// A tool of the Messages API.
#[derive(Deserialize)]
pub(super) struct Tool<'a> {
    #[serde(borrow)]
    pub(super) r#type: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) description: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) input_schema: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) strict: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) allowed_callers: Option<Vec<Cow<'a, str>>>,
    pub(super) display_width_px: Option<u64>,
    pub(super) display_height_px: Option<u64>,
    pub(super) cache_control: Option<IgnoredAny>,
    pub(super) defer_loading: Option<IgnoredAny>,
    pub(super) input_examples: Option<IgnoredAny>,
    pub(super) eager_input_streaming: Option<IgnoredAny>,
}

impl<'a> Request<'a> {
    /// Reads a body. The error names the message or the tool that is malformed.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, Unsupported> {
        serde_json::from_slice(body).map_err(|error| locate(body, &error))
    }

    /// A top-level field, unless it is absent or `null`.
    pub(super) fn field(&self, name: &str) -> Option<&'a RawValue> {
        let (_, value) = self.fields.iter().find(|(known, _)| known == name)?;
        (value.get() != "null").then_some(*value)
    }

    /// A top-level field read as `T`.
    pub(super) fn part<T: Deserialize<'a>>(&self, name: &str) -> Result<Option<T>, Unsupported> {
        self.field(name).map(|value| part(value, name)).transpose()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Request<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Request<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut request = Request { fields: Vec::with_capacity(16), ..Request::default() };
        while let Some(Str(name)) = map.next_key()? {
            let duplicate = match &*name {
                "messages" => request.messages.is_some(),
                "tools" => request.tools.is_some(),
                name => request.fields.iter().any(|(known, _)| known == name),
            };
            if duplicate {
                return Err(serde::de::Error::custom(format_args!("duplicate field `{name}`")));
            }
            if request.fields.len() == MOST_FIELDS {
                return Err(serde::de::Error::custom(format_args!("it has more than {MOST_FIELDS} fields")));
            }
            match &*name {
                "messages" => request.messages = map.next_value()?,
                "tools" => request.tools = map.next_value()?,
                _ => {
                    let value: &'de RawValue = map.next_value()?;
                    request.fields.push((name, value));
                }
            }
        }
        Ok(request)
    }
}

/// Finds the path of a malformed message or tool, by reading the body again.
fn locate(body: &[u8], error: &serde_json::Error) -> Unsupported {
    #[derive(Deserialize)]
    struct Lists<'a> {
        #[serde(borrow)]
        messages: Option<&'a RawValue>,
        #[serde(borrow)]
        tools: Option<&'a RawValue>,
    }
    let whole = || unsupported("", format!("the body is not a valid request: {error}"));
    let Ok(lists) = serde_json::from_slice::<Lists<'_>>(body) else { return whole() };
    lists
        .messages
        .and_then(|list| broken_item::<Message<'_>>("messages", list))
        .or_else(|| lists.tools.and_then(|list| broken_item::<Tool<'_>>("tools", list)))
        .unwrap_or_else(whole)
}

/// The first item of a list that is not a `T`.
fn broken_item<'a, T: Deserialize<'a>>(name: &str, list: &'a RawValue) -> Option<Unsupported> {
    if list.get() == "null" {
        return None;
    }
    let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(list.get()) else {
        return Some(unsupported(name, format!("`{name}` must be a list")));
    };
    items.into_iter().enumerate().find_map(|(at, item)| {
        let error = serde_json::from_str::<T>(item.get()).err()?;
        Some(unsupported(format!("{name}[{at}]"), format!("`{name}[{at}]` is malformed: {error}")))
    })
}
