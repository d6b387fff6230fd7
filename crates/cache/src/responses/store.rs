//! The state of all owners, within a limit on bytes.

use std::{
    collections::{BTreeSet, HashMap},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    id::StateId,
    item::Item,
    object::NewResponse,
    space::{Conversation, Space, StoredResponse},
};
use signalbox_types::{Moment, Name};

/// Owner of state: the id of the caller's key; `None` where the gateway has no keys.
pub type Owner = Option<Name>;

/// Reason why state was removed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// Newer state needed its room.
    Space,
    /// It was not used for as long as the policy says.
    Expired,
    /// Its owner or an operator deleted it, or a policy turned the store off.
    Deleted,
}

impl Evicted {
    /// All reasons, in the order of the counters.
    pub const ALL: [Self; 3] = [Self::Space, Self::Expired, Self::Deleted];

    /// Label of low cardinality for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Space => "space",
            Self::Expired => "expired",
            Self::Deleted => "deleted",
        }
    }
}

/// Responses and conversations of all owners. It stores nothing until it is [configured](Self::configure).
#[derive(Debug, Default)]
pub struct ResponseStore {
    state: Mutex<State>,
    evictions: [AtomicU64; Evicted::ALL.len()],
}

#[derive(Debug, Default)]
struct State {
    spaces: HashMap<Owner, Space>,
    /// Owners by their bytes.
    by_size: BTreeSet<(usize, Owner)>,
    bytes: usize,
    limit: usize,
    ttl: Duration,
}

impl ResponseStore {
    /// Sets the limit on bytes, zero to store nothing, and the time after its last use for which state is kept.
    pub fn configure(&self, bytes: usize, ttl: Duration) {
        let mut state = self.state.lock();
        (state.limit, state.ttl) = (bytes, ttl);
        if bytes == 0 {
            let gone = state.clear();
            return self.count(Evicted::Deleted, gone);
        }
        self.make_room(&mut state);
    }

    /// True if state is stored.
    pub fn is_on(&self) -> bool {
        self.state.lock().limit > 0
    }

    /// Stores a response. Returns false if there is no room for it.
    pub fn put(&self, owner: &Owner, response: &NewResponse, now: Moment) -> bool {
        self.change(owner, now, |space| space.put(response, now));
        self.read(owner, now, |space| space.contains(&response.id).then_some(())).is_some()
    }

    /// Finds a response and counts it as used at `now`.
    pub fn response(&self, owner: &Owner, id: &str, now: Moment) -> Option<StoredResponse> {
        self.read(owner, now, |space| space.response(id, now))
    }

    /// Finds the item with this id in a response or a conversation.
    pub fn item(&self, owner: &Owner, id: &str, now: Moment) -> Option<Item> {
        self.read(owner, now, |space| space.item(id, now))
    }

    /// Stores a conversation under a new id with this common part, and returns the id. The ids of its items are replaced.
    pub fn create(&self, owner: &Owner, root: &str, conversation: &Conversation, now: Moment) -> Box<str> {
        let id: Box<str> = format!("conv_{root}").into();
        self.change(owner, now, |space| space.create(&id, conversation, now));
        id
    }

    /// Finds a conversation and counts it as used at `now`.
    pub fn conversation(&self, owner: &Owner, id: &str, now: Moment) -> Option<Conversation> {
        self.read(owner, now, |space| space.conversation(id, now))
    }

    /// Appends items to a conversation, each with its own id or a new one. Returns their ids; `None` without the
    /// conversation.
    pub fn extend(
        &self,
        owner: &Owner,
        id: &str,
        items: Vec<(Option<Box<str>>, Item)>,
        now: Moment,
    ) -> Option<Vec<Box<str>>> {
        self.change(owner, now, |space| space.extend(id, items, now))
    }

    /// Replaces the metadata of a conversation. Returns false without it.
    pub fn set_metadata(&self, owner: &Owner, id: &str, metadata: Box<str>, now: Moment) -> bool {
        self.change(owner, now, |space| space.set_metadata(id, metadata, now))
    }

