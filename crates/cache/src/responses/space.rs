//! The responses and conversations of one owner.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    time::Duration,
};

use super::{
    id::StateId,
    item::{Digest, Item, Texts},
    object::{self, NewResponse},
};
use signalbox_types::Moment;

/// Size of an entry without its lists, in bytes: its id in two places, and their nodes.
const ENTRY: usize = 320;
/// Size of a conversation's item without its text.
const LISTED: usize = 64;

/// A stored response.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredResponse {
    pieces: Vec<Item>,
    output: Range<usize>,
    /// The items that led to it.
    pub input: Vec<Item>,
}

impl StoredResponse {
    /// The Response object as it was sent.
    pub fn object(&self) -> String {
        object::written(&self.pieces, &self.output)
    }

    /// Its output items.
    pub fn output(&self) -> &[Item] {
        &self.pieces[self.output.clone()]
    }
}

/// A stored conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    /// Creation time, in seconds since 1970.
    pub created: i64,
    /// Its metadata, a JSON object.
    pub metadata: Box<str>,
    /// Its items with their ids, oldest first.
    pub items: Vec<(Box<str>, Item)>,
}

#[derive(Debug)]
enum Content {
    Response { pieces: Vec<Digest>, output: Range<usize>, input: Vec<Digest> },
    Conversation { created: i64, metadata: Box<str>, items: Vec<(Box<str>, Digest)>, added: u64 },
}

#[derive(Debug)]
struct Entry {
    content: Content,
    /// Bytes of the entry itself, without its texts.
    bytes: usize,
    used: Moment,
    /// Its place in the order of use.
    turn: u64,
}

/// The state of one owner.
#[derive(Debug, Default)]
pub(super) struct Space {
    texts: Texts,
    entries: HashMap<Box<str>, Entry>,
    /// Ids in the order of use, least recent first.
    order: BTreeMap<u64, Box<str>>,
    turns: u64,
    bytes: usize,
}

