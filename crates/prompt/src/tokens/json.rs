//! Reads JSON in one pass: a cursor that calls back for members and elements, and keeps nothing.
//!
//! Strings are passed over at the speed of a search for their closing quote, so that megabytes of base64 cost little.
//! For text that is known to be JSON; on other text it ends early and never panics.

use std::{borrow::Cow, fmt, ops::ControlFlow};

use memchr::memchr2;
use serde::{Deserializer as _, de::Visitor};

/// Continue or stop.
pub(super) type Flow = ControlFlow<()>;

/// A position in a text of JSON, before a value.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The first byte of the value; `None` at the end.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.text.as_bytes().get(self.at).copied()
    }

    /// Calls `f` at the value of each member, with the unescaped name. What `f` does not read is passed over. Stops
    /// early if `f` breaks. A value that is not an object has no members.
    pub(super) fn members(&mut self, f: &mut dyn FnMut(&mut Self, &str) -> Flow) -> Flow {
        self.inside(b'{', &mut |cursor| {
            let name = unquoted(cursor.value());
            if cursor.peek() != Some(b':') {
                cursor.at = cursor.text.len();
                return Flow::Continue(());
            }
            cursor.at += 1;
            cursor.each(&mut |cursor| f(cursor, &name))
        })
    }

    /// Calls `f` at each element of a list, as [`members`](Self::members) does for objects.
    pub(super) fn elements(&mut self, f: &mut dyn FnMut(&mut Self) -> Flow) -> Flow {
        self.inside(b'[', &mut |cursor| cursor.each(f))
    }

    /// Calls `f` before each value between the brackets of a list or an object. Passes over any other value.
    fn inside(&mut self, opening: u8, f: &mut dyn FnMut(&mut Self) -> Flow) -> Flow {
        if self.peek() != Some(opening) {
            self.value();
            return Flow::Continue(());
        }
        self.at += 1;
        loop {
            match self.peek() {
                None => return Flow::Continue(()),
                Some(b']' | b'}') => {
                    self.at += 1;
                    return Flow::Continue(());
                }
                Some(b',') => self.at += 1,
                Some(_) => f(self)?,
            }
        }
    }

    fn each(&mut self, f: &mut dyn FnMut(&mut Self) -> Flow) -> Flow {
        self.peek();
        let start = self.at;
        f(self)?;
        if self.at == start {
            self.value();
        }
        Flow::Continue(())
    }

    /// Passes over the value and returns its raw text.
    pub(super) fn value(&mut self) -> &'a str {
        let first = self.peek();
        let (start, bytes) = (self.at, self.text.as_bytes());
        self.at = match first {
            None => return "",
            Some(b'"') => string_end(bytes, start),
            Some(b'[' | b'{') => closing(bytes, start),
            Some(_) => {
                let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b']' | b'}' | b':');
                let rest = &bytes[start..];
                start + rest.iter().position(ends).unwrap_or(rest.len()).max(1)
            }
        };
        // On text that is not JSON a character may have been cut.
        self.at = self.text.ceil_char_boundary(self.at);
        self.text.get(start..self.at).unwrap_or_default()
    }
}

/// The position after the closing quote of the string that begins at `at`.
fn string_end(text: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(rest) = text.get(at..) {
        match memchr2(b'"', b'\\', rest) {
            None => break,
            Some(found) if rest[found] == b'"' => return at + found + 1,
            Some(found) => at += found + 2,
        }
    }
    text.len()
}

/// The position after the bracket that closes the one at `start`.
fn closing(text: &[u8], start: usize) -> usize {
    let (mut at, mut open) = (start, 0_usize);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at = string_end(text, at);
                continue;
            }
            b'[' | b'{' => open += 1,
            b']' | b'}' => open -= 1,
            _ => {}
        }
        at += 1;
        if open == 0 {
            return at;
        }
    }
    text.len()
}

/// Calls `f` with each member of the object `raw`: its unescaped name and its raw value.
pub(super) fn members<'a>(raw: &'a str, f: &mut dyn FnMut(&str, &'a str) -> Flow) -> Flow {
    Cursor::new(raw).members(&mut |cursor, name| f(name, cursor.value()))
}

/// Calls `f` with each element of the list `raw`.
pub(super) fn elements<'a>(raw: &'a str, f: &mut dyn FnMut(&'a str) -> Flow) -> Flow {
    Cursor::new(raw).elements(&mut |cursor| f(cursor.value()))
}

/// The raw text between the quotes of the string `raw`; empty for any other value.
pub(super) fn inside(raw: &str) -> &str {
    raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default()
}

/// The unescaped text of the string `raw`; empty for any other value. Lone surrogates become replacement characters.
pub(super) fn unquoted(raw: &str) -> Cow<'_, str> {
    let inner = inside(raw);
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Cow::Borrowed(inner);
    }
    // Read as bytes, because lone surrogates are rejected in text.
    serde_json::Deserializer::from_str(raw).deserialize_bytes(Lossy).unwrap_or_default()
}

/// Calls `f` with the unescaped text of the JSON string `raw`.
pub(super) fn text<T: Default>(raw: &str, f: impl FnOnce(&str) -> T) -> T {
    if raw.len() < 2 || !raw.starts_with('"') { T::default() } else { f(&unquoted(raw)) }
}

struct Lossy;

impl<'de> Visitor<'de> for Lossy {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(Cow::Owned(String::from_utf8_lossy(bytes).into_owned()))
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
    fn what_a_callback_leaves_unread_is_passed_over() {
        let mut seen = Vec::new();
        let flow = Cursor::new(r#"{"a":{"x":[1,{"y":"]"}]},"b":[[2],"}"],"c":3}"#).members(&mut |cursor, name| {
            seen.push(name.to_owned());
            if name == "a" {
                return cursor.members(&mut |_, name| {
                    seen.push(name.to_owned());
                    Flow::Continue(())
                });
            }
            Flow::Continue(())
        });
        assert!(flow.is_continue());
        assert_eq!(seen, ["a", "x", "b", "c"]);
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
        assert_eq!(count("[\"\\é"), 1);
    }
}
