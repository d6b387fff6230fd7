//! Tools, the choice between them, and the blocks that an assistant turn has beside text.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    raw,
    request::{Request, Thinking, Tool, ToolCall},
    schema,
    turns::{Role, Turns},
};
use crate::{
    Dropped, Unsupported,
    json::{self, Str},
    unsupported,
};

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow)]
    function: Option<ChosenFunction<'a>>,
}

#[derive(Deserialize)]
struct ChosenFunction<'a> {
    #[serde(borrow)]
    name: &'a RawValue,
}

/// Appends the members `tools` and `tool_choice`.
pub(super) fn write(request: &Request<'_>, out: &mut Vec<u8>, dropped: &mut Dropped) -> Result<(), Unsupported> {
    let tools = request.tools.as_deref().unwrap_or_default();
    let mut separator: &[u8] = b",\"tools\":[";
    let mut names = HashSet::new();
    for (index, tool) in tools.iter().enumerate() {
        // Messages rejects a name that it has seen. Clients repeat tools of several servers.
        if tool.function.as_ref().is_some_and(|function| !names.insert(function.name.get())) {
            dropped.add("tools[]");
            continue;
        }
        out.extend_from_slice(separator);
        separator = b",";
        definition(tool, &format!("tools[{index}]"), out, dropped)?;
    }
    if !tools.is_empty() {
        out.push(b']');
    }
    choice(request, !tools.is_empty(), out)
}

fn definition(tool: &Tool<'_>, path: &str, out: &mut Vec<u8>, dropped: &mut Dropped) -> Result<(), Unsupported> {
    let kind = tool.r#type.as_ref().map_or("function", |kind| &*kind.0);
    if kind != "function" {
        let message = format!("the upstream takes no tool of type `{kind}` through this API: use type `function`");
        return Err(unsupported(format!("{path}.type"), message));
    }
    let Some(function) = &tool.function else {
        return Err(unsupported(format!("{path}.function"), "a tool of type `function` needs `function`"));
    };
    out.extend_from_slice(b"{\"name\":");
    raw::value(out, Some(function.name));
    raw::member(out, "description", function.description);
    out.extend_from_slice(b",\"input_schema\":");
    schema::write(function.parameters, &format!("{path}.function.parameters"), out, dropped)?;
    if function.strict.is_some_and(|strict| strict.get() == "true") {
        out.extend_from_slice(b",\"strict\":true");
    }
    raw::member(out, "cache_control", tool.cache_control.or(function.cache_control));
    out.push(b'}');
    Ok(())
}

