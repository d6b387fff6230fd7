//! Writes the turns of a conversation.

use serde_json::value::RawValue;

use super::{Model, calls::Call, content, raw};
use crate::json;

/// The role of a turn.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    User,
    Assistant,
    System,
}

/// Writes turns: consecutive blocks of one role share a message.
pub(super) struct Turns<'o, 'a> {
    out: &'o mut Vec<u8>,
    pub(super) model: Model,
    open: Option<Role>,
    /// The last turn that was opened.
    pub(super) last: Option<Role>,
    /// Calls of the assistant whose results follow.
    pub(super) unanswered: usize,
    /// Calls of the assistant that never got a result, by their ids.
    missing: Vec<String>,
    /// Blocks of the user's turn that wait for the results, which must come first.
    held: Vec<u8>,
    /// System texts with their cache markers. Their form depends on the turn that follows.
    later: Vec<(&'a RawValue, Option<&'a RawValue>)>,
    /// The last assistant turn made calls, and has no thinking.
    pub(super) unthinking_call: bool,
}

impl<'o, 'a> Turns<'o, 'a> {
    /// Turns that are written to `out`.
    pub(super) fn new(out: &'o mut Vec<u8>, model: Model) -> Self {
        Self {
            out,
            model,
            open: None,
            last: None,
            unanswered: 0,
            missing: Vec::new(),
            held: Vec::new(),
            later: Vec::new(),
            unthinking_call: false,
        }
    }

    /// The place for the next block of `role`.
    pub(super) fn block(&mut self, role: Role) -> &mut Vec<u8> {
        if role == Role::User && self.unanswered > 0 {
            if !self.held.is_empty() {
                self.held.push(b',');
            }
            return &mut self.held;
        }
        self.written_block(role)
    }

    /// The place for the next block of `role`, without regard to results that are missing.
    pub(super) fn written_block(&mut self, role: Role) -> &mut Vec<u8> {
        if role == Role::Assistant && (self.open != Some(role) || !self.held.is_empty()) {
            self.release();
        }
        self.settle(Some(role));
        if self.open == Some(role) {
            self.out.push(b',');
            return self.out;
        }
        self.close();
        if self.last.is_some() {
            self.out.push(b',');
        }
        self.out.extend_from_slice(match role {
            Role::User => b"{\"role\":\"user\",\"content\":[",
            Role::Assistant => b"{\"role\":\"assistant\",\"content\":[",
            Role::System => b"{\"role\":\"system\",\"content\":[",
        });
        (self.open, self.last) = (Some(role), Some(role));
        self.out
    }

    /// Notes the calls of an assistant's message. A call that never got a result gets one here: Messages rejects a
    /// conversation without it.
    pub(super) fn called<'c>(&mut self, calls: impl IntoIterator<Item = &'c Call>) {
        for call in calls {
            if call.answered {
                self.unanswered += 1;
            } else {
                self.missing.push(call.id.clone());
            }
        }
        if self.unanswered == 0 {
            self.settle_missing();
        }
    }

    /// Writes the results of calls that never got one. They stand before the others of the turn.
    pub(super) fn settle_missing(&mut self) {
        for id in std::mem::take(&mut self.missing) {
            let out = self.written_block(Role::User);
            out.extend_from_slice(b"{\"type\":\"tool_result\",\"tool_use_id\":");
            json::string(out, &id);
            out.extend_from_slice(b",\"content\":\"(no result)\"}");
        }
    }

    /// Takes a system text within the conversation.
    pub(super) fn later_system(&mut self, text: &'a RawValue, cache: Option<&'a RawValue>) {
        if self.model.takes_later_system() && self.unanswered == 0 {
            self.later.push((text, cache));
        } else {
            tagged(self.block(Role::User), text, cache);
        }
    }

    /// Writes the system texts before a turn of the role `next`, or at the end. Messages accepts them between a user's
    /// turn and an assistant's, or the end.
    fn settle(&mut self, next: Option<Role>) {
        let inline = self.open == Some(Role::User) && next != Some(Role::User);
        for (text, cache) in std::mem::take(&mut self.later) {
            if inline {
                content::text_block(self.written_block(Role::System), text, cache);
            } else {
                tagged(self.written_block(Role::User), text, cache);
            }
        }
    }

    /// Writes everything that waits, and closes the last turn.
    pub(super) fn finish(&mut self) {
        self.release();
        self.settle(None);
        self.close();
    }

    /// Appends the held blocks to the user's turn.
    pub(super) fn release(&mut self) {
        self.unanswered = 0;
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            self.written_block(Role::User).extend_from_slice(&held);
        }
    }

    fn close(&mut self) {
        if self.open.take().is_some() {
            self.out.extend_from_slice(b"]}");
        }
    }
}

/// Appends a system text as a text of the user's turn.
fn tagged(out: &mut Vec<u8>, text: &RawValue, cache: Option<&RawValue>) {
    out.extend_from_slice(b"{\"type\":\"text\",\"text\":\"<system>\\n");
    out.extend_from_slice(json::inner(text).unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\\n</system>\"");
    raw::member(out, "cache_control", cache);
    out.push(b'}');
}
