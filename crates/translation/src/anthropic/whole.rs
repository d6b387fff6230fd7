//! Translates a whole answer.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Malformed,
    block::{self, Block},
    error, raw, usage,
};
use crate::json::{self, Str};
use signalbox_protocol::UsageReport;

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    stop_reason: Option<Str<'a>>,
    #[serde(borrow)]
    stop_sequence: Option<&'a RawValue>,
    #[serde(borrow)]
    stop_details: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// The blocks of an answer, by kind.
#[derive(Default)]
struct Blocks<'a> {
    texts: Vec<&'a RawValue>,
    thoughts: Vec<&'a RawValue>,
    /// Thinking blocks as they were written.
    thinking: Vec<&'a RawValue>,
    calls: Vec<Block<'a>>,
}

/// Translates the body of an answer with status 200.
pub(super) fn translate(body: &[u8], created: u64) -> Result<Vec<u8>, Malformed> {
    let message: Message<'_> = serde_json::from_slice(body).map_err(|error| Malformed(error.to_string()))?;
    if let Some(raw) = message.error {
        return Err(Malformed(error::message(raw)));
    }
    let content = message.content.ok_or_else(|| Malformed("the answer has no `content`".to_owned()))?;
    let blocks = Blocks::sort(&content)?;
    let mut out = Vec::with_capacity(body.len() + body.len() / 4 + 256);
    out.extend_from_slice(b"{\"id\":");
    raw::joined(&mut out, message.id);
    out.extend_from_slice(b",\"object\":\"chat.completion\",\"created\":");
    json::number(&mut out, created);
    out.extend_from_slice(b",\"model\":");
    raw::joined(&mut out, message.model);
    out.extend_from_slice(b",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":");
    let refusal = block::explanation(message.stop_details);
    if blocks.texts.is_empty() && (refusal.is_some() || !blocks.calls.is_empty()) {
        out.extend_from_slice(b"null");
    } else {
        raw::joined(&mut out, blocks.texts.iter().copied());
    }
    out.extend_from_slice(b",\"refusal\":");
    raw::value(&mut out, refusal);
    blocks.write_thinking(&mut out);
    blocks.write_calls(&mut out);
    out.extend_from_slice(b"},\"logprobs\":null,\"finish_reason\":");
    let stop_reason = message.stop_reason.as_ref().map_or("", |reason| &*reason.0);
    json::string(&mut out, block::finish_reason(stop_reason, !blocks.calls.is_empty()));
    block::stop_sequence(&mut out, message.stop_sequence);
    out.extend_from_slice(b"}]");
    if let Some(report) = message.usage.and_then(|raw| UsageReport::read(raw.get())) {
        raw::key(&mut out, "usage");
        usage::write(&report, &mut out);
    }
    out.push(b'}');
    Ok(out)
}

impl<'a> Blocks<'a> {
    fn sort(content: &[&'a RawValue]) -> Result<Self, Malformed> {
        let mut blocks = Self::default();
        for raw in content {
            let block: Block<'a> = json::read(raw).map_err(|error| Malformed(format!("a content block: {error}")))?;
            match &*block.r#type.0 {
                "text" => blocks.texts.extend(raw::filled(block.text)),
                "thinking" => {
                    blocks.thoughts.extend(raw::filled(block.thinking));
                    blocks.thinking.push(raw);
                }
                "redacted_thinking" => blocks.thinking.push(raw),
                "tool_use" => {
                    if raw::filled(block.id).is_none() || raw::filled(block.name).is_none() {
                        return Err(Malformed("a tool_use block has no id or no name".to_owned()));
                    }
                    blocks.calls.push(block);
                }
                // Blocks of tools that the upstream runs itself have no counterpart; their outcome is in the text.
                _ => {}
            }
        }
        Ok(blocks)
    }

    fn write_thinking(&self, out: &mut Vec<u8>) {
        if !self.thoughts.is_empty() {
            raw::key(out, "reasoning_content");
            raw::joined(out, self.thoughts.iter().copied());
        }
        let mut separator: &[u8] = b",\"thinking_blocks\":[";
        for block in &self.thinking {
            out.extend_from_slice(separator);
            separator = b",";
            raw::value(out, Some(*block));
        }
        if !self.thinking.is_empty() {
            out.push(b']');
        }
    }

    fn write_calls(&self, out: &mut Vec<u8>) {
        let mut separator: &[u8] = b",\"tool_calls\":[";
        for call in &self.calls {
            out.extend_from_slice(separator);
            separator = b",";
            out.extend_from_slice(b"{\"id\":");
            raw::value(out, call.id);
            out.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":");
            raw::value(out, call.name);
            out.extend_from_slice(b",\"arguments\":");
            json::quoted(out, &block::arguments(call.input));
            out.extend_from_slice(b"}}");
        }
        if !self.calls.is_empty() {
            out.push(b']');
        }
    }
}
