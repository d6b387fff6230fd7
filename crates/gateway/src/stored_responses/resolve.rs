//! Resolves what a request refers to: its input gets the items of the previous response or of the conversation, and each
//! reference to an item is replaced by the item.

use std::sync::Arc;

use bytes::Bytes;
use memchr::memmem;

use super::faults;
use crate::body_memory::{BodyMemory, Share};
use signalbox_answers::Answers;
use signalbox_cache::responses::{Item, Owner, ResponseStore, StateId};
use signalbox_protocol::{
    Edits, RequestBody,
    json::{elements, member, string, unescape},
};
use signalbox_translation::responses::HeldState;
use signalbox_types::{Endpoint, Fault, Moment};

/// The most items of an input with its history.
const MOST_ITEMS: usize = 16_384;

/// The state and the limits by which a request is resolved.
pub(super) struct Resolver {
    pub(super) answers: Arc<Answers>,
    pub(super) owner: Owner,
    pub(super) now: Moment,
    /// True if no backend stores responses itself: an unknown id is then an error here.
    pub(super) is_alone: bool,
    /// Memory of request bodies.
    pub(super) memory: Arc<BodyMemory>,
    /// The most bytes of a body, and of all bodies.
    pub(super) most: usize,
    pub(super) most_of_all: usize,
    /// The most bytes that are stored.
    pub(super) capacity: usize,
    /// True if the answer may be stored.
    pub(super) captures: bool,
}

/// A request with its state.
pub(super) struct Resolved {
    /// The body with the items in place; `None` if it stays as it is.
    pub(super) body: Option<RequestBody>,
    /// All items of the input, those of the history first.
    pub(super) input: Vec<Item>,
    /// The number of items of the history.
    pub(super) earlier: usize,
    pub(super) held: HeldState,
}

impl Resolver {
    /// Resolves a request. Takes about a microsecond per kilobyte of input.
    ///
    /// # Errors
    /// If the state is not stored, or the input becomes too long with it.
    pub(super) fn resolve(&self, body: &RequestBody) -> Result<Resolved, Fault> {
        let (previous, conversation) = (self.own(named(body, "previous_response_id")), self.own(conversation(body)));
        let earlier = self.history(previous.as_deref(), conversation.as_deref())?;
        let input = last(body, "input");
        let refers = input.is_some_and(|input| memmem::find(input, StateId::MARK.as_bytes()).is_some());
        // What cannot be stored is not announced as stored.
        let stores = last(body, "store") != Some(b"false") && body.bytes().len() <= self.capacity;
        let held = HeldState {
            stores,
            previous: previous.as_deref().map(Into::into),
            conversation: conversation.as_deref().map(Into::into),
        };
        let is_changed = previous.is_some() || conversation.is_some() || refers;
        if !(is_changed || self.captures && stores) {
            return Ok(Resolved { body: None, input: Vec::new(), earlier: 0, held });
        }
        let (mut items, count) = (earlier, input.map_or(0, |input| elements(input).count()));
        let earlier = items.len();
        if items.len() + count > MOST_ITEMS {
            return Err(faults::too_long("items", MOST_ITEMS));
        }
        if let Some(input) = input {
            self.add(input, &mut items)?;
        }
        let body = if is_changed { Some(self.spliced(body, &items)?) } else { None };
        Ok(Resolved { body, input: items, earlier, held })
    }

    /// An id that this gateway has to know; `None` for one that a provider may know.
    fn own(&self, id: Option<String>) -> Option<String> {
        id.filter(|id| self.is_alone || StateId::read(id).is_some())
    }

    /// The items of the previous response, with its output, or of the conversation.
    fn history(&self, previous: Option<&str>, conversation: Option<&str>) -> Result<Vec<Item>, Fault> {
        match (previous, conversation) {
            (Some(_), Some(_)) => Err(faults::two_histories()),
            (Some(id), None) => {
                let found = self.store().response(&self.owner, id, self.now).ok_or_else(|| faults::no_previous(id))?;
                let output = found.output().to_vec();
                Ok(found.input.into_iter().chain(output).collect())
            }
            (None, Some(id)) => {
                let found = self.store().conversation(&self.owner, id, self.now);
                let found = found.ok_or_else(|| faults::no_conversation(id))?;
                Ok(found.items.into_iter().map(|(_, item)| item).collect())
            }
            (None, None) => Ok(Vec::new()),
        }
    }

