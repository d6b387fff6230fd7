//! Reads and writes JSON text without decoding it.

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer as _,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::translation::Unsupported;

/// The most members of a request: each takes more memory than its few bytes of text.
const MOST_FIELDS: usize = 4096;

/// The text between the quotes of a JSON string, with its escapes. `None` if `raw` is not a string.
pub(super) fn inner(raw: &RawValue) -> Option<&str> {
    raw.get().strip_prefix('"')?.strip_suffix('"')
}

/// The text between the quotes, or an empty text for anything but a string.
pub(super) fn word(raw: Option<&RawValue>) -> &str {
    raw.and_then(inner).unwrap_or_default()
}

/// Appends each part.
pub(super) fn put(out: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Appends a number.
pub(super) fn number(out: &mut Vec<u8>, mut value: u64) {
    let start = out.len();
    loop {
        // A remainder of ten fits a byte.
        out.push(b'0' + u8::try_from(value % 10).unwrap_or_default());
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out[start..].reverse();
}

/// Appends `text` as a JSON string, with its quotes.
pub(super) fn string(out: &mut Vec<u8>, text: &str) {
    // Writing a string into memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// Appends `text` as the content of a JSON string, without quotes.
pub(super) fn escaped(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    string(out, text);
    out.remove(start);
    out.pop();
}

/// Appends JSON text as the content of a JSON string. Strings in it must have no raw control characters, which holds for
/// every text that was read as JSON; white space between values is escaped.
pub(super) fn nested(out: &mut Vec<u8>, json: &str) {
    let mut rest = json.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            special @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', special]),
            // White space between values: its kind has no meaning.
            _ => out.push(b' '),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Appends a comma unless `out` is empty or ends where a list or an object begins.
pub(super) fn comma(out: &mut Vec<u8>) {
    if !matches!(out.last(), None | Some(b'[' | b'{')) {
        out.push(b',');
    }
}

/// Reads `raw` as `T`, naming `param` if it has another form.
pub(super) fn read<'a, T: serde::Deserialize<'a>>(raw: &'a RawValue, param: &str) -> Result<T, Unsupported> {
    serde_json::from_str(raw.get()).map_err(|error| refuse(param, format!("`{param}` is malformed: {error}")))
}

/// A rejected part of a request.
pub(super) fn refuse(param: impl Into<String>, message: impl Into<String>) -> Unsupported {
    Unsupported { param: param.into(), message: message.into() }
}

/// Hints that were left out, each named once.
#[derive(Debug, Default)]
pub(super) struct Dropped(pub(super) Vec<String>);

impl Dropped {
    pub(super) fn note(&mut self, name: &str) {
        if !self.0.iter().any(|known| known == name) {
            self.0.push(name.to_owned());
        }
    }
}

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
