//! The output of an answer: text items and calls, opened and closed in the order that the API defines.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{
    calls::Calls,
    chunk::Thinking,
    items::{Items, Status},
    names::Names,
    text::{Part, Texts},
};
use crate::{
    Malformed,
    chat_answer::CallDelta,
    provider_state::{NoStates, ProviderStates, StateBuilder},
};

/// The output of one answer. At most one text item (reasoning or a message) and one call are open.
pub(super) struct Output {
    pub(super) items: Items,
    texts: Texts,
    calls: Calls,
    /// State that the provider wants back with the calls.
    pub(super) state: StateBuilder,
    pub(super) states: Arc<dyn ProviderStates>,
}

impl Output {
    pub(super) fn new(id: &str, names: Names, summary: bool, carried: bool) -> Self {
        Self {
            items: Items::new(id),
            texts: Texts::new(summary, carried),
            calls: Calls::new(names),
            state: StateBuilder::default(),
            states: Arc::new(NoStates),
        }
    }

    /// Adds a piece of a message. `text` is escaped; `logprobs` are list entries.
    pub(super) fn message(
        &mut self,
        part: Part,
        text: &str,
        logprobs: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        self.texts.message(&mut self.items, part, text, logprobs, out)
    }

    /// Adds a piece of reasoning that came in `field`.
    pub(super) fn reasoning(&mut self, field: &'static str, text: &str, out: &mut Vec<u8>) -> Result<(), Malformed> {
        self.state.note_reasoning(field, text);
        self.texts.reasoning(&mut self.items, field, text, out)
    }

    /// Adds signed thinking; `has_piece`: its text, if any, was added as a piece of reasoning.
    pub(super) fn signed(&mut self, block: &Thinking<'_>, has_piece: bool, out: &mut Vec<u8>) -> Result<(), Malformed> {
        self.texts.signed(&mut self.items, block, has_piece, out)
    }

    /// Adds citations to the open message.
    pub(super) fn annotate(&mut self, list: &RawValue, out: &mut Vec<u8>) -> Result<(), Malformed> {
        self.texts.annotate(&mut self.items, list, out)
    }

    /// Adds a call, or a fragment of one.
    pub(super) fn call(&mut self, piece: &CallDelta<'_>, is_whole: bool, out: &mut Vec<u8>) -> Result<(), Malformed> {
        self.calls.add(piece, is_whole, (&mut self.items, &mut self.texts, &mut self.state), out)
    }

    /// Closes every open item, the one that began first before the other.
    pub(super) fn close(&mut self, status: Status, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let call_first = self.calls.open_index().zip(self.texts.open_index()).is_some_and(|(call, text)| call < text);
        if !call_first {
            self.texts.close(&mut self.items, status, out);
        }
        self.calls.close((&mut self.items, &mut self.texts, &mut self.state), status, out)?;
        self.texts.close(&mut self.items, status, out);
        self.state.keep(&*self.states);
        Ok(())
    }
}
