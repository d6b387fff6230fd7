//! Thinking that an upstream of Anthropic's API signed, and wants back in later turns. Reasoning items carry its blocks as
//! JSON in `encrypted_content`; chat messages in the member `thinking_blocks`, which chat backends do not get.

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

/// The prefix of `encrypted_content` that holds a list of blocks.
pub(super) const PREFIX: &str = "messages:";

/// The beginning of the member of a chat message. Within a string, its quotes would be escaped.
pub(super) const MEMBER: &str = r#","thinking_blocks":["#;

/// A block of thinking.
pub(super) type Block = Map<String, Value>;

/// The blocks in escaped `encrypted_content`, if it holds any.
pub(super) fn blocks(escaped: &str) -> Option<Vec<Block>> {
    let list = escaped.strip_prefix(PREFIX)?;
    let text: String = serde_json::from_str(&["\"", list, "\""].concat()).ok()?;
    serde_json::from_str(&text).ok()
}

/// True if a chat request that was made of a Responses request has signed thinking.
pub(crate) fn has_signed_thinking(body: &[u8]) -> bool {
    memchr::memmem::find(body, MEMBER.as_bytes()).is_some()
}

/// Such a request without the signed thinking. `None` if it has none. All other bytes stay as they are.
#[must_use]
pub fn without_signed_thinking(body: &[u8]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Conversation<'a> {
        #[serde(borrow)]
        messages: Vec<&'a RawValue>,
    }
    let Conversation { messages } = serde_json::from_slice(body).ok()?;
    let mut out = Vec::with_capacity(body.len());
    let mut at = 0;
    for message in messages {
        let Some(start) = message.get().find(MEMBER) else { continue };
        let list = &message.get()[start + MEMBER.len() - 1..];
        let mut values = serde_json::Deserializer::from_str(list).into_iter::<&RawValue>();
        let Some(Ok(list)) = values.next() else { continue };
        let cut = message.get().as_ptr() as usize - body.as_ptr() as usize + start;
        out.extend_from_slice(&body[at..cut]);
        at = cut + MEMBER.len() - 1 + list.get().len();
    }
    if at == 0 {
        return None;
    }
    out.extend_from_slice(&body[at..]);
    Some(out)
}
