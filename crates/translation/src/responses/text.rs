//! Text items: messages with text and refusals, and reasoning.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    chunk::Thinking,
    events::Events,
    items::{Items, Status},
    signed,
};
use crate::{
    Malformed,
    json::{comma, nested, number, put},
};

/// The kinds of text in an item.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Text of a message.
    Output,
    /// A refusal in a message.
    Refusal,
    /// Reasoning as the engine wrote it.
    Reasoning,
    /// Reasoning that the client wants as a summary.
    Summary,
}

impl Part {
    /// The event's name without its last part, the part's type, and the member that holds the text.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Output => ("response.output_text", "output_text", "text"),
            Self::Refusal => ("response.refusal", "refusal", "refusal"),
            Self::Reasoning => ("response.reasoning_text", "reasoning_text", "text"),
            Self::Summary => ("response.reasoning_summary_text", "summary_text", "text"),
        }
    }

    fn is_reasoning(self) -> bool {
        matches!(self, Self::Reasoning | Self::Summary)
    }

    /// The events for whole parts.
    fn part_event(self) -> &'static str {
        if self == Self::Summary { "response.reasoning_summary_part." } else { "response.content_part." }
    }

    /// The prefix of the item's id.
    fn prefix(self) -> &'static str {
        if self.is_reasoning() { "rs_" } else { "msg_" }
    }
}

/// The text items of one answer, of which at most one is open.
#[derive(Debug)]
pub(super) struct Texts {
    open: Option<TextItem>,
    /// Reasoning is shown as a summary.
    summary: bool,
    /// Reasoning is repeated in a form that the client sends back.
    carried: bool,
}

/// An open message or reasoning item. Texts are escaped, without quotes.
#[derive(Debug)]
struct TextItem {
    index: usize,
    part: Part,
    content_index: u64,
    text: Vec<u8>,
    logprobs: Vec<u8>,
    annotations: Vec<u8>,
    annotation_count: u64,
    /// Finished parts, separated by commas.
    parts: Vec<u8>,
    /// The field of the engine that reasoning came in.
    field: &'static str,
    /// Signed blocks of the reasoning as JSON, separated by commas, which the upstream needs back in later turns.
    signed: Vec<u8>,
    /// Its text is signed, so other text is not of this item.
    sealed: bool,
}

impl TextItem {
    fn new(index: usize, part: Part, field: &'static str) -> Self {
        Self {
            index,
            part,
            content_index: 0,
            text: Vec::new(),
            logprobs: Vec::new(),
            annotations: Vec::new(),
            annotation_count: 0,
            parts: Vec::new(),
            field,
            signed: Vec::new(),
            sealed: false,
        }
    }

