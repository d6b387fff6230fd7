//! Parses a JSON object in one pass: the position of each top-level member, without decoding values.

use std::{borrow::Cow, fmt, ops::Range};

use memchr::memmem;
use serde::{
    Deserializer as _,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

pub use super::walk::{elements, member, string, unescape};

/// The most members of one object: each takes more memory here than its few bytes of text.
const MOST_MEMBERS: usize = 4096;

/// A top-level member: the positions of its name (with quotes) and of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its unescaped name, if the text contains escapes.
    unescaped: Option<Box<str>>,
    /// The range of the quoted name.
    pub key: Range<usize>,
    /// The range of the value.
    pub value: Range<usize>,
}

impl Member {
    /// Its name; `text` is the text that it was found in.
    pub fn name<'a>(&'a self, text: &'a [u8]) -> &'a [u8] {
        match &self.unescaped {
            Some(name) => name.as_bytes(),
            None => &text[self.key.start + 1..self.key.end - 1],
        }
    }
}

/// The members of the JSON object in `text`, in order, duplicates included. Validates the whole text.
pub fn members(text: &[u8]) -> Result<Vec<Member>, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let found = reader.deserialize_map(Members { start: text.as_ptr() as usize })?;
    reader.end()?;
    Ok(found)
}

/// True if `text` is one JSON value.
pub fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

/// The text as the JSON that its engine meant: U+FFFD in the place of bytes that are not UTF-8, such as half a character;
/// no byte order mark; `null` for the numbers that only Python writes; escapes for control characters in strings. `None` if
/// it has none of these.
pub fn repaired(text: &[u8]) -> Option<Vec<u8>> {
    let decoded = String::from_utf8_lossy(text);
    let plain = decoded.trim_start_matches('\u{feff}');
    if let Some(standard) = standard(plain.as_bytes()) {
        return Some(standard);
    }
    let is_changed = matches!(decoded, Cow::Owned(_)) || plain.len() < decoded.len();
    is_changed.then(|| plain.as_bytes().to_vec())
}

/// The text without what Python's writer adds to JSON, and lax writers forget. `None` if it has none of that.
fn standard(text: &[u8]) -> Option<Vec<u8>> {
    const NUMBERS: [&[u8]; 3] = [b"NaN", b"-Infinity", b"Infinity"];
    let may_change = text.iter().any(|byte| *byte < 0x20)
        || memmem::find(text, b"NaN").is_some()
        || memmem::find(text, b"Infinity").is_some();
    if !may_change {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() + 16);
    let (mut in_string, mut after_backslash, mut changed) = (false, false, false);
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let number = NUMBERS.iter().find(|number| !in_string && text[at..].starts_with(number));
        if let Some(number) = number {
            out.extend_from_slice(b"null");
            at += number.len();
            changed = true;
            continue;
        }
        match byte {
            0..=0x1f if in_string => {
                out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                changed = true;
            }
            byte => out.push(*byte),
        }
        in_string ^= *byte == b'"' && !after_backslash;
        after_backslash = in_string && *byte == b'\\' && !after_backslash;
        at += 1;
    }
    changed.then_some(out)
}

/// True if a raw value has content: it is not `null`, nor an empty string, list or object.
pub(super) fn says_something(raw: &RawValue) -> bool {
    !matches!(raw.get(), "null" | "\"\"" | "[]" | "{}")
}

/// The escaped text of a string; empty for other values.
pub(super) fn word(raw: Option<&RawValue>) -> &str {
    raw.and_then(|raw| raw.get().strip_prefix('"')?.strip_suffix('"')).unwrap_or_default()
}

struct Members {
    /// Address of the text's first byte, from which the positions of `serde_json`'s raw slices are computed.
    start: usize,
}

impl Members {
    fn range(&self, raw: &str) -> Range<usize> {
        let at = raw.as_ptr() as usize - self.start;
        at..at + raw.len()
    }
}

impl<'de> Visitor<'de> for Members {
    type Value = Vec<Member>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::with_capacity(16);
        while let Some(key) = map.next_key::<&'de RawValue>()? {
            if found.len() == MOST_MEMBERS {
                return Err(serde::de::Error::custom(format_args!("it has more than {MOST_MEMBERS} fields")));
            }
            let unescaped = if key.get().contains('\\') {
                Some(serde_json::from_str(key.get()).map_err(serde::de::Error::custom)?)
            } else {
                None
            };
            let value: &'de RawValue = map.next_value()?;
            found.push(Member { unescaped, key: self.range(key.get()), value: self.range(value.get()) });
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_some_readers_take_is_made_json() {
        for (text, want) in [
            (&b"\xef\xbb\xbf{}"[..], "{}"),
            (b"[NaN,-Infinity,Infinity,\"NaN\"]", "[null,null,null,\"NaN\"]"),
            (b"[\"a\tb\\\"\n\"\n]", "[\"a\\u0009b\\\"\\u000a\"\n]"),
            (b"[\"\xe4\xbd\"]", "[\"\u{fffd}\"]"),
        ] {
            let repaired = repaired(text).unwrap();
            assert_eq!(String::from_utf8(repaired.clone()).unwrap(), want);
            assert!(is_json(&repaired));
        }
        assert_eq!(repaired(b"{\n\"a\": 1}"), None);
    }

    #[test]
    fn members_are_located() {
        let text = br#" { "model" : "m\u00e9", "x":{"a":[1, 2]} , "mod\u0065l":null } "#;
        let found = members(text).unwrap();
        let shown: Vec<_> = found
            .iter()
            .map(|m| (std::str::from_utf8(m.name(text)).unwrap(), std::str::from_utf8(&text[m.value.clone()]).unwrap()))
            .collect();
        assert_eq!(shown, [("model", r#""m\u00e9""#), ("x", r#"{"a":[1, 2]}"#), ("model", "null")]);
        assert_eq!(&text[found[2].key.clone()], br#""mod\u0065l""#);
    }

    #[test]
    fn a_non_object_is_rejected_with_its_position() {
        for (text, want) in [
            ("{\n \"a\": tru }", "expected ident at line 2 column 10"),
            ("[1]", "invalid type: sequence, expected a JSON object at line 1 column 0"),
            ("{} x", "trailing characters at line 1 column 4"),
            ("", "EOF while parsing a value at line 1 column 0"),
        ] {
            assert_eq!(members(text.as_bytes()).unwrap_err().to_string(), want);
        }
        assert!(members(b"{\"a\": \"\xff\"}").is_err());
    }

    #[test]
    fn too_many_fields_are_rejected() {
        let with = |count| format!("{{{}}}", vec!["\"\":0"; count].join(","));
        assert_eq!(members(with(MOST_MEMBERS).as_bytes()).unwrap().len(), MOST_MEMBERS);
        let error = members(with(MOST_MEMBERS + 1).as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("it has more than 4096 fields"), "{error}");
    }

    #[test]
    fn depth_does_not_overflow_the_stack() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(members(deep.as_bytes()).unwrap().len(), 1);
    }
}
