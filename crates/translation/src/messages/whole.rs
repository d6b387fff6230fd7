//! Translates a whole chat answer.

use std::hash::{BuildHasher as _, RandomState};

use serde_json::value::RawValue;

use super::{
    chunk::Piece,
    effort::{ReasoningField, SIGNATURE_PREFIX, ThinkingDisplay},
    error::message_of_value,
    events::Stop,
    raw::{is_object, says_something},
};
use crate::{
    Malformed,
    call_arguments::Rest,
    call_fragments::{Call, Calls},
    chat_answer::{CallDelta, Chunk, Delta, Usage},
    json::{filled, inner, is_blank, nested_text, quoted, string},
    provider_state::StateBuilder,
};

/// The member that carries arguments which are no JSON object. The caller's check against the schema reports them to
/// the model.
const INVALID_ARGUMENTS: &str = "_invalid_arguments";

/// Translates the body of a successful answer.
pub(super) fn translate(
    body: &[u8],
    prompt_tokens: u64,
    model: Option<&str>,
    display: ThinkingDisplay,
    state: &mut StateBuilder,
) -> Result<Vec<u8>, Malformed> {
    let answer: Chunk<'_> = serde_json::from_slice(body)
        .map_err(|error| Malformed(format!("the answer is not a chat completion: {error}")))?;
    if let Some(error) = answer.error.filter(|error| says_something(error)) {
        return Err(Malformed(message_of_value(error.get())));
    }
    let usage = answer.usage();
    let choice = answer.choices.0.ok_or_else(|| Malformed("the answer has no choice".to_owned()))?;
    let message = choice.message.ok_or_else(|| Malformed("the answer has no message".to_owned()))?;
    let message: Delta<'_> = serde_json::from_str(message.get())
        .map_err(|error| Malformed(format!("the answer's message is malformed: {error}")))?;
    if let Some(error) = choice.failure() {
        return Err(Malformed(message_of_value(&error)));
    }
    let finish = choice.finish().unwrap_or("stop");
    let mut out = Vec::with_capacity(body.len() + 256);
    out.extend_from_slice(br#"{"id":"#);
    quoted(&mut out, &message_id(answer.id));
    out.extend_from_slice(br#","type":"message","role":"assistant","model":"#);
    quoted(&mut out, model.or_else(|| answer.model.and_then(inner)).unwrap_or_default());
    out.extend_from_slice(br#","content":["#);
    let called = content(&message, display, state, &mut out)?;
    out.extend_from_slice(b"],");
    Stop::new(finish, choice.stop_sequence(), called, filled(message.refusal).is_some()).write(&mut out);
    out.extend_from_slice(br#","usage":"#);
    usage.and_then(|report| Usage::of(&report)).unwrap_or_default().or_estimate(prompt_tokens, 0).write(&mut out);
    out.push(b'}');
    Ok(out)
}

/// The message's id for the id of a chat answer, escaped.
pub(super) fn message_id(id: Option<&RawValue>) -> String {
    match filled(id) {
        Some(id) if id.starts_with("msg_") => id.to_owned(),
        Some(id) => format!("msg_{id}"),
        // Clients tell messages apart by their ids.
        None => format!("msg_{:016x}", RandomState::new().hash_one(0)),
    }
}

/// Appends the content blocks. True if one of them is a call.
fn content(
    message: &Delta<'_>,
    display: ThinkingDisplay,
    state: &mut StateBuilder,
    out: &mut Vec<u8>,
) -> Result<bool, Malformed> {
    state.note_message(message);
    let (mut text, mut thinking) = (Vec::new(), Vec::new());
    let mut field = ReasoningField::ReasoningContent;
    message.pieces(&mut |piece| match piece {
        Piece::Text(piece) => text.push(piece),
        Piece::Thinking(piece, from) => {
            thinking.push(piece);
            field = from;
        }
    });
    for piece in &thinking {
        state.note_reasoning(field.name(), piece);
    }
    let mut blocks = Blocks { out, first: true };
    if display != ThinkingDisplay::Hidden && !thinking.iter().all(|piece| is_blank(piece)) {
        let out = blocks.begin(br#"{"type":"thinking","thinking":"#);
        quoted(out, &if display == ThinkingDisplay::Shown { thinking.concat() } else { String::new() });
        out.extend_from_slice(br#","signature":"#);
        quoted(out, &format!("{SIGNATURE_PREFIX}{}", field.name()));
        out.push(b'}');
    }
    if !text.iter().all(|piece| is_blank(piece)) {
        let out = blocks.begin(br#"{"type":"text","text":"#);
        quoted(out, &text.concat());
        // The published schema requires the member; strict clients reject null.
        out.extend_from_slice(br#","citations":[]}"#);
    }
    let mut calls = Calls::default();
    let function = message.function_call.map(CallDelta::legacy);
    for delta in message.tool_calls.iter().flatten().chain(&function) {
        let at = calls.add_whole(delta)?;
        let id = calls.unique_id(at).map_or_else(|| calls.new_id(at), str::to_owned);
        let Some(call) = calls.get(at).filter(|call| !call.name.is_empty()) else {
            return Err(Malformed("the backend made a tool call without a name".to_owned()));
        };
        state.note_call(at, delta);
        let out = blocks.begin(br#"{"type":"tool_use","id":"#);
        quoted(out, &state.call_id(at, &id));
        out.extend_from_slice(br#","name":"#);
        quoted(out, &call.name);
        out.extend_from_slice(br#","input":"#);
        push_input(out, call);
        out.extend_from_slice(br#","caller":{"type":"direct"}}"#);
    }
    Ok(calls.len() > 0)
}

fn push_input(out: &mut Vec<u8>, call: &mut Call) {
    let escaped = match call.arguments.finish() {
        Rest::None => "{}".to_owned(),
        Rest::Text(rest) => std::mem::take(&mut call.unshown) + &rest,
        Rest::NoObject(text) => invalid_arguments(&text),
    };
    let json: String = serde_json::from_str(&["\"", &escaped, "\""].concat()).unwrap_or_default();
    if is_object(&json) {
        out.extend_from_slice(json.as_bytes());
    } else {
        string_member(out, INVALID_ARGUMENTS, json.trim());
    }
}

/// An object that carries arguments which are none. All text is escaped.
pub(super) fn invalid_arguments(text: &str) -> String {
    let decoded: String = serde_json::from_str(&["\"", text, "\""].concat()).unwrap_or_else(|_| text.to_owned());
    let mut object = Vec::new();
    string_member(&mut object, INVALID_ARGUMENTS, decoded.trim());
    nested_text(&String::from_utf8(object).unwrap_or_default())
}

/// Appends an object with one string.
fn string_member(out: &mut Vec<u8>, name: &str, text: &str) {
    out.push(b'{');
    string(out, name);
    out.push(b':');
    string(out, text);
    out.push(b'}');
}

struct Blocks<'o> {
    out: &'o mut Vec<u8>,
    first: bool,
}

impl Blocks<'_> {
    fn begin(&mut self, head: &[u8]) -> &mut Vec<u8> {
        if !std::mem::replace(&mut self.first, false) {
            self.out.push(b',');
        }
        self.out.extend_from_slice(head);
        self.out
    }
}
