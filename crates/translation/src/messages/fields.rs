//! Top-level fields of a request other than its messages and tools.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    effort::{self, OutputConfig},
    raw::{Object, says_something},
    request::Request,
};
use crate::{
    Dropped, Unsupported,
    json::{filled, part},
    unsupported,
};

/// Fields that are translated elsewhere, or empty because `reject` lets them pass only so.
const TRANSLATED: [&str; 11] = [
    "thread",
    "model",
    "system",
    "tool_choice",
    "stop_sequences",
    "stream",
    "metadata",
    "thinking",
    "output_config",
    "output_format",
    "inference_geo",
];

/// Fields of tools that the provider carries out. Without their tools they mean nothing.
const OF_PROVIDER_TOOLS: [&str; 2] = ["mcp_servers", "container"];

/// Fields that the API defines as hints, or that concern only Anthropic's own service.
const HINTS: [&str; 8] = [
    "cache_control",
    "context_management",
    "service_tier",
    "speed",
    "betas",
    "anthropic_beta",
    "anthropic_version",
    "stream_options",
];

/// The longest `user` that OpenAI accepts.
const LONGEST_USER: usize = 64;

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    user_id: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Format<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    schema: Option<&'a RawValue>,
}

/// Rejects fields that no chat backend can honour and that would change the answer.
pub(super) fn reject(request: &Request<'_>) -> Result<(), Unsupported> {
    if request.field("thread").is_some_and(says_something) {
        return Err(unsupported("thread", "chat backends keep no threads; send the whole conversation"));
    }
    if request.field("inference_geo").is_some_and(|geo| geo.get() != "\"global\"") {
        let message = "the region of a chat backend cannot be chosen per request; remove `inference_geo`";
        return Err(unsupported("inference_geo", message));
    }
    if request.field("n").is_some_and(|count| count.get() != "1") {
        return Err(unsupported("n", "the Messages API returns one answer; remove `n`"));
    }
    Ok(())
}

/// Writes the remaining fields. One that neither API names may be an engine's parameter, and is copied.
pub(super) fn write(request: &Request<'_>, out: &mut Object, dropped: &mut Dropped) -> Result<(), Unsupported> {
    for (name, value) in request.fields.iter().filter(|(_, value)| value.get() != "null") {
        if HINTS.contains(&&**name) {
            dropped.add(name);
        } else if OF_PROVIDER_TOOLS.contains(&&**name) {
            dropped.note(name, Some(*value).filter(|value| says_something(value)).as_ref());
        } else if !TRANSLATED.contains(&&**name) {
            out.json(name, value.get());
        }
    }
    // A caller that names a chat field has decided on it.
    let free = |name: &str| request.field(name).is_none();
    if request.part::<bool>("stream")? == Some(true) {
        out.json("stream", "true");
        out.json("stream_options", r#"{"include_usage":true}"#);
    }
    if let Some(stop) = request.field("stop_sequences").filter(|stop| says_something(stop) && free("stop")) {
        out.json("stop", stop.get());
    }
    let config: Option<OutputConfig<'_>> = request.part("output_config")?;
    if let Some(effort) = effort::of(request, config.as_ref(), dropped)?
        && free("reasoning_effort")
    {
        out.json("reasoning_effort", &format!("\"{effort}\""));
    }
    dropped.note("output_config.task_budget", config.as_ref().and_then(|config| config.task_budget.as_ref()));
    let (param, format) = match config.and_then(|config| config.format) {
        Some(format) => ("output_config.format", Some(format)),
        None => ("output_format", request.field("output_format")),
    };
    if let Some(format) = format.filter(|_| free("response_format")) {
        out.json("response_format", &response_format(param, format)?);
    }
    user(request, free("user"), out, dropped)
}

fn response_format(param: &str, format: &RawValue) -> Result<String, Unsupported> {
    let format: Format<'_> = part(format, param)?;
    if format.r#type != "json_schema" {
        let message = format!("unknown output format `{}`; use json_schema", format.r#type);
        return Err(unsupported(format!("{param}.type"), message));
    }
    let schema = format.schema.ok_or_else(|| unsupported(param, format!("`{param}` needs a `schema`")))?;
    Ok(format!(r#"{{"type":"json_schema","json_schema":{{"name":"output","strict":true,"schema":{schema}}}}}"#))
}

/// Copies the user's id if chat backends accept its length.
fn user(request: &Request<'_>, free: bool, out: &mut Object, dropped: &mut Dropped) -> Result<(), Unsupported> {
    let metadata: Option<Metadata<'_>> = request.part("metadata")?;
    let Some(user) = metadata.and_then(|metadata| metadata.user_id) else { return Ok(()) };
    if free && filled(Some(user)).is_some_and(|user| user.len() <= LONGEST_USER) {
        out.json("user", user.get());
    } else {
        dropped.add("metadata.user_id");
    }
    Ok(())
}
