//! Output items of an answer: opens and closes them in the order that the API defines.

use super::{
    calls::{Call, Closed},
    events::Events,
    names::Names,
    raw::comma,
    text::TextItem,
};
use crate::translation::Malformed;

/// The most bytes of text and arguments in one answer. The `*.done` events and the final event repeat everything, so it is
/// kept until the end.
pub(super) const MOST_ANSWER: usize = 16 * 1024 * 1024;

/// The most output items of one answer.
const MOST_ITEMS: usize = 4096;

/// Status of an item that was closed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// The item is whole.
    Completed,
    /// A limit or a filter cut it.
    Incomplete,
}

impl Status {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
        }
    }
}

/// The output items of one answer. At most one text item (reasoning or a message) and one call are open.
#[derive(Debug)]
pub(super) struct Items {
    pub(super) events: Events,
    /// The JSON of each item by its index; empty while it is open.
    done: Vec<Vec<u8>>,
    pub(super) text: Option<TextItem>,
    pub(super) call: Option<Call>,
    /// Calls that are closed, for pieces that come late.
    pub(super) closed: Vec<Closed>,
    pub(super) names: Names,
    pub(super) summary: bool,
    pub(super) carried: bool,
    kept: usize,
}

impl Items {
    pub(super) fn new(id: &str, names: Names, summary: bool, carried: bool) -> Self {
        Self {
            events: Events::new(id),
            done: Vec::new(),
            text: None,
            call: None,
            closed: Vec::new(),
            names,
            summary,
            carried,
            kept: 0,
        }
    }

    /// The index of a new item.
    pub(super) fn open(&mut self) -> Result<usize, Malformed> {
        if self.done.len() == MOST_ITEMS {
            return Err(Malformed(format!("the upstream's answer has more than {MOST_ITEMS} items")));
        }
        self.done.push(Vec::new());
        Ok(self.done.len() - 1)
    }

    /// Counts text that is kept.
    pub(super) fn keep(&mut self, bytes: usize) -> Result<(), Malformed> {
        self.kept += bytes;
        if self.kept > MOST_ANSWER {
            return Err(Malformed(format!("the upstream's answer is longer than {MOST_ANSWER} bytes")));
        }
        Ok(())
    }

    /// Reports an item as done and keeps it.
    pub(super) fn settle(&mut self, index: usize, item: Vec<u8>, out: &mut Vec<u8>) {
        self.events.item(out, "done", index, &item);
        if let Some(place) = self.done.get_mut(index) {
            *place = item;
        }
    }

    /// Closes every open item.
    pub(super) fn close(&mut self, status: Status, out: &mut Vec<u8>) -> Result<(), Malformed> {
        // The one that began first is closed first.
        let call_first = match (&self.text, &self.call) {
            (Some(text), Some(call)) => call.began_before(text.index),
            _ => false,
        };
        if call_first {
            self.close_call(status, out)?;
        }
        self.close_text(status, out);
        self.close_call(status, out)
    }

    /// Appends the finished items, separated by commas.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for item in self.done.iter().filter(|item| !item.is_empty()) {
            comma(out);
            out.extend_from_slice(item);
        }
    }
}
