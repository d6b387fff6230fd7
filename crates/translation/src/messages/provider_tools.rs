//! Blocks that a provider's tools left in a conversation: what can be read becomes text, the rest is left out.

use std::collections::HashMap;

use super::content::Block;
use crate::{
    Dropped,
    json::{self, word},
    readable::{self, kind_name},
};

/// Calls of a provider's tools in the open turn, by their escaped ids: the tool, and its input as JSON text.
#[derive(Default)]
pub(super) struct ProviderCalls<'a>(HashMap<&'a str, (String, &'a str)>);

impl<'a> ProviderCalls<'a> {
    /// Takes a block of the assistant that is no text, thinking or call of the client's tools. Returns its escaped text, if it
    /// has one.
    pub(super) fn read(&mut self, block: &Block<'a>, dropped: &mut Dropped) -> Option<String> {
        let kind = kind_name(&block.r#type);
        dropped.add(&format!("messages[].content[].{kind}"));
        if kind.ends_with("_use") {
            // Its result repeats it.
            let name = block.name.and_then(json::text).unwrap_or_default().into_owned();
            self.0.insert(word(block.id), (name, block.input.map_or("", |input| input.get())));
            return None;
        }
        let (name, input) = self.0.remove(word(block.tool_use_id)).unwrap_or_default();
        text(block, &name, input)
    }
}

/// The escaped text of a block, if it holds any. `name` is the tool that made it, `input` that of the call, if they are known.
pub(super) fn text(block: &Block<'_>, name: &str, input: &str) -> Option<String> {
    let mut found = String::new();
    for raw in [block.text, block.content, block.source].into_iter().flatten() {
        let text = readable::text(raw);
        if !text.is_empty() && !found.is_empty() {
            found.push('\n');
        }
        found.push_str(&text);
    }
    if found.is_empty() {
        return None;
    }
    let kind = kind_name(&block.r#type);
    let shown = if kind == "compaction" {
        format!("Summary of the conversation so far:\n{found}")
    } else {
        let of_kind = kind.strip_suffix("_tool_result").or_else(|| kind.strip_suffix("_result")).unwrap_or(kind);
        readable::result(if is_plain(name) { name } else { of_kind }, input, &found)
    };
    let mut out = Vec::with_capacity(shown.len() + 16);
    json::escaped(&mut out, &shown);
    // Made of text.
    String::from_utf8(out).ok()
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}
