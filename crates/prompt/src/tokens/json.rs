//! Visits JSON piece by piece: calls back for members, elements and texts, and keeps nothing.

use std::{fmt, ops::ControlFlow};

use serde::{
    Deserializer as _,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// Continue or stop.
pub(super) type Flow = ControlFlow<()>;

/// Calls `f` with each member of the object `raw`: its unescaped name and its raw value. Stops early if `f` breaks. A
/// value that is not an object has no members, and invalid JSON ends at the error.
pub(super) fn members<'a>(raw: &'a str, f: &mut dyn FnMut(&str, &'a str) -> Flow) -> Flow {
    let mut visit = Visit { each: f, flow: Flow::Continue(()) };
    // An error is either our own stop, or invalid JSON.
    let _ = serde_json::Deserializer::from_str(raw).deserialize_map(&mut visit);
    visit.flow
}

/// Calls `f` with each element of the list `raw`, as [`members`] does for objects.
pub(super) fn elements<'a>(raw: &'a str, f: &mut dyn FnMut(&'a str) -> Flow) -> Flow {
    let mut each = |_: &str, value| f(value);
    let mut visit = Visit { each: &mut each, flow: Flow::Continue(()) };
    let _ = serde_json::Deserializer::from_str(raw).deserialize_seq(&mut visit);
    visit.flow
}

/// Calls `f` with the unescaped text of the JSON string `raw`. Lone surrogates become replacement characters.
pub(super) fn text<T: Default>(raw: &str, f: impl FnOnce(&str) -> T) -> T {
    match raw.as_bytes() {
        [b'"', inner @ .., b'"'] if memchr::memchr(b'\\', inner).is_none() => f(&raw[1..raw.len() - 1]),
        // Read as bytes, because lone surrogates are rejected in text.
        [b'"', ..] => serde_json::Deserializer::from_str(raw).deserialize_bytes(Text(f)).unwrap_or_default(),
        _ => T::default(),
    }
}

struct Visit<'f, 'a> {
    each: &'f mut dyn FnMut(&str, &'a str) -> Flow,
    flow: Flow,
}

impl<'a> Visitor<'a> for &mut Visit<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry::<&'a RawValue, &'a RawValue>()? {
            self.flow = text(key.get(), |key| Some((self.each)(key, value.get()))).unwrap_or(Flow::Continue(()));
            if self.flow.is_break() {
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(value) = list.next_element::<&'a RawValue>()? {
            self.flow = (self.each)("", value.get());
            if self.flow.is_break() {
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

struct Text<F>(F);

impl<T, F: FnOnce(&str) -> T> Visitor<'_> for Text<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<T, E> {
        Ok((self.0)(&String::from_utf8_lossy(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_visited_until_the_callback_breaks() {
        let mut seen = Vec::new();
        let flow = members(r#" {"a" : [1, 2] , "\u0062":"x\n", "c":{}}"#, &mut |name, raw| {
            seen.push((name.to_owned(), raw));
            if name == "b" { Flow::Break(()) } else { Flow::Continue(()) }
        });
        assert!(flow.is_break());
        assert_eq!(seen, [("a".to_owned(), "[1, 2]"), ("b".to_owned(), r#""x\n""#)]);
    }

    #[test]
    fn texts_are_unescaped_whatever_is_in_them() {
        let read = |raw| text(raw, |text| Some(text.to_owned()));
        assert_eq!(read(r#""plain""#).as_deref(), Some("plain"));
        assert_eq!(read(r#""a\n\u00e9\ud83d\ude00""#).as_deref(), Some("a\né😀"));
        let lone = read(r#""\ud83d!""#).unwrap();
        assert!(lone.contains('\u{fffd}') && lone.ends_with('!'), "{lone}");
        assert_eq!(read("12"), None);
        assert_eq!(read(r#"""#), None);
    }

    #[test]
    fn invalid_json_and_other_kinds_end_without_an_error() {
        let count = |raw| {
            let mut count = 0;
            let mut each = |_| {
                count += 1;
                Flow::Continue(())
            };
            assert!(elements(raw, &mut each).is_continue());
            count
        };
        assert_eq!([count("[1, 2"), count("{}"), count("nul"), count(""), count("[[[1]]]")], [2, 0, 0, 0, 1]);
        let deep = format!("[{}{}]", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(count(&deep), 1);
    }
}
