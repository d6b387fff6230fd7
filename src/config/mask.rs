//! The text as it may be shown: secrets that were typed into it are overwritten, and every place stays where it is.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

use super::{mistake::At, shape::Located, yaml::options};

/// A run of letters and digits this long may be a key, where the text is too broken to tell.
const SUSPICIOUS: usize = 20;

/// `text` with provider keys, plaintext keys of callers and credentials in addresses overwritten. This looks at the bare
/// YAML, not at the document, because it is wanted most where there is no document.
pub(super) fn masked(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    match serde_saphyr::from_str_with_options::<Located<Loose>>(text, options()) {
        Ok(loose) => cover(&loose, false, &mut bytes),
        Err(_) => cover_suspicious(&mut bytes),
    }
    // Whole characters were overwritten; if a place was off, showing nothing beats showing a secret.
    String::from_utf8(bytes).unwrap_or_default()
}

/// Any YAML.
enum Loose {
    Scalar(String),
    List(Vec<Located<Loose>>),
    Map(Vec<(String, Located<Loose>)>),
}

fn cover(loose: &Located<Loose>, secret: bool, bytes: &mut [u8]) {
    match &loose.value {
        Loose::Scalar(text) => {
            let typed = secret && !text.starts_with("blake3:") || text.contains("://") && text.contains('@');
            // A variable's name is no secret, and worth seeing.
            if typed && !text.contains("${") {
                fill(loose.at, bytes);
            }
        }
        Loose::List(values) => values.iter().for_each(|value| cover(value, secret, bytes)),
        Loose::Map(entries) => {
            for (key, value) in entries {
                match &value.value {
                    Loose::Map(headers) if key == "headers" => {
                        for (_, value) in headers {
                            cover(value, true, bytes);
                        }
                    }
                    _ => cover(value, matches!(&**key, "key" | "keys" | "hash"), bytes),
                }
            }
        }
    }
}

fn fill(at: At, bytes: &mut [u8]) {
    if let Some(range) = bytes.get_mut(at.start..at.start.saturating_add(at.len)) {
        range.iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b'*');
    }
}

fn cover_suspicious(bytes: &mut [u8]) {
    for run in bytes.chunk_by_mut(|a, b| part_of_key(*a) && part_of_key(*b)) {
        if run.len() >= SUSPICIOUS {
            run.fill(b'*');
        }
    }
}

fn part_of_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
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
    use super::masked;

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
            ("key: [sk-0123456789abcdefghij", "key: [***********************"),
            ("", ""),
        ] {
            assert_eq!(masked(text), shown);
        }
    }
}
