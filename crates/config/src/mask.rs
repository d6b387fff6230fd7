//! Masks secrets in the text for display; all positions stay the same.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::Spanned;

use super::{
    mask_text::{cover_named, cover_text, cover_value, is_secret, is_secret_within},
    mistake::At,
    yaml::{MAX_NODES, options_within},
};

/// `text` with provider keys, callers' plaintext keys and credentials in addresses masked, however short they are.
/// Works on the bare YAML rather than the document, because it is needed most when the document cannot be parsed.
pub(super) fn masked(text: &str) -> String {
    masked_within(text, MAX_NODES)
}

/// The same for a text of at most `nodes` values, lists and mappings.
pub(super) fn masked_within(text: &str, nodes: usize) -> String {
    let mut bytes = text.as_bytes().to_vec();
    match serde_saphyr::from_str_with_options::<Placed>(text, options_within(nodes)) {
        Ok(placed) => cover(&placed, false, &mut bytes),
        Err(_) => cover_text(&mut bytes),
    }
    // Whole characters were masked; if a position was wrong, an empty text is safer than a secret.
    String::from_utf8(bytes).unwrap_or_default()
}

/// `message` without the parts of `text` that `shown` hides: parsers quote what they cannot read.
pub(super) fn discreet(message: &str, text: &str, shown: &str) -> String {
    let hidden = text.bytes().zip(shown.bytes()).map(|(byte, shown)| if byte == shown { b' ' } else { byte });
    let hidden = String::from_utf8(hidden.collect()).unwrap_or_default();
    let mut words: Vec<_> = hidden.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2).collect();
    words.sort_unstable_by_key(|word| std::cmp::Reverse(word.len()));
    words.iter().fold(message.to_owned(), |message, word| message.replace(word, "***"))
}

/// Any YAML.
enum Loose {
    Scalar(String),
    List(Vec<Placed>),
    Map(Vec<(Spanned<String>, Placed)>),
}

/// A value, the place where it is used, and the place where it is written (different for an alias).
struct Placed {
    value: Loose,
    at: [At; 2],
}

impl<'de> Deserialize<'de> for Placed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Loose>::deserialize(deserializer)?;
        let at = [spanned.referenced, spanned.defined].map(|place| At::of(&place));
        Ok(Self { value: spanned.value, at })
    }
}

/// The start of the tags and anchors before a value: a secret may begin like one.
fn with_tags(bytes: &[u8], start: usize) -> usize {
    let before = bytes.get(..start).unwrap_or_default().trim_ascii_end();
    let word = before
        .iter()
        .rposition(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b',' | b'[' | b'{'))
        .map_or(0, |at| at + 1);
    match before.get(word) {
        Some(b'!' | b'&') => with_tags(bytes, word),
        _ => start,
    }
}

fn cover_scalar(text: &str, at: At, secret: bool, bytes: &mut [u8]) {
    let typed = secret && !text.starts_with("blake3:") || text.contains("://") && text.contains('@');
    let start = if typed { with_tags(bytes, at.start) } else { at.start };
    let Some(range) = bytes.get_mut(start..at.start.saturating_add(at.len)) else { return };
    if typed {
        cover_value(range);
    } else if text.contains([':', '=', ' ']) {
        // A colon without a space makes one scalar of a name and its value.
        cover_named(range);
    }
}

/// Masks the secrets in `placed`; `secret` says that a secret is expected at this place.
fn cover(placed: &Placed, secret: bool, bytes: &mut [u8]) {
    match &placed.value {
        Loose::Scalar(text) => placed.at.into_iter().for_each(|at| cover_scalar(text, at, secret, bytes)),
        Loose::List(values) => values.iter().for_each(|value| cover(value, secret, bytes)),
        Loose::Map(entries) => entries.iter().for_each(|(name, value)| cover_entry(name, value, secret, bytes)),
    }
}

