//! Calls of tools: functions, custom tools and the client's tool search.

use std::borrow::Cow;

use super::{
    client_tools::ClientTool,
    events::Events,
    freeform::Freeform,
    items::{Items, Status},
    names::{Kind, Names, Origin},
    text::Texts,
};
use crate::{
    Malformed, call_arguments::Rest, call_fragments::Calls as Fragments, chat_answer::CallDelta, json::put,
    provider_state::StateBuilder,
};

/// The calls of one answer. Their items follow one another, though engines may interleave the fragments of calls.
#[derive(Debug)]
pub(super) struct Calls {
    fragments: Fragments,
    /// The call whose item is open, or begins once its name is known.
    current: usize,
    open: Option<Open>,
    /// Tools whose calls are translated back.
    names: Names,
}

/// The item of the current call, and its text so far: the arguments, or the input of a custom tool. Escaped.
#[derive(Debug)]
struct Open {
    item: Item,
    text: Vec<u8>,
}

/// The parts of the output that calls touch: items, the open text, and what the provider wants back.
type Parts<'a> = (&'a mut Items, &'a mut Texts, &'a mut StateBuilder);

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

impl Item {
    fn prefix(&self) -> &'static str {
        match self.kind {
            Kind::Function => "fc_",
            Kind::Custom => "ctc_",
            Kind::Search => "tsc_",
            Kind::Client(tool) => tool.prefix(),
        }
    }

    /// The JSON of the item; `text` is empty and `status` is `None` when it begins.
    fn write(&self, events: &Events, text: &[u8], status: Option<Status>) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() + 200);
        let (kind, member) = match self.kind {
            Kind::Function => ("function_call", "arguments"),
            Kind::Custom => ("custom_tool_call", "input"),
            Kind::Search => ("tool_search_call", "arguments"),
            Kind::Client(tool) => (tool.item(), ""),
        };
        put(&mut out, &[r#"{"type":""#, kind, r#"","id":""#]);
        events.id(&mut out, self.prefix(), self.index);
        put(&mut out, &[r#"","call_id":""#]);
        out.extend_from_slice(&self.call_id);
        // A patch is complete or not.
        let status =
            status.filter(|status| *status == Status::Completed || self.kind != Kind::Client(ClientTool::ApplyPatch));
        put(&mut out, &[r#"","status":""#, status.map_or("in_progress", Status::name), "\""]);
        if let Kind::Client(tool) = self.kind {
            put(&mut out, &[&tool.member(text), "}"]);
            return out;
        }
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

    /// True if its text is sent as it arrives. Other calls are sent when they are complete.
    fn has_text_events(&self) -> bool {
        matches!(self.kind, Kind::Function | Kind::Custom)
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
        Self { fragments: Fragments::default(), current: 0, open: None, names }
    }

    /// The index of the open item.
    pub(super) fn open_index(&self) -> Option<usize> {
        self.open.as_ref().map(|open| open.item.index)
    }

    /// Adds a call, or a fragment of one. The item of a call begins once the one before it is complete.
    pub(super) fn add(
        &mut self,
        piece: &CallDelta<'_>,
        is_whole: bool,
        (items, texts, state): Parts<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let at = if is_whole { Some(self.fragments.add_whole(piece)?) } else { self.fragments.add(piece)? };
        let Some(at) = at else { return Ok(()) };
        state.note_call(at, piece);
        loop {
            self.show((&mut *items, &mut *texts, &mut *state), out)?;
            let is_last = self.current + 1 >= self.fragments.len();
            if is_last || !self.fragments.get(self.current).is_some_and(|call| call.arguments.is_complete()) {
                return Ok(());
            }
            self.end(items, Status::Completed, out)?;
        }
    }

    /// Shows what has arrived of the current call, once its name is known.
    fn show(&mut self, (items, texts, state): Parts<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let Some(call) = self.fragments.get(self.current).filter(|call| !call.name.is_empty()) else { return Ok(()) };
        let (name, arguments) = (call.name.clone(), std::mem::take(&mut call.unshown));
        items.keep(arguments.len())?;
        if self.open.is_none() {
            texts.close(items, Status::Completed, out);
            let index = items.open()?;
            let origin = self.names.get(name.as_str()).cloned();
            let plain = || Origin { kind: Kind::Function, namespace: None, name: name.as_str().into() };
            let Origin { kind, namespace, name } = origin.unwrap_or_else(plain);
            let mut call_id = Vec::new();
            match self.fragments.unique_id(self.current) {
                Some(id) => put(&mut call_id, &[id]),
                None => items.events.id(&mut call_id, "call_", index),
            }
            // Made of text.
            let id = String::from_utf8(call_id).unwrap_or_default();
            let call_id = state.call_id(self.current, &id).into_bytes();
            let item = Item { index, kind, namespace, name, call_id, freeform: Freeform::new() };
            let shown = item.write(&items.events, b"", None);
            items.events.item(out, "added", index, &shown);
            self.open = Some(Open { item, text: Vec::new() });
        }
        if let Some(open) = &mut self.open {
            open.add(items, &arguments, out);
        }
        Ok(())
    }

    /// Ends the current call. One that said nothing but an id is none.
    fn end(&mut self, items: &mut Items, status: Status, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let rest = self.fragments.get(self.current).map_or(Rest::None, |call| call.arguments.finish());
        self.current += 1;
        let Some(mut open) = self.open.take() else {
            return match rest {
                Rest::None => Ok(()),
                _ => Err(Malformed("the upstream sent a tool call without a name".to_owned())),
            };
        };
        let (rest, is_none) = match rest {
            Rest::None => (String::new(), true),
            Rest::Text(rest) | Rest::NoObject(rest) => (rest, false),
        };
        items.keep(rest.len())?;
        open.add(items, &rest, out);
        let Open { mut item, mut text } = open;
        let start = text.len();
        match item.kind {
            Kind::Custom => item.freeform.finish(&mut text),
            // Clients parse the arguments.
            Kind::Function if is_none => put(&mut text, &["{}"]),
            Kind::Function | Kind::Search | Kind::Client(_) => {}
        }
        delta(&mut items.events, &item, &text[start..], out);
        if item.has_text_events() {
            items.events.send(out, [item.event(), "done"], |events, out| {
                events.place(out, item.prefix(), item.index);
                if item.kind == Kind::Custom {
                    put(out, &[r#","input":""#]);
                } else {
                    put(out, &[r#","name":""#, &item.name, r#"","arguments":""#]);
                }
                out.extend_from_slice(&text);
                out.push(b'"');
            });
        }
        let shown = item.write(&items.events, &text, Some(status));
        items.settle(item.index, shown, out);
        Ok(())
    }

    /// Ends all calls, also those that wait for the current one.
    pub(super) fn close(
        &mut self,
        (items, texts, state): Parts<'_>,
        status: Status,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        while self.current < self.fragments.len() {
            self.show((&mut *items, &mut *texts, &mut *state), out)?;
            self.end(items, status, out)?;
        }
        Ok(())
    }
}

impl Open {
    /// Adds arguments.
    fn add(&mut self, items: &mut Items, arguments: &str, out: &mut Vec<u8>) {
        if arguments.is_empty() {
            return;
        }
        let start = self.text.len();
        if self.item.kind == Kind::Custom {
            let quoted = ["\"", arguments, "\""].concat();
            let piece: Cow<'_, str> = serde_json::from_str(&quoted).map_or(Cow::Borrowed(arguments), Cow::Owned);
            self.item.freeform.feed(&piece, &mut self.text);
        } else {
            put(&mut self.text, &[arguments]);
        }
        delta(&mut items.events, &self.item, &self.text[start..], out);
    }
}

/// Appends the event for a piece of a call's text, if its kind has any.
fn delta(events: &mut Events, item: &Item, piece: &[u8], out: &mut Vec<u8>) {
    if piece.is_empty() || !item.has_text_events() {
        return;
    }
    events.send(out, [item.event(), "delta"], |events, out| {
        events.place(out, item.prefix(), item.index);
        put(out, &[r#","delta":""#]);
        out.extend_from_slice(piece);
        out.push(b'"');
    });
}
