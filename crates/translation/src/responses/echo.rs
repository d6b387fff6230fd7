//! The fields of a request that its Response object repeats.

use serde_json::value::RawValue;

use super::{
    fields::{Fields, completed},
    names::Names,
    stored_state::HeldState,
};
use crate::json::{comma, put, string, word};

/// The most bytes kept of one field. A longer one is repeated as its default: clients do not read it back.
const MOST_FIELD: usize = 128 * 1024;

/// Fields that are repeated as they are, with the value if they are absent. Clients with strict schemas need all of them.
const REPEATED: [(&str, &str); 15] = [
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("tool_choice", "\"auto\""),
    ("truncation", "\"disabled\""),
    ("parallel_tool_calls", "true"),
    ("temperature", "1.0"),
    ("top_p", "1.0"),
    ("presence_penalty", "0.0"),
    ("frequency_penalty", "0.0"),
    ("top_logprobs", "0"),
    ("metadata", "{}"),
    ("user", "null"),
    ("safety_identifier", "null"),
    ("prompt_cache_key", "null"),
];

/// The fields of a request that its Response object repeats, and how its tools were renamed.
#[derive(Clone, Debug)]
pub struct Echo {
    /// The repeated members, written out, without braces.
    pub(super) members: Vec<u8>,
    /// The model of the request, as JSON.
    pub(super) model: Box<str>,
    /// The service tier of the request, as JSON.
    pub(super) service_tier: Box<str>,
    /// Tools whose calls are translated back.
    pub(super) names: Names,
    /// Reasoning is shown as a summary.
    pub(super) summary: bool,
    /// Reasoning is repeated in a form that the client sends back.
    pub(super) carried: bool,
}

impl Echo {
    pub(super) fn new(
        fields: &Fields<'_>,
        names: Names,
        (summary, carried): (bool, bool),
        held: Option<&HeldState>,
    ) -> Self {
        let get = |name: &str| fields.get(name).filter(|raw| raw.get().len() <= MOST_FIELD);
        let mut out = Vec::with_capacity(1024);
        for (name, default) in REPEATED {
            comma(&mut out);
            put(&mut out, &["\"", name, "\":", get(name).map_or(default, RawValue::get)]);
        }
        out.extend_from_slice(br#","previous_response_id":"#);
        match held.and_then(|held| held.previous.as_deref()) {
            Some(id) => string(&mut out, id),
            None => put(&mut out, &["null"]),
        }
        held.unwrap_or(&HeldState::default()).write(&mut out);
        put(&mut out, &[r#","background":false,"tools":["#]);
        tools(get("tools"), &mut out);
        put(&mut out, &[r#"],"text":"#]);
        text(get("text"), &mut out);
        put(&mut out, &[r#","reasoning":"#]);
        match get("reasoning") {
            Some(raw) => object(&mut out, raw, |_| &[("effort", "null"), ("summary", "null")]),
            None => put(&mut out, &[r#"{"effort":null,"summary":null}"#]),
        }
        let tier = get("service_tier").filter(|raw| !matches!(word(Some(raw)), "" | "auto"));
        Self {
            members: out,
            model: get("model").map_or("\"\"", RawValue::get).into(),
            service_tier: tier.map_or("\"default\"", RawValue::get).into(),
            names,
            summary,
            carried,
        }
    }
}

/// Members with their values if they are absent.
type Defaults = &'static [(&'static str, &'static str)];

/// Appends an object with the members that it lacks. Anything else is repeated as it is.
fn object(out: &mut Vec<u8>, raw: &RawValue, defaults: impl FnOnce(&Fields<'_>) -> Defaults) {
    match Fields::of(raw) {
        Ok(fields) => completed(out, raw, &fields, defaults(&fields)),
        Err(_) => put(out, &[raw.get()]),
    }
}

fn tools(raw: Option<&RawValue>, out: &mut Vec<u8>) {
    // Read before, when the request was translated.
    let tools: Vec<&RawValue> = raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    for tool in tools {
        comma(out);
        object(out, tool, |fields| match word(fields.get("type")) {
            "function" => &[("description", "null"), ("parameters", "null"), ("strict", "null")],
            _ => &[],
        });
    }
}

fn text(raw: Option<&RawValue>, out: &mut Vec<u8>) {
    let fields = raw.and_then(|raw| Fields::of(raw).ok());
    let Some(fields) = fields else { return put(out, &[r#"{"format":{"type":"text"}}"#]) };
    put(out, &[r#"{"format":"#]);
    match fields.get("format") {
        Some(format) => object(out, format, |fields| match word(fields.get("type")) {
            "json_schema" => &[("description", "null"), ("strict", "false")],
            _ => &[],
        }),
        None => put(out, &[r#"{"type":"text"}"#]),
    }
    for (name, value) in fields.0.iter().filter(|(name, _)| name != "format") {
        out.push(b',');
        string(out, name);
        put(out, &[":", value.get()]);
    }
    out.push(b'}');
}