    /// Removes an item of a conversation. Returns false without it.
    pub fn remove_item(&self, owner: &Owner, id: &str, item: &str, now: Moment) -> bool {
        self.change(owner, now, |space| space.remove_item(id, item))
    }

    /// Removes a response or a conversation. Returns false if there is none.
    pub fn remove(&self, owner: &Owner, id: &str, now: Moment) -> bool {
        let is_gone = StateId::read(id).is_some() && self.change(owner, now, |space| space.remove(id));
        self.count(Evicted::Deleted, usize::from(is_gone));
        is_gone
    }

    /// Removes the state of one owner, or of all. Returns the number of responses and conversations.
    pub fn purge(&self, owner: Option<&Owner>) -> usize {
        let mut state = self.state.lock();
        let gone = match owner {
            None => state.clear(),
            Some(owner) => state.drop_space(owner),
        };
        self.count(Evicted::Deleted, gone);
        gone
    }

    /// Removes expired state of all owners.
    pub fn sweep(&self, now: Moment) {
        let owners: Vec<_> = self.state.lock().spaces.keys().cloned().collect();
        for owner in owners {
            self.change(&owner, now, |_| ());
        }
    }

    /// Number of responses and conversations.
    pub fn len(&self) -> usize {
        self.state.lock().spaces.values().map(Space::len).sum()
    }

    /// True if nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size of the stored state in bytes.
    pub fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Removals for this reason so far.
    pub fn evicted(&self, reason: Evicted) -> u64 {
        self.evictions[reason as usize].load(Relaxed)
    }

    /// Looks something up in an owner's space, which makes none.
    fn read<T>(&self, owner: &Owner, now: Moment, look: impl FnOnce(&mut Space) -> Option<T>) -> Option<T> {
        let mut state = self.state.lock();
        self.expire(&mut state, owner, now);
        look(state.spaces.get_mut(owner)?)
    }

    /// Changes an owner's space, then makes room.
    fn change<T>(&self, owner: &Owner, now: Moment, change: impl FnOnce(&mut Space) -> T) -> T {
        let mut state = self.state.lock();
        self.expire(&mut state, owner, now);
        let space = state.spaces.entry(owner.clone()).or_default();
        let before = space.bytes();
        let result = change(space);
        let after = space.bytes();
        state.resized(owner, before, after);
        self.make_room(&mut state);
        result
    }

    fn expire(&self, state: &mut State, owner: &Owner, now: Moment) {
        let ttl = state.ttl;
        let Some(space) = state.spaces.get_mut(owner) else { return };
        let before = space.bytes();
        let gone = space.expire(ttl, now);
        let after = space.bytes();
        if gone > 0 {
            state.resized(owner, before, after);
            self.count(Evicted::Expired, gone);
        }
    }

    fn make_room(&self, state: &mut State) {
        while state.bytes > state.limit {
            let Some((before, owner)) = state.by_size.last().cloned() else { return };
            let Some(space) = state.spaces.get_mut(&owner) else { return };
            let is_gone = space.remove_oldest();
            let after = space.bytes();
            state.resized(&owner, before, after);
            if !is_gone {
                return;
            }
            self.count(Evicted::Space, 1);
        }
    }

    fn count(&self, reason: Evicted, entries: usize) {
        self.evictions[reason as usize].fetch_add(entries as u64, Relaxed);
    }
}

impl State {
    /// Notes the new size of an owner's space, and drops the space once it is empty.
    fn resized(&mut self, owner: &Owner, before: usize, after: usize) {
        self.by_size.remove(&(before, owner.clone()));
        self.bytes = self.bytes - before + after;
        if after == 0 {
            self.spaces.remove(owner);
        } else {
            self.by_size.insert((after, owner.clone()));
        }
    }

    fn drop_space(&mut self, owner: &Owner) -> usize {
        let Some(space) = self.spaces.get(owner) else { return 0 };
        let (gone, before) = (space.len(), space.bytes());
        self.resized(owner, before, 0);
        gone
    }

    fn clear(&mut self) -> usize {
        let gone = self.spaces.values().map(Space::len).sum();
        self.spaces.clear();
        self.by_size.clear();
        self.bytes = 0;
        gone
    }
}

#[cfg(test)]
mod tests;