    /// Adds the items of an input, a string or a list.
    fn add(&self, input: &[u8], items: &mut Vec<Item>) -> Result<(), Fault> {
        if string(input).is_some() {
            items.push(Item::new(&["{\"role\":\"user\",\"content\":", text(input), "}"].concat()));
            return Ok(());
        }
        for (index, item) in elements(input).enumerate() {
            let found = match referred(item) {
                Some(id) => match self.store().item(&self.owner, &id, self.now) {
                    Some(found) => Some(found),
                    // It says enough without what is stored.
                    None if !is_reference(item) => None,
                    None if self.own(Some(id.clone())).is_some() => {
                        return Err(faults::no_item(&id, format!("input[{index}].id")));
                    }
                    None => None,
                },
                None => None,
            };
            items.push(found.unwrap_or_else(|| Item::new(text(item))));
        }
        Ok(())
    }

    /// The body with these items as its input, and without its references.
    fn spliced(&self, body: &RequestBody, items: &[Item]) -> Result<RequestBody, Fault> {
        let length = items.iter().map(|item| item.text().len() + 1).sum::<usize>() + 2;
        if length > self.most {
            return Err(faults::too_long("bytes (limits.body)", self.most));
        }
        let mut share = Share::new(self.memory.clone());
        share.grow(body.bytes().len() + length, self.most_of_all)?;
        let mut input = Vec::with_capacity(length);
        input.push(b'[');
        for (index, item) in items.iter().enumerate() {
            input.extend_from_slice(if index == 0 { b"" } else { b"," });
            input.extend_from_slice(item.text().as_bytes());
        }
        input.push(b']');
        let own = |name: &str, id: Option<String>| self.own(id).map(|_| name.to_owned());
        let drop: Vec<String> =
            [own("previous_response_id", named(body, "previous_response_id")), own("conversation", conversation(body))]
                .into_iter()
                .flatten()
                .collect();
        let edits = Edits { drop: &drop, replace: Some(("input", &input)), ..Edits::default() };
        let bytes: Bytes = body.edited(&edits);
        if bytes.len() > self.most {
            return Err(faults::too_long("bytes (limits.body)", self.most));
        }
        RequestBody::json(Endpoint::Responses, share.of(bytes))
    }

    fn store(&self) -> &ResponseStore {
        &self.answers.responses
    }
}

/// The last value of a member, which counts; `null` counts as absent.
fn last<'a>(body: &'a RequestBody, name: &str) -> Option<&'a [u8]> {
    let found = body.members().filter(|(known, _)| *known == name.as_bytes()).last();
    found.map(|(_, raw)| raw).filter(|raw| *raw != b"null")
}

fn named(body: &RequestBody, name: &str) -> Option<String> {
    decoded(last(body, name)?)
}

/// The conversation of a request: its id, or an object with its id.
fn conversation(body: &RequestBody) -> Option<String> {
    let raw = last(body, "conversation")?;
    decoded(raw).or_else(|| decoded(member(raw, "id")?))
}

/// The id of an item that stands for a stored one: a reference, with or without a type, or reasoning without content.
fn referred(item: &[u8]) -> Option<String> {
    let is_hollow = || {
        let filled = |name| member(item, name).is_some_and(|raw| !matches!(raw, b"null" | b"[]" | b"\"\""));
        member(item, "type") == Some(b"\"reasoning\"") && !["content", "encrypted_content"].into_iter().any(filled)
    };
    if is_reference(item) || is_hollow() { decoded(member(item, "id")?) } else { None }
}

fn is_reference(item: &[u8]) -> bool {
    match member(item, "type") {
        Some(b"\"item_reference\"") => true,
        Some(b"null") | None => member(item, "role").is_none() && member(item, "id").is_some(),
        Some(_) => false,
    }
}

fn decoded(raw: &[u8]) -> Option<String> {
    let mut text = String::new();
    unescape(string(raw)?, &mut text);
    Some(text)
}

/// A part of a body, which was read as JSON and so is UTF-8.
fn text(raw: &[u8]) -> &str {
    std::str::from_utf8(raw).unwrap_or("null")
}
