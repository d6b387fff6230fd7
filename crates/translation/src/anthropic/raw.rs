//! Copies values of the upstream's or the caller's JSON, and writes the members of an object.

use serde_json::value::RawValue;

use crate::json;

/// Appends a value as it was written, or `null`.
pub(super) fn value(out: &mut Vec<u8>, value: Option<&RawValue>) {
    out.extend_from_slice(value.map_or("null", RawValue::get).as_bytes());
}

/// Appends `,"name":`.
pub(super) fn key(out: &mut Vec<u8>, name: &str) {
    json::put(out, &[",\"", name, "\":"]);
}

/// Appends a member with a value as it was written, if there is one.
pub(super) fn member(out: &mut Vec<u8>, name: &str, given: Option<&RawValue>) {
    if let Some(given) = given {
        key(out, name);
        value(out, Some(given));
    }
}

/// Appends strings as one string, each with its own escapes. Other values are skipped.
pub(super) fn joined<'a>(out: &mut Vec<u8>, values: impl IntoIterator<Item = &'a RawValue>) {
    out.push(b'"');
    for text in values.into_iter().filter_map(json::inner) {
        out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
}

/// True for a string of white space only.
pub(super) fn is_blank(value: &RawValue) -> bool {
    json::inner(value).is_some_and(json::is_blank)
}

/// The value if it is a string that is not empty.
pub(super) fn filled(value: Option<&RawValue>) -> Option<&RawValue> {
    value.filter(|value| json::filled(Some(value)).is_some())
}

/// True if the value is an object.
pub(super) fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

/// The number in a value.
pub(super) fn float(value: &RawValue) -> Option<f64> {
    value.get().parse().ok()
}
