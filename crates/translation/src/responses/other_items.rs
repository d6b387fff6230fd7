//! Items of tools that the client or the provider carried out: calls of the client's become functions' calls again, what the
//! provider's left becomes text.

use serde_json::value::RawValue;

use super::{
    client_tools::ClientTool,
    content::Piece,
    input::{Item, Reader, unknown},
};
use crate::{
    Unsupported,
    fields::Fields,
    json::{self, escaped, inner, word},
    readable::{self, kind_name},
    unsupported,
};

impl Reader<'_, '_> {
    /// Adds an item that is no message, reasoning, or call of a declared tool.
    pub(super) fn other(&mut self, kind: &str, item: &Item<'_>, at: &str) -> Result<(), Unsupported> {
        let (base, is_output) = match kind.strip_suffix("_call_output") {
            Some(base) => (base, true),
            None => (kind.strip_suffix("_call").unwrap_or_default(), false),
        };
        match ClientTool::named(base) {
            Some(tool) if is_output => self.client_output(item, at, tool),
            Some(tool) => self.client_call(item, at, tool),
            // These ask for something, and a misspelt message would be missed.
            None if matches!(kind, "" | "item_reference" | "compaction_trigger") || item.role.is_some() => {
                Err(unknown(kind, item, at))
            }
            None => {
                self.provider_item(kind, item);
                Ok(())
            }
        }
    }

    fn client_call(&mut self, item: &Item<'_>, at: &str, tool: ClientTool) -> Result<(), Unsupported> {
        let id = call_id(item, at)?;
        self.conversation.call(id, tool.name(), &tool.arguments(item.action.or(item.operation)));
        Ok(())
    }

    fn client_output(&mut self, item: &Item<'_>, at: &str, tool: ClientTool) -> Result<(), Unsupported> {
        let id = call_id(item, at)?;
        let text = match item.output {
            Some(output) if inner(output).is_some() => word(Some(output)).to_owned(),
            Some(output) => in_string(&readable::text(output)),
            None => String::new(),
        };
        // A patch may report nothing but its success.
        let text = if text.is_empty() && tool == ClientTool::ApplyPatch { word(item.status) } else { &text };
        self.conversation.output(id, &[Piece::Text(text)]);
        Ok(())
    }

    /// Adds the result of a provider's tool as text, since a model can read it. The rest is left out.
    fn provider_item(&mut self, kind: &str, item: &Item<'_>) {
        let kind = kind_name(kind);
        self.dropped.add(&format!("input.{kind}"));
        let sources = item.action.and_then(|action| Fields::of(action).ok()).and_then(|action| action.get("sources"));
        // Pictures are base64, and encrypted content is none.
        let result = item.result.filter(|_| kind != "image_generation_call");
        let parts = [sources, item.results, item.outputs, item.output, result, item.error, item.content, item.summary];
        let found: Vec<String> =
            parts.into_iter().flatten().map(readable::text).filter(|text| !text.is_empty()).collect();
        if found.is_empty() {
            return;
        }
        let found = found.join("\n");
        let shown = if kind.contains("compaction") {
            format!("Summary of the conversation so far:\n{found}")
        } else {
            let tool = kind.strip_suffix("_output").unwrap_or(kind);
            let tool = tool.strip_suffix("_call").unwrap_or(tool);
            let own = item.name.and_then(inner).filter(|name| !name.contains(['\\', '"', '<', '>']));
            readable::result(own.unwrap_or(tool), &input(item), &found)
        };
        self.conversation.aside(&in_string(&shown));
    }
}

/// The request that a provider's tool got, if the item has it.
fn input(item: &Item<'_>) -> String {
    let query = item.action.and_then(|action| Fields::of(action).ok()).and_then(|action| action.get("query"));
    let asked = query.or(item.queries).or(item.code).or(item.arguments);
    asked.map(|asked| json::text(asked).unwrap_or(asked.get().into()).into_owned()).unwrap_or_default()
}

/// The id of a call. The output of a local shell has it as its own.
fn call_id<'a>(item: &Item<'a>, at: &str) -> Result<&'a str, Unsupported> {
    let id = [item.call_id, item.id].into_iter().find_map(|id: Option<&'a RawValue>| json::filled(id));
    id.ok_or_else(|| unsupported(format!("{at}.call_id"), "the item needs `call_id`"))
}

/// Text as the content of a JSON string.
fn in_string(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 16);
    escaped(&mut out, text);
    // Made of text.
    String::from_utf8(out).unwrap_or_default()
}
