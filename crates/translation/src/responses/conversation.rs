//! Builds chat messages from items: several items of a turn become one assistant message with its calls.

use std::sync::Arc;

use super::{
    content::{self, Piece},
    signed,
};
use crate::{
    ProviderState, ProviderStates,
    json::{comma, put},
    provider_state::{self, engine_id},
};

/// The messages of a chat request under construction.
pub(super) struct Conversation<'s> {
    /// State that providers want back with calls.
    states: &'s dyn ProviderStates,
    /// Finished messages, separated by commas.
    messages: Vec<u8>,
    /// The text of all system messages at the beginning: many chat templates accept only one, and only there.
    lead: Vec<u8>,
    /// True once a message other than a system message was added.
    begun: bool,
    /// The assistant message that still collects items.
    assistant: Option<Assistant>,
    /// Calls whose outputs have not been added.
    waiting: usize,
    /// Messages that must not stand between calls and their outputs.
    deferred: Vec<u8>,
}

/// An assistant message under construction. Texts are escaped, without quotes.
#[derive(Debug, Default)]
struct Assistant {
    reasoning: Vec<u8>,
    /// The field that the engine uses for reasoning.
    field: &'static str,
    /// Signed thinking, for an upstream that speaks Anthropic's API.
    signed: Vec<u8>,
    text: Option<Vec<u8>>,
    /// True if the text only says what tools of the provider did: the turn goes on.
    is_aside: bool,
    calls: Vec<u8>,
    /// State that the provider wants back with the calls.
    state: Option<Arc<ProviderState>>,
}

impl Assistant {
    /// True if it is complete but for calls: further text is another message.
    fn is_said(&self) -> bool {
        self.text.is_some() && self.calls.is_empty() && !self.is_aside
    }
}

impl<'s> Conversation<'s> {
    /// An empty conversation.
    pub(super) fn new(states: &'s dyn ProviderStates) -> Self {
        Self {
            states,
            messages: Vec::new(),
            lead: Vec::new(),
            begun: false,
            assistant: None,
            waiting: 0,
            deferred: Vec::new(),
        }
    }

