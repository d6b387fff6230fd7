//! A text with some of its ranges replaced and every other byte unchanged.

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;

/// `text` with each range replaced. If ranges overlap, the one that begins first takes the shared bytes.
pub(super) fn splice(text: &Bytes, mut changes: Vec<(Range<usize>, Cow<'_, [u8]>)>) -> Bytes {
    if changes.is_empty() {
        return text.clone();
    }
    changes.sort_by_key(|(range, _)| range.start);
    let added: usize = changes.iter().map(|(_, new)| new.len()).sum();
    let mut out = Vec::with_capacity(text.len() + added);
    let mut at = 0;
    for (range, new) in changes {
        if range.start >= at {
            out.extend_from_slice(&text[at..range.start]);
        }
        out.extend_from_slice(&new);
        at = at.max(range.end);
    }
    out.extend_from_slice(&text[at..]);
    out.into()
}
