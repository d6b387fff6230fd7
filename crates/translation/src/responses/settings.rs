//! `text`, `reasoning` and `include`: settings that have another place in chat completions.

use serde_json::value::RawValue;

use super::fields::Fields;
use crate::{
    Dropped, Unsupported,
    json::{comma, part, put, word},
    unsupported,
};

fn object<'a>(raw: &'a RawValue, at: &str) -> Result<Fields<'a>, Unsupported> {
    Fields::of(raw).map_err(|error| unsupported(at, format!("`{at}` is malformed: {error}")))
}

/// Appends `response_format` and `verbosity`.
pub(super) fn text(raw: &RawValue, out: &mut Vec<u8>, dropped: &mut Dropped) -> Result<(), Unsupported> {
    for (name, value) in object(raw, "text")?.0 {
        match &*name {
            "format" => format(value, out)?,
            "verbosity" if value.get() != "null" => put(out, &[r#","verbosity":"#, value.get()]),
            "verbosity" => {}
            _ => dropped.add(&format!("text.{name}")),
        }
    }
    Ok(())
}

fn format(raw: &RawValue, out: &mut Vec<u8>) -> Result<(), Unsupported> {
    if raw.get() == "null" {
        return Ok(());
    }
    let fields = object(raw, "text.format")?;
    match word(fields.get("type")) {
        "text" => Ok(()),
        "json_object" => {
            put(out, &[r#","response_format":{"type":"json_object"}"#]);
            Ok(())
        }
        "json_schema" => {
            if fields.get("schema").is_none() {
                return Err(unsupported("text.format.schema", "`json_schema` needs a `schema`"));
            }
            put(out, &[r#","response_format":{"type":"json_schema","json_schema":{"#]);
            for name in ["name", "description", "strict", "schema"] {
                let Some(value) = fields.get(name) else { continue };
                comma(out);
                put(out, &["\"", name, "\":", value.get()]);
            }
            put(out, &["}}"]);
            Ok(())
        }
        kind => {
            let message = format!("the format `{kind}` is not one of `text`, `json_object`, `json_schema`");
            Err(unsupported("text.format.type", message))
        }
    }
}

/// Appends `reasoning_effort`. Returns true if a summary is requested.
pub(super) fn reasoning(raw: &RawValue, out: &mut Vec<u8>, dropped: &mut Dropped) -> Result<bool, Unsupported> {
    let mut summary = false;
    for (name, value) in object(raw, "reasoning")?.0.into_iter().filter(|(_, value)| value.get() != "null") {
        match &*name {
            "effort" => put(out, &[r#","reasoning_effort":"#, value.get()]),
            "summary" | "generate_summary" => summary |= value.get() != "\"none\"",
            _ => dropped.add(&format!("reasoning.{name}")),
        }
    }
    Ok(summary)
}

/// The parts of `include` that chat backends can serve.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Include {
    /// Reasoning in a form that the client sends back.
    pub(super) reasoning: bool,
    /// Log probabilities of the text.
    pub(super) logprobs: bool,
}

/// Reads `include`.
pub(super) fn include(raw: &RawValue, dropped: &mut Dropped) -> Result<Include, Unsupported> {
    let mut found = Include::default();
    for value in part::<Vec<&RawValue>>(raw, "include")? {
        match word(Some(value)) {
            "reasoning.encrypted_content" => found.reasoning = true,
            "message.output_text.logprobs" => found.logprobs = true,
            other => dropped.add(&format!("include.{other}")),
        }
    }
    Ok(found)
}