    /// Adds a system or developer message.
    pub(super) fn system(&mut self, pieces: &[Piece<'_>]) {
        if self.begun {
            self.flush();
            let out = if self.waiting > 0 { &mut self.deferred } else { &mut self.messages };
            comma(out);
            put(out, &[r#"{"role":"system","content":""#]);
            content::joined(out, pieces, r"\n");
            put(out, &["\"}"]);
            return;
        }
        if !self.lead.is_empty() {
            put(&mut self.lead, &[r"\n\n"]);
        }
        content::joined(&mut self.lead, pieces, r"\n");
    }

    /// Adds a user message.
    pub(super) fn user(&mut self, pieces: &[Piece<'_>]) {
        self.begin();
        self.flush();
        let out = if self.waiting > 0 { &mut self.deferred } else { &mut self.messages };
        comma(out);
        put(out, &[r#"{"role":"user","content":"#]);
        content::user(out, pieces);
        out.push(b'}');
    }

    /// Adds text of the assistant.
    pub(super) fn assistant(&mut self, pieces: &[Piece<'_>]) {
        self.begin();
        if self.assistant.as_ref().is_some_and(Assistant::is_said) {
            self.flush();
        }
        let pending = self.pending();
        pending.is_aside = false;
        // Text after a call joins the message of the call: between a call and its output, no message may stand.
        let text = match &mut pending.text {
            Some(text) => {
                put(text, &[r"\n\n"]);
                text
            }
            None => pending.text.insert(Vec::new()),
        };
        content::joined(text, pieces, "");
    }

    /// Adds escaped text about what a tool of the provider did, to the assistant's turn.
    pub(super) fn aside(&mut self, text: &str) {
        self.begin();
        let pending = self.pending();
        pending.is_aside |= pending.text.is_none();
        let said = pending.text.get_or_insert_default();
        put(said, &[if said.is_empty() { "" } else { r"\n\n" }, text]);
    }

    /// Adds reasoning that precedes the assistant's next text or calls; `field` is its name at the engine.
    pub(super) fn reasoning(&mut self, field: &'static str, pieces: &[Piece<'_>]) {
        let pending = self.thinking();
        pending.field = field;
        if !pending.reasoning.is_empty() {
            put(&mut pending.reasoning, &[r"\n\n"]);
        }
        content::joined(&mut pending.reasoning, pieces, r"\n\n");
    }

    /// Adds signed thinking that precedes the assistant's next text or calls, as blocks of Anthropic's API.
    pub(super) fn signed(&mut self, blocks: &[signed::Block]) {
        let signed = &mut self.thinking().signed;
        for block in blocks {
            comma(signed);
            // Writing into memory cannot fail.
            let _ = serde_json::to_writer(&mut *signed, block);
        }
    }

    /// The assistant message that thinking precedes.
    fn thinking(&mut self) -> &mut Assistant {
        self.begin();
        if self.assistant.as_ref().is_some_and(Assistant::is_said) {
            self.flush();
        }
        self.pending()
    }

    /// Adds a call. `id` is escaped; `arguments` are the quoted JSON string.
    pub(super) fn call(&mut self, id: &str, name: &str, arguments: &str) {
        self.begin();
        let state = self.states.of_call(id);
        let pending = self.pending();
        pending.state = pending.state.take().or(state);
        let (calls, id) = (&mut pending.calls, engine_id(id));
        comma(calls);
        put(calls, &[r#"{"id":""#, id, r#"","type":"function","function":{"name":""#, name, r#"","arguments":"#]);
        put(calls, &[arguments, "}}"]);
        self.waiting += 1;
    }

    /// Adds the output of a call. Images and files follow in a user message after all outputs of the turn, since a tool
    /// message carries text only.
    pub(super) fn output(&mut self, id: &str, pieces: &[Piece<'_>]) {
        self.begin();
        self.flush();
        let (media, id) = (content::first_media(pieces).is_some(), engine_id(id));
        comma(&mut self.messages);
        put(&mut self.messages, &[r#"{"role":"tool","tool_call_id":""#, id, r#"","content":""#]);
        content::joined(&mut self.messages, pieces, r"\n");
        if media {
            let joint = if pieces.iter().any(|piece| matches!(piece, Piece::Text(_))) { r"\n" } else { "" };
            put(&mut self.messages, &[joint, "[The attachments of this output follow in the next user message.]"]);
        }
        put(&mut self.messages, &["\"}"]);
        if media {
            comma(&mut self.deferred);
            let label = [r#"[{"type":"text","text":"Attachments of the output of the tool call "#, id, ":\"}"];
            put(&mut self.deferred, &[r#"{"role":"user","content":"#]);
            put(&mut self.deferred, &label);
            let attached = pieces.iter().filter(|piece| matches!(piece, Piece::Media(_)));
            for piece in attached {
                content::parts(&mut self.deferred, std::slice::from_ref(piece));
            }
            put(&mut self.deferred, &["]}"]);
        }
        self.waiting = self.waiting.saturating_sub(1);
        if self.waiting == 0 {
            self.release();
        }
    }

    /// The messages, separated by commas.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.begin();
        self.flush();
        self.release();
        self.messages
    }

    /// Writes the collected system message before the first other message.
    fn begin(&mut self) {
        if !std::mem::replace(&mut self.begun, true) && !self.lead.is_empty() {
            put(&mut self.messages, &[r#"{"role":"system","content":""#]);
            self.messages.append(&mut self.lead);
            put(&mut self.messages, &["\"}"]);
        }
    }

    /// The assistant message that collects items. A new one ends the wait for outputs of earlier calls.
    fn pending(&mut self) -> &mut Assistant {
        if self.assistant.is_none() {
            self.release();
        }
        self.assistant.get_or_insert_default()
    }

    fn release(&mut self) {
        self.waiting = 0;
        if !self.deferred.is_empty() {
            comma(&mut self.messages);
            self.messages.append(&mut self.deferred);
        }
    }

    fn flush(&mut self) {
        let Some(message) = self.assistant.take() else { return };
        if message.text.is_none() && message.calls.is_empty() {
            // Reasoning without an answer: the turn was cut.
            return;
        }
        let out = &mut self.messages;
        comma(out);
        put(out, &[r#"{"role":"assistant","content":"#]);
        match message.text {
            None => put(out, &["null"]),
            Some(text) => {
                out.push(b'"');
                out.extend_from_slice(&text);
                out.push(b'"');
            }
        }
        if !message.reasoning.is_empty() {
            put(out, &[",\"", message.field, "\":\""]);
            out.extend_from_slice(&message.reasoning);
            out.push(b'"');
        }
        if !message.signed.is_empty() {
            put(out, &[signed::MEMBER]);
            out.extend_from_slice(&message.signed);
            out.push(b']');
        }
        if !message.calls.is_empty() {
            put(out, &[r#","tool_calls":["#]);
            out.extend_from_slice(&message.calls);
            out.push(b']');
        }
        if let Some(state) = &message.state {
            provider_state::write(state, out);
        }
        out.push(b'}');
    }
}
