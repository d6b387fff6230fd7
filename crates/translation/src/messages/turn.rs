//! Turns of a conversation, and the chat messages that they become.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{
    content::{Block, Path},
    effort::ReasoningField,
    parts::Part,
    provider_tools::ProviderCalls,
    raw::says_something,
};
use crate::{
    Dropped, ProviderStates, Unsupported,
    json::{filled, inner, quoted, string},
    provider_state::{self, engine_id},
};

/// Opens a text within a user turn that does not come from the user.
const REMINDER: &str = "<system-reminder>";

/// The open turn of a conversation.
#[derive(Default)]
pub(super) enum Turn<'a> {
    #[default]
    None,
    User(User<'a>),
    Assistant(Assistant<'a>),
}

/// A user's turn. All text is escaped.
#[derive(Default)]
pub(super) struct User<'a> {
    /// The last tool result. Those before it have been written.
    pub(super) result: Option<ToolResult<'a>>,
    pub(super) parts: Vec<Part<'a>>,
}

/// The result of a call.
pub(super) struct ToolResult<'a> {
    pub(super) id: &'a RawValue,
    pub(super) texts: Vec<Cow<'a, str>>,
    pub(super) error: bool,
}

/// The model's turn.
#[derive(Default)]
pub(super) struct Assistant<'a> {
    pub(super) texts: Vec<Cow<'a, str>>,
    /// Calls of the provider's tools, which their results repeat.
    provider_calls: ProviderCalls<'a>,
    reasoning: Vec<&'a str>,
    field: Option<ReasoningField>,
    calls: Vec<Call<'a>>,
}

struct Call<'a> {
    id: &'a RawValue,
    name: &'a RawValue,
    input: Option<&'a RawValue>,
}

impl ToolResult<'_> {
    /// Appends the members of the chat message after its role.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#","tool_call_id":"#);
        quoted(out, engine_id(inner(self.id).unwrap_or_default()));
        out.extend_from_slice(br#","content":""#);
        let first = self.texts.first().map_or("", |text| &**text);
        let says_so = ["Error", "error", "<tool_use_error>"].iter().any(|mark| first.starts_with(mark));
        if self.error && !says_so {
            // Chat has no mark for a failed call.
            out.extend_from_slice(b"Error: ");
        }
        push_texts(out, &self.texts, "\\n");
        out.extend_from_slice(b"\"}");
    }
}

impl<'a> User<'a> {
    pub(super) fn remind_all(&mut self, texts: &[Cow<'a, str>]) {
        for text in texts {
            self.remind(text);
        }
    }

    /// Adds a system text. After tool results alone it belongs to the last one: a user message there would make chat
    /// templates discard the reasoning of the turn.
    fn remind(&mut self, text: &str) {
        let text: Cow<'a, str> = if text.starts_with(REMINDER) {
            text.to_owned().into()
        } else {
            format!("{REMINDER}\\n{text}\\n</system-reminder>").into()
        };
        match &mut self.result {
            Some(result) if self.parts.is_empty() => result.texts.push(text),
            _ => self.parts.push(Part::Text(text)),
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#","content":"#);
        match &*self.parts {
            [] => out.extend_from_slice(b"\"\""),
            // The form that every backend accepts.
            [Part::Text(text)] => quoted(out, text),
            parts => {
                for (at, part) in parts.iter().enumerate() {
                    out.push(if at == 0 { b'[' } else { b',' });
                    part.write(out);
                }
                out.push(b']');
            }
        }
        out.push(b'}');
    }
}

impl<'a> Assistant<'a> {
    /// True if the turn ends in calls, which wait for their results.
    pub(super) fn calls(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(super) fn add(&mut self, block: &Block<'a>, path: Path, dropped: &mut Dropped) -> Result<(), Unsupported> {
        dropped.note("cache_control", block.cache_control.as_ref());
        match &*block.r#type {
            "text" => {
                let Some(text) = block.text.and_then(inner) else {
                    return Err(path.error("text", "a text block needs a string as its `text`"));
                };
                if block.citations.is_some_and(says_something) {
                    dropped.add("messages[].content[].citations");
                }
                self.texts.push(Cow::Borrowed(text));
            }
            "thinking" => match (ReasoningField::of_signature(block.signature), filled(block.thinking)) {
                (Some(field), Some(thinking)) => {
                    self.field.get_or_insert(field);
                    self.reasoning.push(thinking);
                }
                (None, _) => dropped.add("messages[].content[].thinking"),
                (Some(_), None) => {}
            },
            "redacted_thinking" => dropped.add("messages[].content[].redacted_thinking"),
            "tool_use" => {
                let (Some(id), Some(name)) = (block.id, block.name) else {
                    return Err(path.error("", "a `tool_use` block needs an `id` and a `name`"));
                };
                if filled(Some(id)).is_none() || filled(Some(name)).is_none() {
                    return Err(path.error("", "the `id` and `name` of a `tool_use` block must be strings"));
                }
                self.calls.push(Call { id, name, input: block.input });
            }
            _ => {
                if let Some(text) = self.provider_calls.read(block, dropped) {
                    let joint = if self.texts.iter().all(|text| text.is_empty()) { "" } else { "\\n\\n" };
                    self.texts.push([joint, &text, "\\n\\n"].concat().into());
                }
            }
        }
        Ok(())
    }

    pub(super) fn write(&self, states: &dyn ProviderStates, out: &mut Vec<u8>) {
        out.extend_from_slice(br#","content":"#);
        if self.texts.iter().all(|text| text.is_empty()) && !self.calls.is_empty() {
            out.extend_from_slice(b"null");
        } else {
            push_joined(out, &self.texts, "");
        }
        if let Some(field) = self.field {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(field.name().as_bytes());
            out.extend_from_slice(b"\":");
            push_joined(out, &self.reasoning, "");
        }
        for (at, call) in self.calls.iter().enumerate() {
            out.extend_from_slice(if at == 0 { br#","tool_calls":[{"id":"# } else { br#",{"id":"# });
            quoted(out, engine_id(inner(call.id).unwrap_or_default()));
            out.extend_from_slice(br#","type":"function","function":{"name":"#);
            out.extend_from_slice(call.name.get().as_bytes());
            out.extend_from_slice(br#","arguments":"#);
            string(out, call.input.map_or("{}", RawValue::get));
            out.extend_from_slice(b"}}");
        }
        if !self.calls.is_empty() {
            out.push(b']');
        }
        if let Some(state) = self.calls.iter().find_map(|call| states.of_call(inner(call.id)?)) {
            provider_state::write(&state, out);
        }
        out.push(b'}');
    }
}

/// Appends escaped texts, joined by an escaped separator, as one JSON string.
pub(super) fn push_joined<T: AsRef<str>>(out: &mut Vec<u8>, texts: &[T], separator: &str) {
    out.push(b'"');
    push_texts(out, texts, separator);
    out.push(b'"');
}

fn push_texts<T: AsRef<str>>(out: &mut Vec<u8>, texts: &[T], separator: &str) {
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(separator.as_bytes());
        }
        out.extend_from_slice(text.as_ref().as_bytes());
    }
}
