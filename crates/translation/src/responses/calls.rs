//! Calls of tools: functions, custom tools and the client's tool search.

use std::borrow::Cow;

use super::{
    events::Events,
    freeform::Freeform,
    items::{Items, Status},
    names::{Kind, Names, Origin},
    text::Texts,
};
use crate::{
    Malformed,
    chat_answer::CallDelta,
    json::{put, word},
};

/// The calls of one answer, of which at most one is open.
#[derive(Debug)]
pub(super) struct Calls {
    open: Option<Call>,
    /// Calls that are closed, for pieces that come late.
    closed: Vec<Closed>,
    /// Tools whose calls are translated back.
    names: Names,
}

/// An open call. Texts are escaped, without quotes.
#[derive(Debug)]
struct Call {
    /// Its place among the upstream's calls.
    upstream: Option<u64>,
    /// Its id at the upstream; empty if there is none.
    id: String,
    name: String,
    /// The arguments, or the input of a custom tool.
    text: Vec<u8>,
    /// Set once its name is known, with which its item begins.
    item: Option<Item>,
}

/// The item of a call.
#[derive(Debug)]
struct Item {
    index: usize,
    kind: Kind,
    namespace: Option<Box<str>>,
    name: Box<str>,
    call_id: Vec<u8>,
    freeform: Freeform,
}

/// A closed call, to recognise pieces that come late.
#[derive(Debug)]
struct Closed {
    upstream: Option<u64>,
    id: String,
}

impl Call {
    /// True if `piece` belongs to this call. Engines may leave out index or id, repeat both, use the index 0 for every
    /// call, or a new id in every piece.
    fn continues(&self, piece: &CallDelta<'_>) -> bool {
        let id = word(piece.id);
        match (self.upstream, piece.index()) {
            (Some(mine), Some(other)) if mine != other => false,
            (Some(_), Some(_)) => id.is_empty() || id == self.id || self.id.is_empty() || piece.name().is_none(),
            _ if !id.is_empty() && !self.id.is_empty() => id == self.id,
            // Without index and id, a name begins another call once this one has arguments.
            _ => piece.name().is_none() || self.name.is_empty() || self.text.is_empty(),
        }
    }
}