/// Masks the secrets in an entry of a mapping, and its name where a secret stands in its place.
fn cover_entry(name: &Spanned<String>, value: &Placed, secret: bool, bytes: &mut [u8]) {
    let key = &*name.value;
    let at = At::of(&name.referenced);
    let odd = secret && is_secret_within(key) && !is_secret(key);
    if let Some(range) = bytes.get_mut(at.start..at.start.saturating_add(at.len)).filter(|_| odd) {
        cover_value(range);
    }
    match &value.value {
        Loose::Map(headers) if key == "headers" => {
            for (_, value) in headers {
                cover(value, true, bytes);
            }
        }
        Loose::Map(accounts) if key == "accounts" => {
            for (_, account) in accounts {
                cover(account, !matches!(account.value, Loose::Map(_)), bytes);
            }
        }
        _ => cover(value, if secret { is_secret_within(key) } else { is_secret(key) }, bytes),
    }
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LooseVisitor;

        impl<'de> Visitor<'de> for LooseVisitor {
            type Value = Loose;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Loose, E> {
                Ok(Loose::Scalar(value.to_string()))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Loose, E> {
                Ok(Loose::Scalar(value.to_string()))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Loose, E> {
                Ok(Loose::Scalar(value.to_string()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Loose, E> {
                Ok(Loose::Scalar(value.to_string()))
            }

            fn visit_unit<E: Error>(self) -> Result<Loose, E> {
                Ok(Loose::Scalar(String::new()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Loose, E> {
                Ok(Loose::Scalar(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Loose, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = list.next_element()? {
                    values.push(value);
                }
                Ok(Loose::List(values))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Loose, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Loose::Map(entries))
            }
        }

        deserializer.deserialize_any(LooseVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::{discreet, masked};

    #[test]
    fn typed_secrets_are_covered() {
        for (text, shown) in [
            ("a: { key: \"sk-é\" }", "a: { key: ******* }"),
            ("keys: [sk-1, { file: f }, \"${K}\"]", "keys: [****, { file: f }, \"${K}\"]"),
            ("keys:\n  - { id: a, hash: plain }", "keys:\n  - { id: a, hash: ***** }"),
            ("hash: blake3:00", "hash: blake3:00"),
            ("b: [http://u:p@h/v1, http://h/v1]", "b: [***************, http://h/v1]"),
            ("key: 12345", "key: *****"),
            ("key: { file: f }", "key: { file: f }"),
            ("unknwon: { key: x }", "unknwon: { key: * }"),
            ("key: [sk-0123456789abcdefghij", "key: ************************"),
            ("engines: { e: { api_key: s, token: t1, kye: u } }", "engines: { e: { api_key: *, token: **, kye: * } }"),
            (
                "accounts: { a: s1, b: [s2], c: { limits: { rpm: 5 } } }",
                "accounts: { a: **, b: [**], c: { limits: { rpm: 5 } } }",
            ),
            ("keys: { web: s1, id: b }", "keys: { ***: **, id: b }"),
            ("key: |\n  s1\nlisten: 1", "key: |\n  **\nlisten: 1"),
            ("a: &x s1\nkey: *x", "a: *****\nkey: **"),
            ("key: !s1 x", "key: *****"),
            ("key: {s1}", "key: {**}"),
            ("url: redis://:pw@h/${DB}", "url: **************${DB}"),
            ("keys: [\"${K:-s1}\"]", "keys: [*${K:-**}*]"),
            ("engine: key:s1", "engine: key:**"),
            ("key: 's1\n  s2'", "key: ***\n*****"),
            ("", ""),
        ] {
            assert_eq!(masked(text), shown);
        }
    }
    #[test]
    fn secrets_quoted_by_a_parser_are_covered() {
        let text = "key: *abc1\nurl: http://h\n]";
        assert_eq!(discreet("unknown anchor 'abc1' at http", text, &masked(text)), "unknown anchor '***' at http");
    }
}