impl Space {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.entries.contains_key(id)
    }

    pub(super) fn put(&mut self, response: &NewResponse, now: Moment) {
        let NewResponse { id, pieces, output, input } = response;
        self.remove(id);
        let mut add = |items: &[Item]| items.iter().map(|item| self.keep(item)).collect::<Vec<_>>();
        let (pieces, input) = (add(pieces), add(input));
        let bytes = ENTRY + (pieces.len() + input.len()) * size_of::<Digest>();
        self.insert(id.clone(), Content::Response { pieces, output: output.clone(), input }, bytes, now);
    }

    pub(super) fn create(&mut self, id: &str, conversation: &Conversation, now: Moment) {
        self.remove(id);
        let Conversation { created, metadata, items } = conversation;
        let content = Content::Conversation {
            created: *created,
            metadata: metadata.clone(),
            items: Vec::with_capacity(items.len()),
            added: 0,
        };
        self.insert(id.into(), content, ENTRY + metadata.len(), now);
        let items: Vec<_> = items.iter().map(|(_, item)| (None, item.clone())).collect();
        self.extend(id, items, now);
    }

    /// Appends items to a conversation, each with its own id or a new one. Returns their ids; `None` without the
    /// conversation.
    pub(super) fn extend(
        &mut self,
        id: &str,
        new: Vec<(Option<Box<str>>, Item)>,
        now: Moment,
    ) -> Option<Vec<Box<str>>> {
        self.touch(id, now)?;
        let root = StateId::read(id)?.root;
        let Some(Entry { content: Content::Conversation { items, added, .. }, bytes, .. }) = self.entries.get_mut(id)
        else {
            return None;
        };
        let mut ids = Vec::with_capacity(new.len());
        for (own, item) in new {
            let id = own.unwrap_or_else(|| format!("{}_{root}i{added}", super::list::prefix(item.text())).into());
            *added += 1;
            let size = LISTED + id.len();
            *bytes += size;
            self.bytes += size + self.texts.add(&item);
            ids.push(id.clone());
            items.push((id, item.digest));
        }
        Some(ids)
    }

    /// Replaces the metadata of a conversation. Returns false without it.
    pub(super) fn set_metadata(&mut self, id: &str, new: Box<str>, now: Moment) -> bool {
        let is_there = self.touch(id, now).is_some();
        match self.entries.get_mut(id) {
            Some(Entry { content: Content::Conversation { metadata, .. }, bytes, .. }) if is_there => {
                *bytes = *bytes + new.len() - metadata.len();
                self.bytes = self.bytes + new.len() - metadata.len();
                *metadata = new;
                true
            }
            _ => false,
        }
    }

    /// Removes an item from a conversation. Returns false without it.
    pub(super) fn remove_item(&mut self, id: &str, item: &str) -> bool {
        let Some(Entry { content: Content::Conversation { items, .. }, bytes, .. }) = self.entries.get_mut(id) else {
            return false;
        };
        let Some(at) = items.iter().position(|(known, _)| **known == *item) else { return false };
        let (known, digest) = items.remove(at);
        let size = LISTED + known.len();
        *bytes -= size;
        self.bytes -= size + self.texts.remove(&digest);
        true
    }

    /// Finds a response and counts it as used.
    pub(super) fn response(&mut self, id: &str, now: Moment) -> Option<StoredResponse> {
        self.touch(id, now)?;
        match &self.entries.get(id)?.content {
            Content::Response { pieces, output, input } => {
                Some(StoredResponse { pieces: self.items(pieces)?, output: output.clone(), input: self.items(input)? })
            }
            Content::Conversation { .. } => None,
        }
    }

    /// Finds a conversation and counts it as used.
    pub(super) fn conversation(&mut self, id: &str, now: Moment) -> Option<Conversation> {
        self.touch(id, now)?;
        match &self.entries.get(id)?.content {
            Content::Conversation { created, metadata, items, .. } => Some(Conversation {
                created: *created,
                metadata: metadata.clone(),
                items: items
                    .iter()
                    .map(|(id, digest)| Some((id.clone(), self.texts.get(digest)?)))
                    .collect::<Option<_>>()?,
            }),
            Content::Response { .. } => None,
        }
    }

    /// Finds the item with this id, and counts what it belongs to as used.
    pub(super) fn item(&mut self, id: &str, now: Moment) -> Option<Item> {
        let root = StateId::read(id)?.root;
        let response = format!("resp_{root}");
        if self.touch(&response, now).is_some() {
            let Content::Response { pieces, output, input } = &self.entries.get(&*response)?.content else {
                return None;
            };
            let index = id.rsplit_once('i').filter(|(before, _)| before.ends_with(root));
            if let Some((_, index)) = index {
                return self.texts.get(input.get(index.parse::<usize>().ok()?)?);
            }
            // Quotes within strings are escaped, so only a member has this text.
            let named = format!("\"id\":\"{id}\"");
            let mut items = pieces[output.clone()].iter().filter_map(|digest| self.texts.get(digest));
            return items.find(|item| item.text().contains(&named));
        }
        let items = self.conversation(&format!("conv_{root}"), now)?.items;
        items.into_iter().find(|(known, _)| **known == *id).map(|(_, item)| item)
    }

    pub(super) fn remove(&mut self, id: &str) -> bool {
        let Some(entry) = self.entries.remove(id) else { return false };
        self.order.remove(&entry.turn);
        let texts = &mut self.texts;
        let freed: usize = match &entry.content {
            Content::Response { pieces, input, .. } => {
                pieces.iter().chain(input).map(|digest| texts.remove(digest)).sum()
            }
            Content::Conversation { items, .. } => items.iter().map(|(_, digest)| texts.remove(digest)).sum(),
        };
        self.bytes -= entry.bytes + freed;
        true
    }

    /// Removes the least recently used entry. Returns false if there is none.
    pub(super) fn remove_oldest(&mut self) -> bool {
        let oldest = self.order.first_key_value().map(|(_, id)| id.clone());
        oldest.is_some_and(|id| self.remove(&id))
    }

    /// Removes what was not used for `ttl`. Returns the number of entries.
    pub(super) fn expire(&mut self, ttl: Duration, now: Moment) -> usize {
        let mut gone = 0;
        while let Some((_, id)) = self.order.first_key_value() {
            let id = id.clone();
            if self.entries.get(&id).is_some_and(|entry| now.since(entry.used) < ttl) {
                break;
            }
            gone += usize::from(self.remove(&id));
        }
        gone
    }

    fn insert(&mut self, id: Box<str>, content: Content, bytes: usize, now: Moment) {
        self.turns += 1;
        self.bytes += bytes;
        self.order.insert(self.turns, id.clone());
        self.entries.insert(id, Entry { content, bytes, used: now, turn: self.turns });
    }

    fn touch(&mut self, id: &str, now: Moment) -> Option<()> {
        let entry = self.entries.get_mut(id)?;
        let key = self.order.remove(&entry.turn)?;
        self.turns += 1;
        (entry.turn, entry.used) = (self.turns, now);
        self.order.insert(self.turns, key);
        Some(())
    }

    fn keep(&mut self, item: &Item) -> Digest {
        self.bytes += self.texts.add(item);
        item.digest
    }

    fn items(&self, digests: &[Digest]) -> Option<Vec<Item>> {
        digests.iter().map(|digest| self.texts.get(digest)).collect()
    }
}
