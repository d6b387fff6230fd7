//! Items: JSON texts, kept once for each owner and counted by use.

use std::{collections::HashMap, sync::Arc};

/// Size of a text without its bytes: its entry in the table.
const TEXT: usize = 96;

/// Identity of a text within its owner's space.
pub(super) type Digest = [u8; 16];

/// An item of a response or a conversation: JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub(super) digest: Digest,
    text: Arc<str>,
}

impl Item {
    /// An item with this JSON text. Hashes it, at about a microsecond per kilobyte.
    pub fn new(text: &str) -> Self {
        let mut digest = Digest::default();
        digest.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
        Self { digest, text: text.into() }
    }

    /// Its JSON text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The texts of one owner, each with the number of its uses.
#[derive(Debug, Default)]
pub(super) struct Texts {
    texts: HashMap<Digest, (Arc<str>, u32)>,
}

impl Texts {
    /// Adds a use of `item`. Returns the bytes that this takes: none if the text is there already.
    pub(super) fn add(&mut self, item: &Item) -> usize {
        let (text, uses) = self.texts.entry(item.digest).or_insert_with(|| (item.text.clone(), 0));
        *uses += 1;
        if *uses == 1 { text.len() + TEXT } else { 0 }
    }

    /// Removes a use. Returns the bytes that this frees.
    pub(super) fn remove(&mut self, digest: &Digest) -> usize {
        let Some((text, uses)) = self.texts.get_mut(digest) else { return 0 };
        *uses -= 1;
        if *uses > 0 {
            return 0;
        }
        let freed = text.len() + TEXT;
        self.texts.remove(digest);
        freed
    }

    pub(super) fn get(&self, digest: &Digest) -> Option<Item> {
        self.texts.get(digest).map(|(text, _)| Item { digest: *digest, text: text.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_and_freed_with_its_last_use() {
        let (mut texts, item) = (Texts::default(), Item::new("{}"));
        assert_eq!((texts.add(&item), texts.add(&Item::new("{}"))), (2 + TEXT, 0));
        assert_eq!((texts.remove(&item.digest), texts.get(&item.digest)), (0, Some(item.clone())));
        assert_eq!((texts.remove(&item.digest), texts.remove(&item.digest)), (2 + TEXT, 0));
        assert!(texts.texts.is_empty() && texts.get(&item.digest).is_none());
    }
}