fn choice(request: &Request<'_>, has_tools: bool, out: &mut Vec<u8>) -> Result<(), Unsupported> {
    let serial = request.parallel_tool_calls.is_some_and(|parallel| parallel.get() == "false");
    let Some(choice) = request.tool_choice else {
        if serial && has_tools {
            out.extend_from_slice(b",\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":true}");
        }
        return Ok(());
    };
    let unknown = || {
        let message =
            "the upstream takes `auto`, `none`, `required` or one named function: send only the tools it may use";
        unsupported("tool_choice", message)
    };
    let named = if raw::is_object(choice) {
        let choice: Choice<'_> = json::read(choice).map_err(|_| unknown())?;
        Some(choice.function.filter(|_| choice.r#type.0 == "function").ok_or_else(unknown)?)
    } else {
        None
    };
    let kind = match choice.get() {
        "\"auto\"" => "auto",
        "\"none\"" => "none",
        "\"required\"" => "any",
        _ if named.is_some() => "tool",
        _ => return Err(unknown()),
    };
    if !has_tools {
        if forces(request) {
            return Err(unsupported("tool_choice", "a call is required, but there are no `tools`"));
        }
        return Ok(());
    }
    out.extend_from_slice(b",\"tool_choice\":{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.push(b'"');
    if let Some(function) = named {
        raw::member(out, "name", Some(function.name));
    }
    if serial && kind != "none" {
        out.extend_from_slice(b",\"disable_parallel_tool_use\":true");
    }
    out.push(b'}');
    Ok(())
}

/// True if the request requires a tool call.
pub(super) fn forces(request: &Request<'_>) -> bool {
    request.tool_choice.is_some_and(|choice| choice.get() == "\"required\"" || raw::is_object(choice))
}

/// Appends a call as a `tool_use` block with the id `id`.
pub(super) fn call(
    call: &ToolCall<'_>,
    id: &str,
    cache: Option<&RawValue>,
    path: &str,
    turns: &mut Turns<'_, '_>,
) -> Result<(), Unsupported> {
    if let Some(kind) = call.r#type.as_ref().filter(|kind| kind.0 != "function") {
        let message = format!("the upstream has no calls of type `{}`", kind.0);
        return Err(unsupported(format!("{path}.type"), message));
    }
    let Some(function) = &call.function else {
        return Err(unsupported(format!("{path}.function"), "a tool call needs `function`"));
    };
    if id.is_empty() {
        return Err(unsupported(format!("{path}.id"), "a tool call needs an `id`, which its result refers to"));
    }
    let out = turns.written_block(Role::Assistant);
    out.extend_from_slice(b"{\"type\":\"tool_use\",\"id\":");
    json::string(out, id);
    raw::member(out, "name", Some(function.name));
    out.extend_from_slice(b",\"input\":");
    input(function.arguments, out);
    raw::member(out, "cache_control", cache);
    out.push(b'}');
    Ok(())
}

/// Appends arguments as an object. Arguments that are not one, such as those of a call that a token limit cut, stand in
/// the member `arguments`: the conversation stays answerable, and the model sees what was written.
fn input(arguments: Option<&RawValue>, out: &mut Vec<u8>) {
    let Some(arguments) = arguments else { return out.extend_from_slice(b"{}") };
    let decoded = json::text(arguments);
    let text = decoded.as_deref().unwrap_or(arguments.get()).trim();
    match serde_json::from_str::<&RawValue>(text) {
        Ok(_) if text.starts_with('{') => out.extend_from_slice(text.as_bytes()),
        _ if matches!(text, "" | "null") => out.extend_from_slice(b"{}"),
        Ok(_) => {
            out.extend_from_slice(b"{\"arguments\":");
            out.extend_from_slice(text.as_bytes());
            out.push(b'}');
        }
        Err(_) => {
            out.extend_from_slice(b"{\"arguments\":");
            json::string(out, text);
            out.push(b'}');
        }
    }
}

/// Appends thinking blocks of an earlier answer; true if there were any.
///
/// A client that collected a stream may have kept the pieces of a block as several entries: texts without a signature
/// belong to the next entry that has one. Text that stays without a signature is dropped for models that reject it.
pub(super) fn thinking(entries: &[Thinking<'_>], turns: &mut Turns<'_, '_>, dropped: &mut Dropped) -> bool {
    let mut written = false;
    let mut first = 0;
    for (at, entry) in entries.iter().enumerate() {
        if entry.r#type.as_ref().is_some_and(|kind| kind.0 == "redacted_thinking") {
            if let Some(data) = entry.data {
                let out = turns.written_block(Role::Assistant);
                out.extend_from_slice(b"{\"type\":\"redacted_thinking\"");
                raw::member(out, "data", Some(data));
                out.push(b'}');
                written = true;
            }
            first = at + 1;
        } else if let Some(signature) = entry.signature.filter(|signature| !raw::is_blank(signature)) {
            let out = turns.written_block(Role::Assistant);
            out.extend_from_slice(b"{\"type\":\"thinking\",\"thinking\":");
            raw::joined(out, entries[first..=at].iter().filter_map(|entry| entry.text));
            raw::member(out, "signature", Some(signature));
            out.push(b'}');
            written = true;
            first = at + 1;
        }
    }
    let unsigned: Vec<&RawValue> = entries[first..].iter().filter_map(|entry| raw::filled(entry.text)).collect();
    if unsigned.is_empty() {
        return written;
    }
    if !turns.model.takes_unsigned_thinking() {
        dropped.add("messages[].reasoning_content");
        return written;
    }
    let out = turns.written_block(Role::Assistant);
    out.extend_from_slice(b"{\"type\":\"thinking\",\"thinking\":");
    raw::joined(out, unsigned);
    out.extend_from_slice(b",\"signature\":\"\"}");
    true
}
