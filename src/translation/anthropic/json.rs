//! Reads and writes raw JSON values without decoding them where that can be avoided.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A string that is borrowed from the text if it contains no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Str<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// True if `text` is one JSON value.
pub(super) fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

/// Appends a value as it was written, or `null`.
pub(super) fn raw(out: &mut Vec<u8>, value: Option<&RawValue>) {
    out.extend_from_slice(value.map_or("null", RawValue::get).as_bytes());
}

/// Appends `,"name":`.
pub(super) fn key(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Appends a member with a value as it was written, if there is one.
pub(super) fn member(out: &mut Vec<u8>, name: &str, value: Option<&RawValue>) {
    if let Some(value) = value {
        key(out, name);
        raw(out, Some(value));
    }
}

/// Appends a string with quotes and escapes.
pub(super) fn string(out: &mut Vec<u8>, text: &str) {
    // Writing a string into memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// Appends a number.
pub(super) fn number(out: &mut Vec<u8>, number: u64) {
    let _ = serde_json::to_writer(out, &number);
}

/// The text between the quotes of a string, escapes included. `None` for other values.
pub(super) fn inner(value: &RawValue) -> Option<&str> {
    value.get().strip_prefix('"')?.strip_suffix('"')
}

/// Appends strings as one string, each with its own escapes. Other values are skipped.
pub(super) fn joined<'a>(out: &mut Vec<u8>, values: impl IntoIterator<Item = &'a RawValue>) {
    out.push(b'"');
    for text in values.into_iter().filter_map(inner) {
        out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
}

/// The decoded text of a string. `None` for other values.
pub(super) fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    let inner = inner(value)?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<Str<'_>>(value.get()).ok().map(|text| text.0)
}

/// True for a string of white space only, which Messages rejects as text.
pub(super) fn is_blank(value: &RawValue) -> bool {
    // The first visible character decides, but an escape may stand for white space.
    match inner(value).map(|text| text.trim_start().as_bytes().first()) {
        Some(None) => true,
        Some(Some(b'\\')) => text(value).is_some_and(|text| text.trim().is_empty()),
        None | Some(Some(_)) => false,
    }
}

/// The value if it is a string that is not empty.
pub(super) fn filled(value: Option<&RawValue>) -> Option<&RawValue> {
    value.filter(|value| inner(value).is_some_and(|text| !text.is_empty()))
}

/// True if the value is an object.
pub(super) fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

/// The number in a value.
pub(super) fn float(value: &RawValue) -> Option<f64> {
    value.get().parse().ok()
}

/// Reads a value that borrows from the text.
pub(super) fn read<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Result<T, serde_json::Error> {
    serde_json::from_str(value.get())
}