impl Item {
    fn prefix(&self) -> &'static str {
        match self.kind {
            Kind::Function => "fc_",
            Kind::Custom => "ctc_",
            Kind::Search => "tsc_",
        }
    }

    /// The JSON of the item; `text` is empty and `status` is `None` when it begins.
    fn write(&self, events: &Events, text: &[u8], status: Option<Status>) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() + 200);
        let (kind, member) = match self.kind {
            Kind::Function => ("function_call", "arguments"),
            Kind::Custom => ("custom_tool_call", "input"),
            Kind::Search => ("tool_search_call", "arguments"),
        };
        put(&mut out, &[r#"{"type":""#, kind, r#"","id":""#]);
        events.id(&mut out, self.prefix(), self.index);
        put(&mut out, &[r#"","call_id":""#]);
        out.extend_from_slice(&self.call_id);
        put(&mut out, &[r#"","status":""#, status.map_or("in_progress", Status::name), "\""]);
        if self.kind == Kind::Search {
            put(&mut out, &[r#","execution":"client","#, "\"", member, "\":", &object(text), "}"]);
            return out;
        }
        put(&mut out, &[r#","name":""#, &self.name, "\""]);
        if let Some(namespace) = &self.namespace {
            put(&mut out, &[r#","namespace":""#, namespace, "\""]);
        }
        put(&mut out, &[",\"", member, "\":\""]);
        out.extend_from_slice(text);
        put(&mut out, &["\"}"]);
        out
    }

    /// The events for its text, without the last part.
    fn event(&self) -> &'static str {
        if self.kind == Kind::Custom { "response.custom_tool_call_input." } else { "response.function_call_arguments." }
    }
}

/// The object that an escaped text holds; an empty one if it holds none.
fn object(text: &[u8]) -> String {
    let mut quoted = b"\"".to_vec();
    quoted.extend_from_slice(text);
    quoted.push(b'"');
    let decoded: String = serde_json::from_slice(&quoted).unwrap_or_default();
    let object: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(&decoded).ok();
    // Written anew: the text may hold line breaks, which end the data of an event.
    object.map_or_else(|| "{}".to_owned(), |object| serde_json::Value::Object(object).to_string())
}

impl Calls {
    pub(super) fn new(names: Names) -> Self {
        Self { open: None, closed: Vec::new(), names }
    }

    /// The index of the open item.
    pub(super) fn open_index(&self) -> Option<usize> {
        self.open.as_ref()?.item.as_ref().map(|item| item.index)
    }

    /// Adds a call, or a piece of one. A new call closes the item before it.
    pub(super) fn add(
        &mut self,
        piece: &CallDelta<'_>,
        items: &mut Items,
        texts: &mut Texts,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let arguments = piece.escaped_arguments();
        let same = self.open.as_ref().is_some_and(|call| call.continues(piece));
        if !same && self.is_late(piece) {
            if arguments.is_empty() {
                return Ok(());
            }
            return Err(Malformed("the upstream continued a tool call after the next one had begun".to_owned()));
        }
        if !same {
            texts.close(items, Status::Completed, out);
            self.close(items, Status::Completed, out)?;
        }
        items.keep(arguments.len())?;
        let call = self.open.get_or_insert_with(|| Call {
            upstream: piece.index(),
            id: word(piece.id).to_owned(),
            name: String::new(),
            text: Vec::new(),
            item: None,
        });
        if call.item.is_none() {
            if call.name.is_empty() {
                piece.name().unwrap_or_default().clone_into(&mut call.name);
            }
            if call.id.is_empty() {
                word(piece.id).clone_into(&mut call.id);
            }
            put(&mut call.text, &[&arguments]);
            return if call.name.is_empty() { Ok(()) } else { self.begin(items, out) };
        }
        self.add_arguments(items, &arguments, out);
        Ok(())
    }

    /// True if a piece without a name of its own belongs to a call that is closed.
    fn is_late(&self, piece: &CallDelta<'_>) -> bool {
        let id = word(piece.id);
        let known = |closed: &Closed| {
            piece.index().is_some() && closed.upstream == piece.index() && (id.is_empty() || id == closed.id)
                || piece.index().is_none() && !id.is_empty() && id == closed.id
        };
        piece.name().is_none() && self.closed.iter().any(known)
    }

    /// Begins the item of the open call, whose name is known.
    fn begin(&mut self, items: &mut Items, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let index = items.open()?;
        let Some(call) = &mut self.open else { return Ok(()) };
        let origin = self.names.get(call.name.as_str()).cloned();
        let plain = || Origin { kind: Kind::Function, namespace: None, name: call.name.as_str().into() };
        let Origin { kind, namespace, name } = origin.unwrap_or_else(plain);
        let mut call_id = Vec::new();
        // An id that is used twice would join outputs with the wrong call.
        if call.id.is_empty() || self.closed.iter().any(|closed| closed.id == call.id) {
            items.events.id(&mut call_id, "call_", index);
        } else {
            put(&mut call_id, &[&call.id]);
        }
        let item = Item { index, kind, namespace, name, call_id, freeform: Freeform::new() };
        let shown = item.write(&items.events, b"", None);
        items.events.item(out, "added", index, &shown);
        call.item = Some(item);
        let early = String::from_utf8(std::mem::take(&mut call.text)).unwrap_or_default();
        self.add_arguments(items, &early, out);
        Ok(())
    }

    /// Adds arguments to the open call, whose item has begun.
    fn add_arguments(&mut self, items: &mut Items, arguments: &str, out: &mut Vec<u8>) {
        let Some(Call { text, item: Some(item), .. }) = &mut self.open else { return };
        if arguments.is_empty() {
            return;
        }
        let start = text.len();
        if item.kind == Kind::Custom {
            let quoted = ["\"", arguments, "\""].concat();
            let piece: Cow<'_, str> = serde_json::from_str(&quoted).map_or(Cow::Borrowed(arguments), Cow::Owned);
            item.freeform.feed(&piece, text);
        } else {
            put(text, &[arguments]);
        }
        delta(&mut items.events, item, &text[start..], out);
    }

    /// Closes the open call, if any.
    pub(super) fn close(&mut self, items: &mut Items, status: Status, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let Some(mut call) = self.open.take() else { return Ok(()) };
        let Some(mut item) = call.item.take() else {
            return Err(Malformed("the upstream sent a tool call without a name".to_owned()));
        };
        let start = call.text.len();
        match item.kind {
            Kind::Custom => item.freeform.finish(&mut call.text),
            // Clients parse the arguments.
            Kind::Function if call.text.is_empty() => put(&mut call.text, &["{}"]),
            Kind::Function | Kind::Search => {}
        }
        delta(&mut items.events, &item, &call.text[start..], out);
        if item.kind != Kind::Search {
            items.events.send(out, [item.event(), "done"], |events, out| {
                events.place(out, item.prefix(), item.index);
                if item.kind == Kind::Custom {
                    put(out, &[r#","input":""#]);
                } else {
                    put(out, &[r#","name":""#, &item.name, r#"","arguments":""#]);
                }
                out.extend_from_slice(&call.text);
                out.push(b'"');
            });
        }
        let shown = item.write(&items.events, &call.text, Some(status));
        items.settle(item.index, shown, out);
        self.closed.push(Closed { upstream: call.upstream, id: call.id });
        Ok(())
    }
}

/// Appends the event for a piece of a call's text. A tool search has none.
fn delta(events: &mut Events, item: &Item, piece: &[u8], out: &mut Vec<u8>) {
    if piece.is_empty() || item.kind == Kind::Search {
        return;
    }
    events.send(out, [item.event(), "delta"], |events, out| {
        events.place(out, item.prefix(), item.index);
        put(out, &[r#","delta":""#]);
        out.extend_from_slice(piece);
        out.push(b'"');
    });
}
