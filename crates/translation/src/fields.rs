//! The members of JSON objects.

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer as _,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::json::{comma, inner, put};

/// The most members of a request: each takes more memory than its few bytes of text.
const MOST_FIELDS: usize = 4096;

/// The members of a JSON object, in order.
pub(super) struct Fields<'a>(pub(super) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Reads a value that is an object.
    pub(super) fn of(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        Self::read(raw.get().as_bytes())
    }

    /// Reads a whole text that is one object.
    pub(super) fn read(text: &'a [u8]) -> Result<Self, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_slice(text);
        let found = reader.deserialize_map(FieldsVisitor)?;
        reader.end()?;
        Ok(found)
    }

    /// The last value of `name`; `null` counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let found = self.0.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, raw)| *raw).filter(|raw| raw.get() != "null")
    }

    /// True if `name` has the value `true`.
    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|raw| raw.get() == "true")
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::with_capacity(24);
        while let Some(key) = map.next_key::<&'de RawValue>()? {
            if found.len() == MOST_FIELDS {
                return Err(serde::de::Error::custom(format_args!("it has more than {MOST_FIELDS} fields")));
            }
            let name = match inner(key) {
                Some(name) if !name.contains('\\') => Cow::Borrowed(name),
                _ => Cow::Owned(serde_json::from_str(key.get()).map_err(serde::de::Error::custom)?),
            };
            found.push((name, map.next_value()?));
        }
        Ok(Fields(found))
    }
}

/// Appends the object `raw` with its members `fields`, and those of `defaults` that it lacks.
pub(super) fn completed(out: &mut Vec<u8>, raw: &RawValue, fields: &Fields<'_>, defaults: &[(&str, &str)]) {
    let members = if fields.0.is_empty() { "{" } else { &raw.get()[..raw.get().len() - 1] };
    put(out, &[members]);
    for (name, value) in defaults.iter().filter(|(name, _)| !fields.0.iter().any(|(known, _)| known == name)) {
        comma(out);
        put(out, &["\"", name, "\":", value]);
    }
    out.push(b'}');
}
