//! The system prompt and the turns of a conversation.
//!
//! Leading system and developer messages become `system`. A later one keeps its position, because moving it to the front
//! would change its meaning, the prompt cache and the prefix that signed thinking is bound to: it becomes a message of
//! the role `system` where the model and the position allow that, and a text of the user's turn between `<system>` tags
//! elsewhere.

use serde_json::value::RawValue;

use super::{
    Model,
    calls::{Call, Calls},
    content::{self, Content, Part},
    media, raw,
    request::{Message, Request, Thinking},
    response_format::Format,
    tools,
    turns::{Role, Turns},
};
use crate::{Dropped, Unsupported, json, unsupported};

/// Asks for the rest of the assistant's last turn, where the model does not continue it by itself.
pub(super) const CONTINUE: &str = "Continue your last message exactly where it ends, without repeating any of it.";

/// Facts about a written conversation that decide whether thinking can be requested.
pub(super) struct Conversation {
    /// The last assistant turn made calls that were answered, and has no thinking.
    pub(super) unthinking_call: bool,
}

impl Conversation {
    /// Appends the members `system` and `messages`.
    pub(super) fn write(
        request: &Request<'_>,
        format: &Format<'_>,
        model: Model,
        out: &mut Vec<u8>,
        dropped: &mut Dropped,
    ) -> Result<Self, Unsupported> {
        let messages = request.messages.as_deref().unwrap_or_default();
        let leading = messages.iter().take_while(|message| is_system(message)).count();
        system(format, &messages[..leading], out, dropped)?;
        out.extend_from_slice(b",\"messages\":[");
        let calls = Calls::read(messages);
        let mut turns = Turns::new(out, model);
        for (index, message) in messages.iter().enumerate().skip(leading) {
            let path = format!("messages[{index}]");
            if message.name.is_some() && message.role.0 != "tool" {
                dropped.add("messages[].name");
            }
            match &*message.role.0 {
                "system" | "developer" => {
                    for (text, cache) in system_texts(message, &path)? {
                        turns.later_system(text, cache);
                    }
                }
                "user" => turns.user(message, &path, dropped)?,
                "assistant" => {
                    let is_last = index + 1 == messages.len();
                    turns.assistant(message, calls.of(index), &path, is_last, dropped)?;
                }
                "tool" => turns.result(message, calls.answered_by(index), &path, dropped)?,
                "function" => {
                    return Err(unsupported(format!("{path}.role"), "the role `function` is obsolete: use `tool`"));
                }
                other => return Err(unsupported(format!("{path}.role"), format!("unknown role `{other}`"))),
            }
        }
        let conversation = turns.end(messages)?;
        out.push(b']');
        Ok(conversation)
    }
}

fn is_system(message: &Message<'_>) -> bool {
    matches!(&*message.role.0, "system" | "developer")
}

/// The texts of a system message, each with its cache marker. Other parts are rejected.
fn system_texts<'a>(
    message: &Message<'a>,
    path: &str,
) -> Result<Vec<(&'a RawValue, Option<&'a RawValue>)>, Unsupported> {
    Ok(match Content::read(message.content, path)? {
        Content::Empty => Vec::new(),
        Content::Text(text) => vec![(text, message.cache_control)],
        Content::Parts(parts) => {
            let mut texts = Vec::with_capacity(parts.len());
            for (at, part) in parts.iter().enumerate() {
                let Some(text) = part.as_text() else {
                    let message = "a system message takes only text for this upstream: send other parts as the user";
                    return Err(unsupported(format!("{path}.content[{at}].type"), message));
                };
                let on_last = message.cache_control.filter(|_| at + 1 == parts.len());
                if !raw::is_blank(text) {
                    texts.push((text, part.cache_control.or(on_last)));
                }
            }
            texts
        }
    })
}

