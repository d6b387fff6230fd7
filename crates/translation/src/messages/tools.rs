//! Tools and the choice among them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    raw::Object,
    request::{Request, Tool},
};
use crate::{Dropped, Unsupported, json::filled, unsupported};

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
    let Some(tools) = request.tools.as_deref().filter(|tools| !tools.is_empty()) else {
        return match choice {
            Some(choice) if matches!(&*choice.r#type, "any" | "tool") => {
                Err(unsupported("tool_choice", "`tool_choice` requires a tool, but `tools` is empty"))
            }
            _ => Ok(()),
        };
    };
    let list = out.member("tools");
    for (at, tool) in tools.iter().enumerate() {
        list.push(if at == 0 { b'[' } else { b',' });
        tool.write(at, list, dropped)?;
    }
    list.push(b']');
    match choice {
        Some(choice) => choice.write(request, out),
        None => Ok(()),
    }
}

impl Tool<'_> {
    fn write(&self, at: usize, out: &mut Vec<u8>, dropped: &mut Dropped) -> Result<(), Unsupported> {
        if let Some(kind) = self.r#type.as_deref().filter(|kind| *kind != "custom") {
            let message = format!(
                "chat backends cannot run the tool type `{kind}`; remove it, or declare a custom tool with an `input_schema`"
            );
            return Err(unsupported(format!("tools[{at}].type"), message));
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
