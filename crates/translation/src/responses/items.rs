//! The output items of an answer: their indices, their events and the finished JSON.

use super::events::Events;
use crate::{Malformed, json::comma};

/// The most bytes of text and arguments in one answer. The `*.done` events and the final event repeat everything, so it is
/// kept until the end.
const MOST_ANSWER: usize = 16 * 1024 * 1024;

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

/// The output items of one answer.
#[derive(Debug)]
pub(super) struct Items {
    pub(super) events: Events,
    /// The JSON of each item by its index; empty while it is open.
    done: Vec<Vec<u8>>,
    kept: usize,
}

impl Items {
    pub(super) fn new(id: &str) -> Self {
        Self { events: Events::new(id), done: Vec::new(), kept: 0 }
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

    /// Appends the finished items, separated by commas.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for item in self.done.iter().filter(|item| !item.is_empty()) {
            comma(out);
            out.extend_from_slice(item);
        }
    }
}
