//! Tools and the choice among them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    client_tools,
    raw::{Object, says_something},
    request::{Request, Tool},
};
use crate::{Dropped, Unsupported, json::filled, readable::kind_name, unsupported};

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(default)]
    disable_parallel_tool_use: bool,
}

/// Writes `tools`, `tool_choice` and `parallel_tool_calls`. Chat backends reject the latter two without tools.
pub(super) fn write(request: &Request<'_>, out: &mut Object, dropped: &mut Dropped) -> Result<(), Unsupported> {
    let choice: Option<Choice<'_>> = request.part("tool_choice")?;
    let all = request.tools.as_deref().unwrap_or_default();
    if let Some(choice) = &choice {
        choice.needs_no_provider(all)?;
    }
    let mut kinds = Vec::new();
    let mut tools: Vec<(usize, &Tool<'_>)> = Vec::with_capacity(all.len());
    let mut left_out: Vec<&Tool<'_>> = Vec::new();
    for (at, tool) in all.iter().enumerate() {
        let kind = tool.r#type.as_deref().and_then(client_tools::name);
        // Versions of one tool are the same function.
        if tool.is_the_providers() || kind.is_some_and(|kind| kinds.contains(&kind)) {
            left_out.push(tool);
        } else {
            kinds.extend(kind);
            tools.push((at, tool));
        }
    }
    if tools.is_empty() {
        reject_without_tools(request, all, choice.as_ref())?;
    }
    for tool in left_out {
        dropped.add(&format!("tools[].{}", kind_name(tool.r#type.as_deref().unwrap_or_default())));
    }
    if tools.is_empty() {
        return Ok(());
    }
    let list = out.member("tools");
    for (index, (at, tool)) in tools.into_iter().enumerate() {
        list.push(if index == 0 { b'[' } else { b',' });
        tool.write(at, list, dropped)?;
    }
    list.push(b']');
    match choice {
        Some(choice) => choice.write(request, out),
        None => Ok(()),
    }
}

/// Rejects a request of which no tool is left, if it needs one.
fn reject_without_tools(
    request: &Request<'_>,
    offered: &[Tool<'_>],
    choice: Option<&Choice<'_>>,
) -> Result<(), Unsupported> {
    if choice.is_some_and(|choice| matches!(&*choice.r#type, "any" | "tool")) {
        return Err(unsupported(
            "tool_choice",
            "`tool_choice` requires a tool, but `tools` has none for a chat backend",
        ));
    }
    let under_way = request.messages.iter().flatten().any(|message| message.role == "assistant");
    if !under_way {
        if request.field("mcp_servers").is_some_and(says_something) {
            let message = "chat backends cannot connect to MCP servers; connect the client to them instead";
            return Err(unsupported("mcp_servers", message));
        }
        if let Some(kind) = offered.first().and_then(|tool| tool.r#type.as_deref()) {
            let message = format!(
                "chat backends cannot run the tool type `{kind}`, and the request offers no other; remove it, or declare a \
                 custom tool with an `input_schema`"
            );
            return Err(unsupported("tools[0].type", message));
        }
    }
    Ok(())
}

impl Tool<'_> {
    /// True if the provider would carry it out.
    fn is_the_providers(&self) -> bool {
        self.r#type.as_deref().is_some_and(|kind| kind != "custom" && client_tools::name(kind).is_none())
    }

    fn write(&self, at: usize, out: &mut Vec<u8>, dropped: &mut Dropped) -> Result<(), Unsupported> {
        if self.r#type.as_deref().and_then(client_tools::name).is_some() {
            dropped.note("cache_control", self.cache_control.as_ref());
            out.extend_from_slice(br#"{"type":"function","function":{"#);
            client_tools::write(self, out);
            out.extend_from_slice(b"}}");
            return Ok(());
        }
        if filled(self.name).is_none() {
            return Err(unsupported(format!("tools[{at}].name"), "a tool needs a name"));
        }
        let Some(schema) = self.input_schema.filter(|schema| schema.get().starts_with('{')) else {
            return Err(unsupported(
                format!("tools[{at}].input_schema"),
                "a tool needs an object as its `input_schema`",
            ));
        };
        if let Some(callers) = &self.allowed_callers {
            if !callers.is_empty() && !callers.iter().any(|caller| caller == "direct") {
                let message = "chat backends cannot call a tool from code; add `direct` to the allowed callers";
                return Err(unsupported(format!("tools[{at}].allowed_callers"), message));
            }
            dropped.add("tools[].allowed_callers");
        }
        dropped.note("cache_control", self.cache_control.as_ref());
        dropped.note("tools[].defer_loading", self.defer_loading.as_ref());
        dropped.note("tools[].input_examples", self.input_examples.as_ref());
        dropped.note("tools[].eager_input_streaming", self.eager_input_streaming.as_ref());
        out.extend_from_slice(br#"{"type":"function","function":{"#);
        let members = [
            ("name", self.name),
            ("description", self.description),
            ("parameters", Some(schema)),
            ("strict", self.strict),
        ];
        let mut first = true;
        for (name, value) in members {
            let Some(value) = value else { continue };
            out.extend_from_slice(if first { b"\"" } else { b",\"" });
            first = false;
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            out.extend_from_slice(value.get().as_bytes());
        }
        out.extend_from_slice(b"}}");
        Ok(())
    }
}

impl Choice<'_> {
    /// Rejects a choice that demands a tool of the provider.
    fn needs_no_provider(&self, tools: &[Tool<'_>]) -> Result<(), Unsupported> {
        let chosen = self.name.filter(|_| self.r#type == "tool").map(RawValue::get);
        let is_chosen = |tool: &Tool<'_>| tool.name.map(RawValue::get) == chosen;
        let chosen = chosen.and_then(|_| tools.iter().find(|tool| is_chosen(tool)));
        match chosen.filter(|tool| tool.is_the_providers()).and_then(|tool| tool.r#type.as_deref()) {
            None => Ok(()),
            Some(kind) => {
                let message = format!("chat backends cannot run the tool type `{kind}`, which the choice demands");
                Err(unsupported("tool_choice.name", message))
            }
        }
    }

    fn write(&self, request: &Request<'_>, out: &mut Object) -> Result<(), Unsupported> {
        match &*self.r#type {
            "auto" => out.json("tool_choice", "\"auto\""),
            "any" => out.json("tool_choice", "\"required\""),
            "none" => out.json("tool_choice", "\"none\""),
            "tool" => {
                let Some(name) = self.name.filter(|name| filled(Some(name)).is_some()) else {
                    return Err(unsupported("tool_choice.name", "`tool_choice` of type `tool` needs a name"));
                };
                out.json("tool_choice", &format!(r#"{{"type":"function","function":{{"name":{name}}}}}"#));
            }
            kind => {
                let message = format!("unknown tool choice `{kind}`; use auto, any, tool or none");
                return Err(unsupported("tool_choice.type", message));
            }
        }
        // Without a choice of the caller, the chat API's default is the same: parallel calls are allowed.
        if self.disable_parallel_tool_use && request.field("parallel_tool_calls").is_none() {
            out.json("parallel_tool_calls", "false");
        }
        Ok(())
    }
}