    /// Appends the members that name the current part.
    fn place(&self, events: &Events, out: &mut Vec<u8>) {
        events.place(out, self.part.prefix(), self.index);
        put(out, &[if self.part == Part::Summary { r#","summary_index":"# } else { r#","content_index":"# }]);
        number(out, self.content_index);
    }

    /// Appends the current part with its text so far.
    fn write_part(&self, out: &mut Vec<u8>) {
        let (_, kind, member) = self.part.names();
        put(out, &[r#"{"type":""#, kind, "\",\"", member, "\":\""]);
        out.extend_from_slice(&self.text);
        out.push(b'"');
        if self.part == Part::Output {
            put(out, &[r#","annotations":["#]);
            out.extend_from_slice(&self.annotations);
            put(out, &[r#"],"logprobs":["#]);
            out.extend_from_slice(&self.logprobs);
            out.push(b']');
        }
        out.push(b'}');
    }

    /// The JSON of the item; `status` is `None` while it is open.
    fn write(&self, events: &Events, carried: bool, status: Option<Status>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.parts.len() + 160);
        let kind = if self.part.is_reasoning() { "reasoning" } else { "message" };
        put(&mut out, &[r#"{"type":""#, kind, r#"","id":""#]);
        events.id(&mut out, self.part.prefix(), self.index);
        put(&mut out, &[r#"","status":""#, status.map_or("in_progress", Status::name), "\""]);
        match self.part {
            Part::Output | Part::Refusal => put(&mut out, &[r#","role":"assistant","content":["#]),
            Part::Reasoning => put(&mut out, &[r#","summary":[],"content":["#]),
            Part::Summary => put(&mut out, &[r#","summary":["#]),
        }
        out.extend_from_slice(&self.parts);
        out.push(b']');
        if !self.signed.is_empty() {
            // Also for a caller that did not include it: without it, the upstream rejects the next turn or thinks anew.
            put(&mut out, &[",\"encrypted_content\":\"", signed::PREFIX, "["]);
            nested(&mut out, std::str::from_utf8(&self.signed).unwrap_or_default());
            put(&mut out, &["]\""]);
        } else if carried && self.part.is_reasoning() && status.is_some() {
            put(&mut out, &[r#","encrypted_content":"chat:"#, self.field, ":"]);
            out.extend_from_slice(&self.text);
            out.push(b'"');
        }
        out.push(b'}');
        out
    }

    /// True if its text has begun. Signed thinking may have none.
    fn has_text(&self) -> bool {
        !self.text.is_empty() || self.content_index > 0
    }

    fn begin_part(&self, events: &mut Events, out: &mut Vec<u8>) {
        events.send(out, [self.part.part_event(), "added"], |events, out| {
            self.place(events, out);
            put(out, &[r#","part":"#]);
            self.write_part(out);
        });
    }

    fn end_part(&mut self, events: &mut Events, out: &mut Vec<u8>) {
        if !self.has_text() {
            return;
        }
        let (event, _, member) = self.part.names();
        events.send(out, [event, ".done"], |events, out| {
            self.place(events, out);
            put(out, &[",\"", member, "\":\""]);
            out.extend_from_slice(&self.text);
            out.push(b'"');
            if self.part == Part::Output {
                put(out, &[r#","logprobs":["#]);
                out.extend_from_slice(&self.logprobs);
                out.push(b']');
            }
        });
        events.send(out, [self.part.part_event(), "done"], |events, out| {
            self.place(events, out);
            put(out, &[r#","part":"#]);
            self.write_part(out);
        });
        let mut parts = std::mem::take(&mut self.parts);
        comma(&mut parts);
        self.write_part(&mut parts);
        self.parts = parts;
    }
}

#[derive(Deserialize)]
struct Annotation<'a> {
    #[serde(borrow)]
    url_citation: Option<&'a RawValue>,
}

impl Texts {
    pub(super) fn new(summary: bool, carried: bool) -> Self {
        Self { open: None, summary, carried }
    }

    /// The index of the open item.
    pub(super) fn open_index(&self) -> Option<usize> {
        self.open.as_ref().map(|item| item.index)
    }

    /// Adds a piece of a message. `text` is escaped; `logprobs` are list entries.
    pub(super) fn message(
        &mut self,
        items: &mut Items,
        part: Part,
        text: &str,
        logprobs: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        self.write(items, part, "", text, logprobs, out)
    }

    /// Adds a piece of reasoning that came in `field`.
    pub(super) fn reasoning(
        &mut self,
        items: &mut Items,
        field: &'static str,
        text: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let part = if self.summary { Part::Summary } else { Part::Reasoning };
        self.write(items, part, field, text, "", out)
    }

    fn write(
        &mut self,
        items: &mut Items,
        part: Part,
        field: &'static str,
        text: &str,
        logprobs: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        if text.is_empty() {
            return Ok(());
        }
        items.keep(text.len() + logprobs.len())?;
        let item = self.item(items, part, field, true, out)?;
        if !item.has_text() {
            item.begin_part(&mut items.events, out);
        }
        if item.part != part {
            item.end_part(&mut items.events, out);
            item.part = part;
            item.content_index += 1;
            item.text.clear();
            item.logprobs.clear();
            item.annotations.clear();
            item.annotation_count = 0;
            item.begin_part(&mut items.events, out);
        }
        items.events.send(out, [part.names().0, ".delta"], |events, out| {
            item.place(events, out);
            put(out, &[r#","delta":""#, text, "\""]);
            if part == Part::Output {
                put(out, &[r#","logprobs":["#, logprobs, "]"]);
            }
        });
        put(&mut item.text, &[text]);
        if part == Part::Output && !logprobs.is_empty() {
            comma(&mut item.logprobs);
            put(&mut item.logprobs, &[logprobs]);
        }
        Ok(())
    }

    /// The open item for `part`, which is begun if there is none. Text does not extend reasoning that is signed.
    fn item(
        &mut self,
        items: &mut Items,
        part: Part,
        field: &'static str,
        for_text: bool,
        out: &mut Vec<u8>,
    ) -> Result<&mut TextItem, Malformed> {
        let fits = |item: &TextItem| item.part.is_reasoning() == part.is_reasoning() && !(for_text && item.sealed);
        if self.open.as_ref().is_some_and(|item| !fits(item)) {
            self.close(items, Status::Completed, out);
        }
        match &mut self.open {
            Some(item) => Ok(item),
            open @ None => {
                let item = TextItem::new(items.open()?, part, field);
                let shown = item.write(&items.events, false, None);
                items.events.item(out, "added", item.index, &shown);
                Ok(open.insert(item))
            }
        }
    }

    /// Adds signed thinking to the open reasoning. `has_piece`: its text, if any, was added as a piece of it.
    pub(super) fn signed(
        &mut self,
        items: &mut Items,
        block: &Thinking<'_>,
        has_piece: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let open = self.open.as_ref().filter(|item| item.part.is_reasoning() && !item.sealed);
        // In a stream, the pieces of the item are the text of the block, unless that is repeated as a whole.
        let in_pieces = !items.events.quiet && (has_piece || !block.has_text());
        let pieces = open.filter(|_| in_pieces).map(|item| String::from_utf8_lossy(&item.text));
        let Some(block) = block.signed(pieces.as_deref()) else { return Ok(()) };
        items.keep(block.len())?;
        let part = if self.summary { Part::Summary } else { Part::Reasoning };
        let item = self.item(items, part, "", false, out)?;
        comma(&mut item.signed);
        put(&mut item.signed, &[&block]);
        item.sealed = item.has_text();
        Ok(())
    }

    /// Adds citations to the open message; they are ignored without one.
    pub(super) fn annotate(&mut self, items: &mut Items, list: &RawValue, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let Ok(list) = serde_json::from_str::<Vec<Annotation<'_>>>(list.get()) else { return Ok(()) };
        for annotation in list {
            let inside = annotation.url_citation.and_then(|raw| raw.get().strip_prefix('{'));
            let Some(inside) = inside.filter(|inside| !inside.trim_start().starts_with('}')) else { continue };
            items.keep(inside.len())?;
            let Some(item) = self.open.as_mut().filter(|item| item.part == Part::Output) else { return Ok(()) };
            items.events.send(out, ["response.output_text.", "annotation.added"], |events, out| {
                item.place(events, out);
                put(out, &[r#","annotation_index":"#]);
                number(out, item.annotation_count);
                put(out, &[r#","annotation":{"type":"url_citation","#, inside]);
            });
            item.annotation_count += 1;
            comma(&mut item.annotations);
            put(&mut item.annotations, &[r#"{"type":"url_citation","#, inside]);
        }
        Ok(())
    }

    /// Closes the open text item, if any.
    pub(super) fn close(&mut self, items: &mut Items, status: Status, out: &mut Vec<u8>) {
        let Some(mut item) = self.open.take() else { return };
        item.end_part(&mut items.events, out);
        let shown = item.write(&items.events, self.carried, Some(status));
        items.settle(item.index, shown, out);
    }
}
