//! Responses that were made on a connection and are stored nowhere else: what `store: false` leaves to the connection.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;

use crate::body_memory::{BodyMemory, Share};
use signalbox_protocol::json::{elements, member};

/// The most responses that a connection remembers, the newest ones.
const MOST: usize = 16;

/// A response that a later turn may continue.
#[derive(Debug)]
pub(super) struct Past {
    /// Its id.
    pub(super) id: String,
    /// The items of its input and of its output as JSON, with commas between.
    pub(super) items: Bytes,
}

/// The newest responses of a connection.
pub(super) struct History {
    past: VecDeque<Past>,
    memory: Arc<BodyMemory>,
    /// The most bytes of this connection, and of all.
    most: usize,
    most_of_all: usize,
}

impl History {
    /// An empty history of at most `most` bytes. All that count towards `memory` may take `most_of_all` bytes.
    pub(super) fn new(memory: Arc<BodyMemory>, most: usize, most_of_all: usize) -> Self {
        Self { past: VecDeque::new(), memory, most, most_of_all }
    }

    /// The items of the response `id`, if it was made here.
    pub(super) fn items(&self, id: &str) -> Option<Bytes> {
        self.past.iter().find(|past| past.id == id).map(|past| past.items.clone())
    }

    /// Remembers a response. Without room the oldest are forgotten; what finds no room even so is not remembered, and a
    /// turn that continues it is told that the response is not found, upon which clients send everything again.
    pub(super) fn add(&mut self, Past { id, items }: Past) {
        let is_full = |past: &VecDeque<Past>| {
            past.len() >= MOST || past.iter().map(|past| past.items.len()).sum::<usize>() + items.len() > self.most
        };
        while is_full(&self.past) {
            if self.past.pop_front().is_none() {
                return;
            }
        }
        let mut share = Share::new(self.memory.clone());
        while share.grow(items.len(), self.most_of_all).is_err() {
            if self.past.pop_front().is_none() {
                return;
            }
        }
        self.past.push_back(Past { id, items: share.of(items) });
    }
}

/// The items of `earlier` and those of `more`, with commas between.
pub(super) fn joined(earlier: &[u8], more: &[u8]) -> Bytes {
    let comma: &[u8] = if earlier.is_empty() || more.is_empty() { b"" } else { b"," };
    [earlier, comma, more].concat().into()
}

/// The items of an input, with commas between: those of a list, or a message with a text.
pub(super) fn input_items(input: &[u8]) -> Bytes {
    match input.first() {
        Some(b'"') => [b"{\"role\":\"user\",\"content\":", input, b"}"].concat().into(),
        Some(b'[') => items(input, |_| true),
        _ => Bytes::new(),
    }
}

/// The items of an output that can be sent again, with commas between. Reasoning whose content was not given out is left
/// out: it is known by its id alone, and only to a provider that stored it.
pub(super) fn output_items(output: &[u8]) -> Bytes {
    items(output, |item| {
        let says = |name: &str| member(item, name).is_some_and(|value| !matches!(value, b"null" | b"\"\"" | b"[]"));
        member(item, "type") != Some(b"\"reasoning\"") || says("encrypted_content") || says("content")
    })
}

fn items(list: &[u8], is_kept: impl Fn(&[u8]) -> bool) -> Bytes {
    let kept: Vec<&[u8]> = elements(list).filter(|item| is_kept(item)).collect();
    kept.join(&b","[..]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_and_outputs_join_as_items() {
        assert_eq!(input_items(br#""Hi""#), r#"{"role":"user","content":"Hi"}"#);
        assert_eq!(input_items(b"[ {\"a\":1} , 2]"), "{\"a\":1},2");
        assert_eq!(input_items(b"null"), "");
        let output = br#"[{"type":"reasoning","id":"rs_1","summary":[]},{"type":"reasoning","encrypted_content":"x"},
            {"type":"reasoning","content":[{"text":"t"}]},{"type":"message"}]"#;
        let kept = r#"{"type":"reasoning","encrypted_content":"x"},{"type":"reasoning","content":[{"text":"t"}]},{"type":"message"}"#;
        assert_eq!(output_items(output), kept);
        assert_eq!(joined(b"1", b"2"), "1,2");
        assert_eq!((joined(b"", b"2"), joined(b"1", b"")), ("2".into(), "1".into()));
    }

    #[test]
    fn the_oldest_responses_are_forgotten() {
        let memory = Arc::new(BodyMemory::default());
        let mut history = History::new(memory.clone(), 64, 64);
        let add = |history: &mut History, id: &str, length: usize| {
            history.add(Past { id: id.to_owned(), items: vec![b'x'; length].into() });
        };
        add(&mut history, "a", 30);
        add(&mut history, "b", 30);
        add(&mut history, "c", 30);
        assert_eq!(["a", "b", "c"].map(|id| history.items(id).is_some()), [false, true, true]);
        add(&mut history, "too long", 100);
        assert!(history.items("too long").is_none());
        (0..20).for_each(|at| add(&mut history, &at.to_string(), 1));
        assert_eq!(history.past.len(), MOST);
    }
}
