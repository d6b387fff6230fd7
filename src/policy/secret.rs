//! Provider keys, which are nobody's business.

use std::sync::Arc;

use memchr::memmem;

/// A provider key: its text never appears in logs, errors or dumps.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Arc<str>);

impl Secret {
    /// Whether `text` holds it, as what some servers say of a key that they refuse does.
    pub fn is_in(&self, text: &[u8]) -> bool {
        self.find(text).is_some()
    }

    /// `text` with an asterisk for every byte of any of `keys`; `None` where it holds none.
    pub fn masked(keys: &[Self], text: &[u8]) -> Option<Vec<u8>> {
        let mut masked: Option<Vec<u8>> = None;
        for key in keys {
            while let Some(at) = key.find(masked.as_deref().unwrap_or(text)) {
                masked.get_or_insert_with(|| text.to_vec())[at..at + key.0.len()].fill(b'*');
            }
        }
        masked
    }

    /// Its text, for whom it is meant for.
    pub fn expose(&self) -> &str {
        &self.0
    }

    fn find(&self, text: &[u8]) -> Option<usize> {
        let is_maskable = self.0.bytes().any(|byte| byte != b'*');
        if is_maskable { memmem::find(text, self.0.as_bytes()) } else { None }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_masked_wherever_it_is_quoted() {
        let keys = ["sk-1", "sk-22", "***", ""].map(|key| Secret(key.into()));
        let masked = |text: &str| Secret::masked(&keys, text.as_bytes()).map(|text| String::from_utf8(text).unwrap());
        assert_eq!(masked("bad key sk-1, not sk-22; sk-1!").as_deref(), Some("bad key ****, not *****; ****!"));
        assert_eq!(masked("nothing of the kind: ***"), None);
        assert!(keys[0].is_in(b"sk-12") && !keys[1].is_in(b"sk-2") && !keys[3].is_in(b""));
        assert_eq!(format!("{:?}", keys[0]), "[secret]");
    }
}
