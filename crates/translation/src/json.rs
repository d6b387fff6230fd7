//! Reads and writes JSON text, as a rule without decoding it. "Escaped" is the text between the quotes of a JSON string.

use std::borrow::Cow;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::{Unsupported, unsupported};

/// A string that is borrowed from the text if it contains no escapes, also within an `Option`.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Str<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

// === reading ===

/// True if `text` is one JSON value.
pub(super) fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// Reads a value that borrows from the text.
pub(super) fn read<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Result<T, serde_json::Error> {
    serde_json::from_str(value.get())
}

/// Reads the part `param` of a request.
pub(super) fn part<'a, T: Deserialize<'a>>(value: &'a RawValue, param: &str) -> Result<T, Unsupported> {
    read(value).map_err(|error| unsupported(param, format!("`{param}` is malformed: {error}")))
}

/// The escaped text of a string. `None` for other values.
pub(super) fn inner(value: &RawValue) -> Option<&str> {
    value.get().strip_prefix('"')?.strip_suffix('"')
}

/// The escaped text of a string that is not empty. `None` for other values.
pub(super) fn filled(value: Option<&RawValue>) -> Option<&str> {
    value.and_then(inner).filter(|text| !text.is_empty())
}

/// The escaped text of a string; empty for other values.
pub(super) fn word(value: Option<&RawValue>) -> &str {
    value.and_then(inner).unwrap_or_default()
}

/// The decoded text of a string. `None` for other values.
pub(super) fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    let inner = inner(value)?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    read::<Str<'_>>(value).ok().map(|text| text.0)
}

/// True if an escaped text is only white space, which Messages rejects as text.
pub(super) fn is_blank(escaped: &str) -> bool {
    let mut rest = escaped.trim_start();
    while let Some(escape) = rest.strip_prefix('\\') {
        let length = match escape.as_bytes().first() {
            Some(b'n' | b't' | b'r' | b'f') => 1,
            Some(b'u') if unicode(escape).is_some_and(char::is_whitespace) => 5,
            _ => return false,
        };
        rest = escape[length..].trim_start();
    }
    rest.is_empty()
}

/// The character of `uXXXX`.
fn unicode(escape: &str) -> Option<char> {
    char::from_u32(u32::from_str_radix(escape.get(1..5)?, 16).ok()?)
}

/// True if a value has content: it is not `null`, nor an empty string, list or object.
pub(super) fn says_something(raw: &RawValue) -> bool {
    !matches!(raw.get(), "null" | "\"\"" | "[]" | "{}")
}

// === writing ===

/// Appends each piece.
pub(super) fn put(out: &mut Vec<u8>, pieces: &[&str]) {
    for piece in pieces {
        out.extend_from_slice(piece.as_bytes());
    }
}

/// Appends a number.
pub(super) fn number(out: &mut Vec<u8>, number: u64) {
    // Writing into memory cannot fail.
    let _ = serde_json::to_writer(out, &number);
}

/// Appends `text` as a string.
pub(super) fn string(out: &mut Vec<u8>, text: &str) {
    // Writing into memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// Appends escaped text as a string.
pub(super) fn quoted(out: &mut Vec<u8>, escaped: &str) {
    put(out, &["\"", escaped, "\""]);
}

/// Appends `text` as the content of a string, without quotes.
pub(super) fn escaped(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    string(out, text);
    out.remove(start);
    out.pop();
}

/// Appends JSON text as the content of a string. Strings in it must have no raw control characters, which holds for every
/// text that was read as JSON; white space between values becomes spaces.
pub(super) fn nested(out: &mut Vec<u8>, json: &str) {
    let mut rest = json.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            special @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', special]),
            _ => out.push(b' '),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// JSON text as the content of a string; see [`nested`].
pub(super) fn nested_text(json: &str) -> String {
    let mut out = Vec::with_capacity(json.len() + 16);
    nested(&mut out, json);
    // Made of text and ASCII.
    String::from_utf8(out).unwrap_or_default()
}

/// Appends a comma unless `out` is empty or ends where a list or an object begins.
pub(super) fn comma(out: &mut Vec<u8>) {
    if !matches!(out.last(), None | Some(b'[' | b'{')) {
        out.push(b',');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_recognised_without_decoding() {
        for blank in ["", " \u{a0}", r"\n\t \r\f", r"\u00a0\u2003 \n"] {
            assert!(is_blank(blank), "{blank:?}");
        }
        for text in ["a", r"\n a", r"\\n", r"\u00e9", r"\ud83d", r"\u00", r"\b", "\\"] {
            assert!(!is_blank(text), "{text:?}");
        }
    }

    #[test]
    fn json_becomes_the_content_of_a_string() {
        assert_eq!(nested_text("{\"a\":\n\"\\n\"}"), r#"{\"a\": \"\\n\"}"#);
    }
}
