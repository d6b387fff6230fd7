//! Removes the thinking of chat backends from a conversation that moves to Anthropic, which rejects signatures that are not
//! its own.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::effort::SIGNATURE_PREFIX;
use crate::json::{read, word};

/// Begins every signature that a translated answer carries.
const MARK: &[u8] = b"\"chat.reasoning";

#[derive(Deserialize)]
struct Conversation<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    signature: Option<&'a RawValue>,
}

/// A request of `/v1/messages` without the thinking blocks that this translator signed, and without messages that have no
/// other block. `None` if it has no such block. All other bytes stay as they are.
#[must_use]
pub fn without_own_thinking(body: &[u8]) -> Option<Vec<u8>> {
    memchr::memmem::find(body, MARK)?;
    let Conversation { messages } = serde_json::from_slice(body).ok()?;
    let mut cuts = Vec::new();
    let mut emptied = Vec::with_capacity(messages.len());
    for message in &messages {
        let blocks = marked_blocks(message);
        let own: Vec<bool> = blocks.iter().map(|block| is_own(block)).collect();
        emptied.push(!own.is_empty() && own.iter().all(|own| *own));
        if emptied.last() == Some(&false) {
            cut(body, &blocks, &own, &mut cuts);
        }
    }
    cut(body, &messages, &emptied, &mut cuts);
    if cuts.is_empty() {
        return None;
    }
    cuts.sort_unstable_by_key(|cut| cut.start);
    let mut out = Vec::with_capacity(body.len());
    let mut at = 0;
    for cut in cuts {
        out.extend_from_slice(&body[at..cut.start]);
        at = cut.end;
    }
    out.extend_from_slice(&body[at..]);
    Some(out)
}

/// The blocks of a message in which the mark occurs.
fn marked_blocks<'a>(message: &'a RawValue) -> Vec<&'a RawValue> {
    if memchr::memmem::find(message.get().as_bytes(), MARK).is_none() {
        return Vec::new();
    }
    read::<Message<'a>>(message).map(|message| message.content).unwrap_or_default()
}

fn is_own(block: &RawValue) -> bool {
    read::<Block<'_>>(block)
        .is_ok_and(|block| word(block.r#type) == "thinking" && word(block.signature).starts_with(SIGNATURE_PREFIX))
}

/// Adds the ranges of the `dropped` items of a list, each with a comma.
fn cut(body: &[u8], items: &[&RawValue], dropped: &[bool], cuts: &mut Vec<Range<usize>>) {
    let range = |item: &RawValue| {
        let start = item.get().as_ptr() as usize - body.as_ptr() as usize;
        start..start + item.get().len()
    };
    let first_kept = dropped.iter().position(|dropped| !dropped).unwrap_or(items.len());
    for (at, item) in items.iter().enumerate().filter(|(at, _)| dropped[*at]) {
        let Range { start, end } = range(item);
        cuts.push(match items.get(at + 1) {
            Some(next) if at < first_kept => start..range(next).start,
            None if at < first_kept => start..end,
            _ => range(items[at - 1]).end..end,
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const OWN: &str = r#"{"type":"thinking","thinking":"a","signature": "chat.reasoning_content"}"#;
    const FOREIGN: &str = r#"{"type":"thinking","thinking":"a","signature":"EqoB"}"#;
    const TEXT: &str = r#"{"type":"text","text":"say \"chat.reasoning\""}"#;

    fn stripped(contents: &[&[&str]]) -> Option<String> {
        let messages: Vec<String> = contents
            .iter()
            .map(|blocks| format!(r#"{{"role":"assistant", "content": [{}]}}"#, blocks.join(" , ")))
            .collect();
        let body = format!(r#"{{"model":"m", "messages": [ {} ],"x":1e400}}"#, messages.join(" ,\n"));
        without_own_thinking(body.as_bytes()).map(|body| String::from_utf8(body).unwrap())
    }

    #[test]
    fn a_request_without_own_thinking_is_not_touched() {
        assert_eq!(stripped(&[&[FOREIGN, TEXT], &[]]), None);
        for body in ["", "\"chat.reasoning", r#"{"messages":"chat.reasoning"}"#, r#"{"messages":["chat.reasoning"]}"#] {
            assert_eq!(without_own_thinking(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn only_own_blocks_are_removed() {
        assert_eq!(
            stripped(&[&[OWN, FOREIGN, OWN, OWN, TEXT, OWN]]).unwrap(),
            format!(
                r#"{{"model":"m", "messages": [ {{"role":"assistant", "content": [{FOREIGN} , {TEXT}]}} ],"x":1e400}}"#
            )
        );
    }

    #[test]
    fn every_position_leaves_valid_json() {
        let blocks = [&[][..], &[OWN], &[TEXT], &[OWN, TEXT], &[TEXT, OWN], &[OWN, OWN]];
        for (a, b, c) in (0..216).map(|n| (blocks[n / 36], blocks[n / 6 % 6], blocks[n % 6])) {
            let all = [a, b, c];
            let Some(body) = stripped(&all) else {
                assert!(!all.concat().contains(&OWN));
                continue;
            };
            let body: Value = serde_json::from_str(&body.replace("1e400", "1")).unwrap();
            let text: Value = serde_json::from_str(TEXT).unwrap();
            let want: Vec<Value> = all
                .iter()
                .filter(|blocks| blocks.is_empty() || blocks.contains(&TEXT))
                .map(|blocks| {
                    json!({"role": "assistant", "content": vec![text.clone(); usize::from(!blocks.is_empty())]})
                })
                .collect();
            assert_eq!(body["messages"], json!(want));
        }
    }
}
