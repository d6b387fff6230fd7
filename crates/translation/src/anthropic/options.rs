//! Limits, and all members that have no counterpart.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::value::RawValue;

use super::{Model, raw, request::Request};
use crate::{
    Dropped, Unsupported,
    json::{self, Str},
    unsupported,
};

/// Values for members that Messages requires and chat completions does not.
#[derive(Copy, Clone, Debug)]
pub struct Defaults {
    /// The token limit of a request that has none.
    pub max_tokens: u64,
}

/// Appends the token limit and returns it, if it is a whole number. A limit beyond the model's is lowered to that.
pub(super) fn max_tokens(
    request: &Request<'_>,
    defaults: Defaults,
    model: Model,
    out: &mut Vec<u8>,
    dropped: &mut Dropped,
) -> Option<u64> {
    raw::key(out, "max_tokens");
    let most = model.most_tokens().unwrap_or(u64::MAX);
    let Some(given) = request.max_completion_tokens.or(request.max_tokens) else {
        let limit = defaults.max_tokens.min(most);
        json::number(out, limit);
        return Some(limit);
    };
    let limit: Option<u64> = given.get().parse().ok();
    if limit.is_some_and(|limit| limit > most) {
        dropped.add("max_tokens");
        json::number(out, most);
        return Some(most);
    }
    raw::value(out, Some(given));
    limit
}

/// Appends stop sequences, metadata and engine parameters.
pub(super) fn write(request: &Request<'_>, out: &mut Vec<u8>, dropped: &mut Dropped) -> Result<(), Unsupported> {
    stop(request, out, dropped)?;
    metadata(request, out, dropped)?;
    service_tier(request, out, dropped);
    for (name, key, value) in &request.others {
        if passes(request, name, value, dropped)? {
            out.push(b',');
            raw::value(out, Some(*key));
            out.push(b':');
            raw::value(out, Some(*value));
        }
    }
    Ok(())
}

fn stop(request: &Request<'_>, out: &mut Vec<u8>, dropped: &mut Dropped) -> Result<(), Unsupported> {
    let Some(stop) = request.stop else { return Ok(()) };
    let invalid = || unsupported("stop", "`stop` must be a string or a list of strings");
    let sequences: Vec<&RawValue> = match stop.get().as_bytes().first() {
        Some(b'"') => vec![stop],
        Some(b'[') => json::read(stop).map_err(|_| invalid())?,
        _ => return Err(invalid()),
    };
    let mut separator: &[u8] = b",\"stop_sequences\":[";
    for sequence in sequences {
        match json::inner(sequence) {
            None => return Err(invalid()),
            Some("") => continue,
            // Messages rejects it. Without it, the answer is longer and begins the same.
            Some(_) if raw::is_blank(sequence) => {
                dropped.add("stop");
                continue;
            }
            Some(_) => {}
        }
        out.extend_from_slice(separator);
        separator = b",";
        raw::value(out, Some(sequence));
    }
    if separator == b"," {
        out.push(b']');
    }
    Ok(())
}

/// Appends the user's id, the only metadata that Messages has.
fn metadata(request: &Request<'_>, out: &mut Vec<u8>, dropped: &mut Dropped) -> Result<(), Unsupported> {
    let mut user = request.user.or(request.safety_identifier);
    let differs = |id: &RawValue| user.is_some_and(|user| user.get() != id.get());
    if request.safety_identifier.is_some_and(differs) {
        dropped.add("safety_identifier");
    }
    if let Some(metadata) = request.metadata {
        let members: BTreeMap<String, &RawValue> = json::read(metadata)
            .map_err(|error| unsupported("metadata", format!("the metadata is not valid: {error}")))?;
        for (name, value) in &members {
            match &**name {
                "user_id" => user = user.or(Some(value)),
                _ => dropped.add("metadata"),
            }
        }
    }
    let Some(user) = user else { return Ok(()) };
    let id = json::text(user).ok_or_else(|| unsupported("user", "`user` must be a string"))?;
    if is_personal(&id) || id.chars().count() > LONGEST_USER {
        dropped.add("user");
    } else if !id.is_empty() {
        out.extend_from_slice(b",\"metadata\":{\"user_id\":");
        raw::value(out, Some(user));
        out.push(b'}');
    }
    Ok(())
}

/// The longest id of a user that Messages accepts, in characters.
const LONGEST_USER: usize = 256;

/// True for an email address or a telephone number, which Messages rejects as a user's id.
fn is_personal(id: &str) -> bool {
    let digits = id.bytes().filter(u8::is_ascii_digit).count();
    let telephone = id.bytes().all(|byte| byte.is_ascii_digit() || b"+-() ".contains(&byte));
    id.contains('@') || (telephone && digits >= 7)
}

fn service_tier(request: &Request<'_>, out: &mut Vec<u8>, dropped: &mut Dropped) {
    let Some(tier) = request.service_tier else { return };
    let tier = match tier.get() {
        // Messages uses priority capacity with `auto` where there is any.
        "\"auto\"" | "\"priority\"" => "auto",
        "\"default\"" | "\"standard_only\"" => "standard_only",
        _ => return dropped.add("service_tier"),
    };
    raw::key(out, "service_tier");
    json::string(out, tier);
}

/// True if the upstream gets the member as it is: a parameter of the API's own, or of an engine. Nothing is lost without
/// notice, since the upstream rejects members that it does not know.
fn passes(request: &Request<'_>, name: &str, value: &RawValue, dropped: &mut Dropped) -> Result<bool, Unsupported> {
    if is_neutral(name, value) {
        return Ok(false);
    }
    let reason = match name {
        "seed" | "prediction" | "verbosity" | "prompt_cache_key" | "prompt_cache_retention" | "store" => {
            dropped.add(name);
            return Ok(false);
        }
        "n" => "the upstream gives one answer a request: send several requests",
        "logprobs" | "top_logprobs" => "the upstream gives no log probabilities: leave it out",
        "frequency_penalty" | "presence_penalty" => "the upstream has no penalties: leave it out or set it to 0",
        "logit_bias" => "the upstream has no token biases: leave it out",
        "modalities" | "audio" => "the upstream answers with text only",
        "web_search_options" => "the upstream has no web search through this API: leave it out",
        "functions" | "function_call" => "this is obsolete: use `tools` and `tool_choice`",
        "system" => "this belongs to another API: use a message with the role `system`",
        "stop_sequences" if request.stop.is_some() => "give either `stop` or `stop_sequences`",
        _ => return Ok(true),
    };
    Err(unsupported(name, reason))
}

/// True for a member that asks for nothing beyond the upstream's behaviour.
fn is_neutral(name: &str, value: &RawValue) -> bool {
    match name {
        // The answer's translator reports usage; an assistant's last turn is continued in any case.
        "stream_options" | "continue_final_message" | "add_generation_prompt" => true,
        "store" | "logprobs" => value.get() == "false",
        "n" => raw::float(value) == Some(1.0),
        "top_logprobs" | "frequency_penalty" | "presence_penalty" => raw::float(value) == Some(0.0),
        "logit_bias" => value.get() == "{}",
        "modalities" => is_text_only(value),
        _ => false,
    }
}

fn is_text_only(modalities: &RawValue) -> bool {
    let read: Result<Vec<Str<'_>>, _> = json::read(modalities);
    read.is_ok_and(|names| names.iter().all(|name| name.0 == Cow::Borrowed("text")))
}