/// Appends the member `system`.
fn system(
    format: &Format<'_>,
    leading: &[Message<'_>],
    out: &mut Vec<u8>,
    dropped: &mut Dropped,
) -> Result<(), Unsupported> {
    let start = out.len();
    let mut separator: &[u8] = b",\"system\":[";
    for (index, message) in leading.iter().enumerate() {
        if message.name.is_some() {
            dropped.add("messages[].name");
        }
        for (text, cache) in system_texts(message, &format!("messages[{index}]"))? {
            out.extend_from_slice(separator);
            content::text_block(out, text, cache);
            separator = b",";
        }
    }
    if let Some(instruction) = format.instruction(dropped) {
        out.extend_from_slice(separator);
        out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
        json::string(out, instruction);
        out.push(b'}');
    }
    if out.len() > start {
        out.push(b']');
    }
    Ok(())
}

impl Turns<'_, '_> {
    fn end(mut self, messages: &[Message<'_>]) -> Result<Conversation, Unsupported> {
        self.finish();
        if self.last.is_none() {
            let message = "the upstream needs a user message that is not empty";
            return Err(unsupported("messages", message));
        }
        // Without its last turn, the assistant's turn before it would be continued.
        let ends_empty = messages.last().is_some_and(|message| message.role.0 == "user");
        if ends_empty && self.last == Some(Role::Assistant) {
            let last = messages.len().saturating_sub(1);
            return Err(unsupported(format!("messages[{last}].content"), "the last user message is empty"));
        }
        if self.last == Some(Role::Assistant) && !self.model.takes_prefill() {
            let out = self.written_block(Role::User);
            out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
            json::string(out, CONTINUE);
            out.push(b'}');
            self.finish();
        }
        Ok(Conversation { unthinking_call: self.unthinking_call })
    }

    fn user(&mut self, message: &Message<'_>, path: &str, dropped: &mut Dropped) -> Result<(), Unsupported> {
        self.unthinking_call = false;
        match Content::read(message.content, path)? {
            Content::Empty => {}
            Content::Text(text) => content::text_block(self.block(Role::User), text, message.cache_control),
            Content::Parts(parts) => {
                for (at, part) in parts.iter().enumerate() {
                    let on_last = message.cache_control.filter(|_| at + 1 == parts.len());
                    let cache = part.cache_control.or(on_last);
                    self.user_part(part, cache, &format!("{path}.content[{at}]"), dropped)?;
                }
            }
        }
        Ok(())
    }

    fn user_part(
        &mut self,
        part: &Part<'_>,
        cache: Option<&RawValue>,
        path: &str,
        dropped: &mut Dropped,
    ) -> Result<(), Unsupported> {
        match part.as_text() {
            Some(text) if raw::is_blank(text) => Ok(()),
            Some(text) => {
                content::text_block(self.block(Role::User), text, cache);
                Ok(())
            }
            None => media::block(part, cache, path, self.block(Role::User), dropped),
        }
    }

    fn assistant(
        &mut self,
        message: &Message<'_>,
        ids: &[Call],
        path: &str,
        is_last: bool,
        dropped: &mut Dropped,
    ) -> Result<(), Unsupported> {
        if message.audio.is_some() {
            return Err(unsupported(
                format!("{path}.audio"),
                "the upstream takes no audio: send its transcript as text",
            ));
        }
        if message.function_call.is_some() {
            return Err(unsupported(format!("{path}.function_call"), "`function_call` is obsolete: use `tool_calls`"));
        }
        let calls = message.tool_calls.as_deref().unwrap_or_default();
        let mut thought = tools::thinking(message.thinking_blocks.as_deref().unwrap_or_default(), self, dropped);
        if let Some(reasoning) = message.reasoning_content.or(message.reasoning).filter(|_| !thought) {
            let entry = Thinking { r#type: None, text: Some(reasoning), signature: None, data: None };
            thought = tools::thinking(&[entry], self, dropped);
        }
        let is_prefill = is_last && calls.is_empty();
        match Content::read(message.content, path)? {
            Content::Empty => {}
            Content::Text(text) if is_prefill => self.prefill(text, message.cache_control),
            Content::Text(text) => content::text_block(self.block(Role::Assistant), text, message.cache_control),
            Content::Parts(parts) => {
                for (at, part) in parts.iter().enumerate() {
                    let on_last = at + 1 == parts.len();
                    let cache = part.cache_control.or(message.cache_control.filter(|_| on_last));
                    if let Some(block) = part.as_thinking() {
                        thought |= tools::thinking(&[block], self, dropped);
                    } else if matches!(&*part.r#type.0, "image_url" | "input_image" | "output_image") {
                        // Other models draw; Messages takes no images of the assistant.
                        dropped.add("messages[].content[].image_url");
                    } else if part.r#type.0 == "tool_use" && !calls.is_empty() {
                        // The same calls in the form of Messages, which some clients keep beside those of chat.
                        dropped.add("messages[].content[].tool_use");
                    } else {
                        let path = format!("{path}.content[{at}].type");
                        self.assistant_part(part, cache, &path, is_prefill && on_last)?;
                    }
                }
            }
        }
        if let Some(refusal) = message.refusal.filter(|refusal| !raw::is_blank(refusal)) {
            content::text_block(self.block(Role::Assistant), refusal, None);
        }
        for (at, (call, Call { id, .. })) in calls.iter().zip(ids).enumerate() {
            let path = format!("{path}.tool_calls[{at}]");
            let on_last = message.cache_control.filter(|_| message.content.is_none() && at + 1 == calls.len());
            tools::call(call, id, call.cache_control.or(on_last), &path, self)?;
        }
        if !calls.is_empty() {
            self.unthinking_call = !thought;
        }
        self.called(ids);
        Ok(())
    }

    /// Appends a part of an assistant's message. `path` is that of its type; `is_prefill`: the answer continues it.
    fn assistant_part(
        &mut self,
        part: &Part<'_>,
        cache: Option<&RawValue>,
        path: &str,
        is_prefill: bool,
    ) -> Result<(), Unsupported> {
        let message = "an assistant message takes only text for this upstream";
        match part.as_text().ok_or_else(|| unsupported(path, message))? {
            text if raw::is_blank(text) => {}
            text if is_prefill => self.prefill(text, cache),
            text => content::text_block(self.block(Role::Assistant), text, cache),
        }
        Ok(())
    }

    /// Appends the text that the answer continues. Messages rejects white space at its end.
    fn prefill(&mut self, text: &RawValue, cache: Option<&RawValue>) {
        let Some(decoded) = json::text(text) else { return };
        let trimmed = decoded.trim_end();
        if trimmed.len() == decoded.len() {
            content::text_block(self.block(Role::Assistant), text, cache);
            return;
        }
        let out = self.block(Role::Assistant);
        out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
        json::string(out, trimmed);
        raw::member(out, "cache_control", cache);
        out.push(b'}');
    }

    /// Appends the result of a call. `id` is that of the call at the upstream.
    fn result(
        &mut self,
        message: &Message<'_>,
        id: Option<&str>,
        path: &str,
        dropped: &mut Dropped,
    ) -> Result<(), Unsupported> {
        if message.tool_call_id.as_ref().is_none_or(|id| id.0.is_empty()) {
            return Err(unsupported(format!("{path}.tool_call_id"), "a tool message needs `tool_call_id`"));
        }
        let Some(id) = id else { return self.stray_result(message, path, dropped) };
        let parts = Content::read(message.content, path)?;
        self.settle_missing();
        let out = self.written_block(Role::User);
        out.extend_from_slice(b"{\"type\":\"tool_result\",\"tool_use_id\":");
        json::string(out, id);
        let mut cache = message.cache_control;
        match parts {
            Content::Empty => {}
            Content::Text(text) => raw::member(out, "content", Some(text)),
            Content::Parts(parts) => {
                let mut separator: &[u8] = b",\"content\":[";
                for (at, part) in parts.iter().enumerate() {
                    // The marker belongs to the whole result: Messages allows it on both, once is enough.
                    cache = cache.or(part.cache_control);
                    let text = part.as_text();
                    if text.is_some_and(raw::is_blank) {
                        continue;
                    }
                    out.extend_from_slice(separator);
                    separator = b",";
                    match text {
                        Some(text) => content::text_block(out, text, None),
                        None => media::block(part, None, &format!("{path}.content[{at}]"), out, dropped)?,
                    }
                }
                if separator == b"," {
                    out.push(b']');
                }
            }
        }
        if message.is_error.is_some_and(|is_error| is_error.get() == "true") {
            out.extend_from_slice(b",\"is_error\":true");
        }
        raw::member(out, "cache_control", cache);
        out.push(b'}');
        self.unanswered = self.unanswered.saturating_sub(1);
        if self.unanswered == 0 {
            self.release();
        }
        Ok(())
    }

    /// Appends a result whose call is not in the conversation, which Messages rejects, as a text of the user's turn.
    fn stray_result(&mut self, message: &Message<'_>, path: &str, dropped: &mut Dropped) -> Result<(), Unsupported> {
        dropped.add("messages[].tool_call_id");
        if matches!(Content::read(message.content, path)?, Content::Empty) {
            return Ok(());
        }
        let out = self.block(Role::User);
        out.extend_from_slice(b"{\"type\":\"text\",\"text\":\"Result of a tool call that is not shown:\"}");
        self.user(message, path, dropped)
    }
}
