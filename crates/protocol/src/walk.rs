//! Iterates over raw JSON values: elements of lists, members of objects, text of strings, without building any of them.
//!
//! For text that is known to be JSON. On other text it ends early and never panics.

use memchr::{memchr, memchr2};

/// The elements of a raw list; none if it is not a list.
pub fn elements(raw: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut walk = Walk::into(raw, b'[');
    std::iter::from_fn(move || walk.value())
}

/// The members of a raw object: names as written, and raw values; none if it is not an object.
pub(super) fn members(raw: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut walk = Walk::into(raw, b'{');
    std::iter::from_fn(move || {
        let name = string(walk.value()?)?;
        Some((name, walk.value()?))
    })
}

/// The member of a raw object with this name.
pub fn member<'a>(raw: &'a [u8], name: &str) -> Option<&'a [u8]> {
    members(raw).find(|(found, _)| *found == name.as_bytes()).map(|(_, value)| value)
}

/// The raw text between the quotes of a string, with its escapes.
pub fn string(raw: &[u8]) -> Option<&[u8]> {
    match raw {
        [b'"', inner @ .., b'"'] => Some(inner),
        _ => None,
    }
}

/// The inside of a raw value as it is hashed in a prompt: a list without its brackets, a string without its quotes.
pub(super) fn inside(raw: &[u8]) -> &[u8] {
    match raw {
        [b'[', inner @ .., b']'] => inner.trim_ascii(),
        [b'"', text @ .., b'"'] => text,
        _ => raw,
    }
}

/// True if a raw value is an empty list or object, or null.
pub(super) fn is_nothing(raw: &[u8]) -> bool {
    match raw {
        [b'[', inner @ .., b']'] | [b'{', inner @ .., b'}'] => inner.iter().all(u8::is_ascii_whitespace),
        _ => raw == b"null",
    }
}

/// The nesting depth of objects in a raw value.
pub(super) fn depth(raw: &[u8]) -> u32 {
    let (mut at, mut open, mut deepest) = (0, 0_u32, 0);
    while let Some(byte) = raw.get(at) {
        match byte {
            b'"' => {
                at = string_end(raw, at);
                continue;
            }
            b'{' => {
                open += 1;
                deepest = deepest.max(open);
            }
            b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    deepest
}

/// Appends the unescaped text of a string's raw inside. An invalid escape becomes U+FFFD.
pub fn unescape(mut raw: &[u8], out: &mut String) {
    loop {
        let plain = memchr(b'\\', raw).unwrap_or(raw.len());
        match std::str::from_utf8(&raw[..plain]) {
            Ok(text) => out.push_str(text),
            Err(_) => out.push_str(&String::from_utf8_lossy(&raw[..plain])),
        }
        let Some(kind) = raw.get(plain + 1) else { return };
        raw = &raw[plain + 2..];
        out.push(match kind {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'"' | b'\\' | b'/' => char::from(*kind),
            b'u' => unicode(&mut raw),
            _ => char::REPLACEMENT_CHARACTER,
        });
    }
}

/// The character of `\uXXXX`, of which `raw` begins after the `u`; also takes the second half of a surrogate pair.
fn unicode(raw: &mut &[u8]) -> char {
    let Some(first) = hex(raw) else { return char::REPLACEMENT_CHARACTER };
    *raw = &raw[4..];
    if (0xD800..0xDC00).contains(&first)
        && raw.starts_with(b"\\u")
        && let Some(second) = hex(&raw[2..])
        && (0xDC00..0xE000).contains(&second)
    {
        *raw = &raw[6..];
        return char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))
            .unwrap_or(char::REPLACEMENT_CHARACTER);
    }
    char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn hex(raw: &[u8]) -> Option<u32> {
    raw.get(..4)?.iter().try_fold(0, |value, byte| Some(value * 16 + char::from(*byte).to_digit(16)?))
}

/// The position after the closing quote of the string that begins at `at`.
pub(super) fn string_end(text: &[u8], at: usize) -> usize {
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

struct Walk<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    /// Enters a raw list or object; at the end at once if it does not begin with `opening`.
    fn into(raw: &'a [u8], opening: u8) -> Self {
        Self { text: raw, at: if raw.first() == Some(&opening) { 1 } else { raw.len() } }
    }

    /// The next value, past commas and colons; `None` at a closing bracket and at the end.
    fn value(&mut self) -> Option<&'a [u8]> {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r' | b',' | b':')) {
            self.at += 1;
        }
        let start = self.at;
        self.at = match self.text.get(start)? {
            b']' | b'}' => return None,
            b'"' => string_end(self.text, start),
            b'[' | b'{' => self.closing(start),
            _ => {
                let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b']' | b'}' | b':');
                let rest = &self.text[start..];
                start + rest.iter().position(ends).unwrap_or(rest.len()).max(1)
            }
        };
        self.text.get(start..self.at)
    }

    /// The position after the bracket that closes the one at `start`.
    fn closing(&self, start: usize) -> usize {
        let (mut at, mut open) = (start, 0_usize);
        while let Some(byte) = self.text.get(at) {
            match byte {
                b'"' => {
                    at = string_end(self.text, at);
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
        self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_and_objects_are_walked() {
        let raw = br#"[ 1 ,{"a": [1, "]"], "b":"x\"}" }, "y" , null,[]]"#;
        let found: Vec<_> = elements(raw).map(|value| std::str::from_utf8(value).unwrap()).collect();
        assert_eq!(found, ["1", r#"{"a": [1, "]"], "b":"x\"}" }"#, "\"y\"", "null", "[]"]);
        assert_eq!(member(found[1].as_bytes(), "b"), Some(&br#""x\"}""#[..]));
        assert_eq!(elements(b"{}").count() + members(b"[1]").count(), 0);
        assert_eq!((depth(raw), depth(br#"{"a":{"b":[{}]},"c":"{{{{"}"#), depth(b"1")), (1, 3, 0));
        assert!(is_nothing(b"[ ]") && is_nothing(b"null") && !is_nothing(b"[0]"));
    }

    fn unescaped(raw: &str) -> String {
        let mut out = String::new();
        unescape(raw.as_bytes(), &mut out);
        out
    }

    #[test]
    fn broken_escapes_become_replacement_characters() {
        assert_eq!(unescaped(r"a\u00e9\ud83d\ude00\n"), "aé😀\n");
        assert_eq!(unescaped(r"\ud83d\u0041\q\u12"), "\u{fffd}A\u{fffd}\u{fffd}12");
        assert_eq!(unescaped("a\\"), "a");
    }

    proptest! {
        #[test]
        fn strings_come_out_as_serde_reads_them(text in any::<String>()) {
            let raw = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(unescaped(&raw[1..raw.len() - 1]), text);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(prop::sample::select(&b"{}[]\",:\\u0a \xff"[..]), 0..60)) {
            for value in elements(&bytes).chain(members(&bytes).map(|(_, value)| value)) {
                prop_assert!(!value.is_empty());
            }
            depth(&bytes);
            unescape(&bytes, &mut String::new());
        }
    }
}
