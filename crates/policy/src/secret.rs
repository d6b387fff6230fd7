//! Secrets such as provider keys.

use std::sync::Arc;

use memchr::memmem;

/// A secret whose text never appears in logs, errors or debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Arc<str>);

impl Secret {
    /// True if `text` contains it, as error messages of some servers do.
    pub fn is_in(&self, text: &[u8]) -> bool {
        self.find(text).is_some()
    }

    /// `text` with every byte of any of `keys` replaced by an asterisk; `None` if it contains none.
    pub fn masked(keys: &[Self], text: &[u8]) -> Option<Vec<u8>> {
        let mut masked: Option<Vec<u8>> = None;
        for key in keys {
            while let Some(at) = key.find(masked.as_deref().unwrap_or(text)) {
                masked.get_or_insert_with(|| text.to_vec())[at..at + key.0.len()].fill(b'*');
            }
        }
        masked
    }

    /// Its text, for sending it to its server.
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
    fn every_key_is_masked_wherever_it_occurs() {
        let keys = ["sk-1", "sk-22", "***", ""].map(|key| Secret(key.into()));
        let masked = |text: &str| Secret::masked(&keys, text.as_bytes()).map(|text| String::from_utf8(text).unwrap());
        assert_eq!(masked("bad key sk-1, not sk-22; sk-1!").as_deref(), Some("bad key ****, not *****; ****!"));
        assert_eq!(masked("nothing of the kind: ***"), None);
        assert!(keys[0].is_in(b"sk-12") && !keys[1].is_in(b"sk-2") && !keys[3].is_in(b""));
        assert_eq!(format!("{:?}", keys[0]), "[secret]");
    }
}
