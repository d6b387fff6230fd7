//! Writes the chat messages of a conversation.
//!
//! The APIs order a conversation differently. Tool results stand inside user messages and become `tool` messages before
//! the rest of the user's content. Consecutive messages of one role are one turn, since many chat templates reject them
//! otherwise. A system message within the conversation becomes a marked text of a user turn, because many templates
//! reject a system message that is not the first, and since moving it to the beginning would invalidate prefix caches.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{
    content::{Block, Content, Message, Path},
    parts::{self, Part},
    turn::{Assistant, ToolResult, Turn, User, push_joined},
};
use crate::{
    Dropped, ProviderStates, Unsupported,
    json::{filled, inner, string},
    unsupported,
};

/// The beginning of a line of the system prompt in which Claude Code reports its version and a hash of the request. It
/// is no part of the prompt, and it would defeat prefix caches.
const BILLING_HEADER: &str = "x-anthropic-billing-header";

/// Translates `system` and `messages` to a list of chat messages.
pub(super) fn write(
    system: Option<&RawValue>,
    messages: &[Message<'_>],
    states: &dyn ProviderStates,
    out: &mut Vec<u8>,
    dropped: &mut Dropped,
) -> Result<(), Unsupported> {
    let mut conversation = Conversation::new(out, dropped, states);
    conversation.system_prompt(system)?;
    for (at, message) in messages.iter().enumerate() {
        let path = Path::Message { message: at };
        conversation.dropped.note("messages[].output_config", message.output_config.as_ref());
        let content = Content::read(message.content, path)?;
        match &*message.role {
            "user" => conversation.user(content, path)?,
            "assistant" => conversation.assistant(content, path)?,
            "system" => conversation.system(content, path)?,
            role => {
                let message = format!("unknown role `{role}`; use user, assistant or system");
                return Err(path.error("role", message));
            }
        }
    }
    conversation.finish();
    Ok(())
}

struct Conversation<'a, 'o> {
    out: &'o mut Vec<u8>,
    dropped: &'o mut Dropped,
    states: &'o dyn ProviderStates,
    /// Texts of the system prompt, until it is written.
    prompt: Vec<Cow<'a, str>>,
    /// True once a message other than the system prompt has begun.
    begun: bool,
    /// The open turn, which a message of the same role extends.
    turn: Turn<'a>,
    /// System texts that wait until the results of the last calls have been written.
    held: Vec<Cow<'a, str>>,
    written: usize,
}

impl<'a, 'o> Conversation<'a, 'o> {
    fn new(out: &'o mut Vec<u8>, dropped: &'o mut Dropped, states: &'o dyn ProviderStates) -> Self {
        out.push(b'[');
        Self { out, dropped, states, prompt: Vec::new(), begun: false, turn: Turn::None, held: Vec::new(), written: 0 }
    }

    fn system_prompt(&mut self, system: Option<&'a RawValue>) -> Result<(), Unsupported> {
        let Some(system) = system else { return Ok(()) };
        if !matches!(system.get().as_bytes().first(), Some(b'"' | b'[')) {
            return Err(unsupported("system", "`system` must be a string or a list of text blocks"));
        }
        let texts =
            self.system_texts(Content::read(Some(system), Path::System { block: 0 })?, Path::System { block: 0 })?;
        self.prompt.extend(texts);
        Ok(())
    }

    /// The texts of a system message.
    fn system_texts(&mut self, content: Content<'a>, path: Path) -> Result<Vec<Cow<'a, str>>, Unsupported> {
        let mut texts = Vec::new();
        match content {
            Content::Text(text) => texts.push(text),
            Content::Blocks(blocks) => {
                for (at, block) in blocks.iter().enumerate() {
                    self.dropped.note("cache_control", block.cache_control.as_ref());
                    let text = block.text.and_then(inner).filter(|_| block.r#type == "text");
                    texts
                        .push(text.ok_or_else(|| path.item(at).error("type", "a system prompt has only text blocks"))?);
                }
            }
        }
        for text in &mut texts {
            if text.starts_with(BILLING_HEADER) {
                *text = text.split_once("\\n").map_or("", |(_, rest)| rest);
                self.dropped.add(BILLING_HEADER);
            }
        }
        Ok(texts.into_iter().filter(|text| !text.is_empty()).map(Cow::Borrowed).collect())
    }

    // === turns ===

    fn user(&mut self, content: Content<'a>, path: Path) -> Result<(), Unsupported> {
        let mut user = self.take_user();
        match content {
            Content::Text("") => {}
            Content::Text(text) => user.parts.push(Part::Text(Cow::Borrowed(text))),
            Content::Blocks(blocks) => {
                for (at, block) in blocks.iter().enumerate() {
                    let path = path.item(at);
                    if block.r#type == "tool_result" {
                        self.tool_result(block, path, &mut user)?;
                    } else {
                        parts::read(block, path, self.dropped, &mut user.parts)?;
                    }
                }
            }
        }
        user.remind_all(&std::mem::take(&mut self.held));
        self.turn = Turn::User(user);
        Ok(())
    }

    fn tool_result(&mut self, block: &Block<'a>, path: Path, user: &mut User<'a>) -> Result<(), Unsupported> {
        self.dropped.note("cache_control", block.cache_control.as_ref());
        let Some(id) = block.tool_use_id.filter(|id| filled(Some(id)).is_some()) else {
            return Err(path.error("tool_use_id", "a tool result needs the `tool_use_id` of its call"));
        };
        let mut found = Vec::new();
        match Content::read(block.content, path)? {
            Content::Text(text) => found.push(Part::Text(Cow::Borrowed(text))),
            Content::Blocks(blocks) => {
                for (at, block) in blocks.iter().enumerate() {
                    parts::read(block, path.item(at), self.dropped, &mut found)?;
                }
            }
        }
        let mut result = ToolResult { id, texts: Vec::new(), error: block.is_error == Some(true) };
        let mut media = Vec::new();
        for part in found {
            match part {
                Part::Text(text) => result.texts.push(text),
                other => media.push(other),
            }
        }
        if !media.is_empty() {
            // OpenAI accepts images and files only from the user.
            let id = inner(id).unwrap_or_default();
            result.texts.push(Cow::Borrowed("(attachments in the next user message)"));
            user.parts.push(Part::Text(format!("Attachments of the result of tool call {id}:").into()));
            user.parts.append(&mut media);
        }
        if let Some(before) = user.result.replace(result) {
            self.write_result(&before);
        }
        Ok(())
    }

    fn assistant(&mut self, content: Content<'a>, path: Path) -> Result<(), Unsupported> {
        if !self.held.is_empty() {
            // The calls were never answered. A user turn in between would not be valid either.
            let held = std::mem::take(&mut self.held);
            let mut user = self.take_user();
            user.remind_all(&held);
            self.turn = Turn::User(user);
        }
        let mut assistant = match std::mem::take(&mut self.turn) {
            Turn::Assistant(assistant) => assistant,
            turn => {
                self.close(turn);
                Assistant::default()
            }
        };
        self.begun = true;
        match content {
            Content::Text(text) => assistant.texts.push(Cow::Borrowed(text)),
            Content::Blocks(blocks) => {
                for (at, block) in blocks.iter().enumerate() {
                    assistant.add(block, path.item(at), self.dropped)?;
                }
            }
        }
        self.turn = Turn::Assistant(assistant);
        Ok(())
    }

    fn system(&mut self, content: Content<'a>, path: Path) -> Result<(), Unsupported> {
        let texts = self.system_texts(content, path)?;
        if !self.begun {
            self.prompt.extend(texts);
            return Ok(());
        }
        if matches!(&self.turn, Turn::Assistant(assistant) if assistant.calls()) {
            self.held.extend(texts);
        } else if !texts.is_empty() {
            let mut user = self.take_user();
            user.remind_all(&texts);
            self.turn = Turn::User(user);
        }
        Ok(())
    }

    /// The open user turn, or a new one.
    fn take_user(&mut self) -> User<'a> {
        self.begun = true;
        match std::mem::take(&mut self.turn) {
            Turn::User(user) => user,
            turn => {
                self.close(turn);
                User::default()
            }
        }
    }

    fn finish(mut self) {
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            let mut user = self.take_user();
            user.remind_all(&held);
            self.turn = Turn::User(user);
        }
        let turn = std::mem::take(&mut self.turn);
        self.close(turn);
        self.out.push(b']');
    }

    // === output ===

    fn close(&mut self, turn: Turn<'a>) {
        self.write_prompt();
        match turn {
            Turn::None => {}
            Turn::Assistant(assistant) => {
                self.begin("assistant");
                assistant.write(self.states, self.out);
            }
            Turn::User(user) => {
                if let Some(result) = &user.result {
                    self.write_result(result);
                }
                if !user.parts.is_empty() || user.result.is_none() {
                    self.begin("user");
                    user.write(self.out);
                }
            }
        }
    }

    fn begin(&mut self, role: &str) {
        self.out.extend_from_slice(if self.written == 0 { br#"{"role":"# } else { br#",{"role":"# });
        self.written += 1;
        string(self.out, role);
    }

    fn write_prompt(&mut self) {
        if !self.prompt.is_empty() {
            let prompt = std::mem::take(&mut self.prompt);
            self.begin("system");
            self.out.extend_from_slice(br#","content":"#);
            push_joined(self.out, &prompt, "\\n\\n");
            self.out.push(b'}');
        }
    }

    fn write_result(&mut self, result: &ToolResult<'a>) {
        self.write_prompt();
        self.begin("tool");
        result.write(self.out);
    }
}
