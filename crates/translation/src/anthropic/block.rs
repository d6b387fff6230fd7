//! The parts that whole answers and streams share: content blocks and stop reasons.

use serde::Deserialize;

use super::raw;
use crate::{
    call_arguments::CallArguments,
    json::{self, Str},
};
use serde_json::value::RawValue;

/// A content block, whole or at its start.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow)]
    pub(super) r#type: Str<'a>,
    #[serde(borrow)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) signature: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
}

/// Details of a refusal.
#[derive(Deserialize)]
struct StopDetails<'a> {
    #[serde(borrow)]
    explanation: Option<&'a RawValue>,
}

/// The explanation of a refusal, as a JSON string.
pub(super) fn explanation(details: Option<&RawValue>) -> Option<&RawValue> {
    let details: StopDetails<'_> = json::read(details?).ok()?;
    raw::filled(details.explanation)
}

/// The arguments of a call for its input, escaped. Some engines write the object as a string, or `null`.
pub(super) fn arguments(input: Option<&RawValue>) -> String {
    let Some(input) = input.filter(|input| !raw::is_object(input)) else {
        return json::nested_text(input.map_or("{}", RawValue::get));
    };
    let (mut arguments, mut shown) = (CallArguments::default(), String::new());
    arguments.push(json::inner(input).unwrap_or(input.get()), &mut shown);
    shown + &arguments.rest()
}

/// The reason in chat completions for a reason in Messages.
pub(super) fn finish_reason(stop_reason: &str, has_calls: bool) -> &'static str {
    match stop_reason {
        // A paused turn is incomplete, too: the caller may ask for more.
        "max_tokens" | "model_context_window_exceeded" | "pause_turn" => "length",
        "refusal" => "content_filter",
        // Engines report calls with any other reason.
        _ if has_calls => "tool_calls",
        _ => "stop",
    }
}

/// Appends the matched stop sequence as the member that engines use for it.
pub(super) fn stop_sequence(out: &mut Vec<u8>, sequence: Option<&RawValue>) {
    raw::member(out, "stop_reason", sequence.filter(|sequence| json::inner(sequence).is_some()));
}
