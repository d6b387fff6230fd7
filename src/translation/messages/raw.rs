//! Raw JSON strings: copied with their escapes instead of being decoded and encoded again.

use std::io::Write as _;

use serde_json::value::RawValue;

/// The escaped text of a JSON string, without its quotes. `None` for another type.
pub(super) fn escaped(raw: &RawValue) -> Option<&str> {
    raw.get().strip_prefix('"')?.strip_suffix('"')
}

/// The escaped text of an optional string; absent, empty and other types are `None`.
pub(super) fn filled(raw: Option<&RawValue>) -> Option<&str> {
    raw.and_then(escaped).filter(|text| !text.is_empty())
}

/// True if a value has content: it is not `null`, nor an empty string, list or object.
pub(super) fn says_something(raw: &RawValue) -> bool {
    !matches!(raw.get(), "null" | "\"\"" | "[]" | "{}")
}

/// True if the escaped text is empty or only white space.
pub(super) fn is_blank(escaped: &str) -> bool {
    let mut bytes = escaped.bytes();
    while let Some(byte) = bytes.next() {
        let blank = match byte {
            b' ' => true,
            b'\\' => matches!(bytes.next(), Some(b'n' | b't' | b'r')),
            _ => false,
        };
        if !blank {
            return false;
        }
    }
    true
}

/// Appends `text` as a JSON string.
pub(super) fn push_string(out: &mut Vec<u8>, text: &str) {
    // Writing a string into memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// Appends escaped text as a JSON string.
pub(super) fn push_escaped(out: &mut Vec<u8>, escaped: &str) {
    out.push(b'"');
    out.extend_from_slice(escaped.as_bytes());
    out.push(b'"');
}

/// Appends a number.
pub(super) fn push_number(out: &mut Vec<u8>, number: u64) {
    // Writing into memory cannot fail.
    let _ = write!(out, "{number}");
}

/// `text` escaped for a JSON string, without quotes.
pub(super) fn escape(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

/// True if the value is a JSON object; used for arguments that a model wrote.
pub(super) fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// A JSON object under construction.
#[derive(Debug)]
pub(super) struct Object(pub(super) Vec<u8>);

impl Object {
    pub(super) fn new(capacity: usize) -> Self {
        let mut out = Vec::with_capacity(capacity);
        out.push(b'{');
        Self(out)
    }

    /// Begins a member and returns the buffer for its value.
    pub(super) fn member(&mut self, name: &str) -> &mut Vec<u8> {
        if self.0.last() != Some(&b'{') {
            self.0.push(b',');
        }
        push_string(&mut self.0, name);
        self.0.push(b':');
        &mut self.0
    }

    /// Adds a member whose value is JSON text.
    pub(super) fn json(&mut self, name: &str, value: &str) {
        self.member(name).extend_from_slice(value.as_bytes());
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}
