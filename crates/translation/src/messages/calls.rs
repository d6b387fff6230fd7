//! Assigns the deltas of tool calls to calls.
//!
//! The specification gives each call an index, and an id and a name in its first delta. Engines leave out indices, send
//! the same index for every call, repeat ids and names in every delta, or send the name after the id.

use std::hash::{BuildHasher as _, RandomState};

use crate::{chat_answer::CallDelta, json::is_blank};

/// The most calls of one answer: each takes a few bytes here.
const MOST_CALLS: usize = 1024;

/// The most bytes of arguments that may arrive before the name of their call.
const MOST_EARLY: usize = 64 * 1024;

/// The calls of one answer.
#[derive(Default)]
pub(super) struct Calls {
    seen: Vec<Seen>,
    pub(super) current: Option<Current>,
    random: RandomState,
}

/// A call that began: enough to recognise its deltas and a repeated id.
struct Seen {
    index: Option<u64>,
    id: Option<u64>,
}

/// The call that receives arguments. Its strings are escaped.
#[derive(Default)]
pub(super) struct Current {
    index: Option<u64>,
    id: Option<String>,
    /// True if no call before has its id.
    unique: bool,
    name: String,
    /// True once its block has begun; that requires the name.
    pub(super) started: bool,
    /// Arguments that arrived before the name.
    early: String,
    /// The last byte of its arguments.
    last: Option<u8>,
}

/// The relation of a delta to the calls so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It continues the current call.
    Same,
    /// It begins a call.
    New,
    /// It continues a call whose block has ended.
    Late,
}

impl Calls {
    pub(super) fn any(&self) -> bool {
        !self.seen.is_empty()
    }

    /// True if no further call may begin.
    pub(super) fn full(&self) -> bool {
        self.seen.len() >= MOST_CALLS
    }

    pub(super) fn kind(&self, delta: &CallDelta<'_>, id: Option<&str>) -> Kind {
        let name = delta.name();
        let Some(current) = &self.current else {
            let known = self.seen.iter().any(|seen| match id {
                Some(id) => seen.id == Some(self.hash(id)) && seen.index == delta.index(),
                None => delta.index().is_some() && seen.index == delta.index(),
            });
            let begins = if id.is_some() { !known } else { !known && (name.is_some() || delta.index().is_some()) };
            return if begins { Kind::New } else { Kind::Late };
        };
        let other_index = matches!((current.index, delta.index()), (Some(a), Some(b)) if a != b);
        let other_id = matches!((&current.id, id), (Some(a), Some(b)) if a != b);
        let unnamed = current.id.is_none() && current.started;
        let late_id = id.is_some() && unnamed && (name.is_some() || delta.index().is_none());
        let other_name = name.is_some_and(|name| !current.name.is_empty() && current.name != name);
        // `}{` is no JSON, so the arguments of one call ended and those of the next begin.
        let object = matches!(delta.arguments(), Some(arguments) if arguments.escaped().starts_with('{'));
        let next_object = name.is_some() && object && current.last == Some(b'}');
        let unnumbered = delta.index().is_none() && id.is_none() && name.is_some() && current.last.is_some();
        if other_index && id.is_none() && self.seen.iter().any(|seen| seen.index == delta.index()) {
            return Kind::Late;
        }
        if other_index || other_id || late_id || other_name || next_object || unnumbered {
            Kind::New
        } else {
            Kind::Same
        }
    }

    /// Begins a call. The caller has ended the block of the one before.
    pub(super) fn begin(&mut self, delta: &CallDelta<'_>) {
        self.seen.push(Seen { index: delta.index(), id: None });
        self.current = Some(Current { index: delta.index(), ..Current::default() });
    }

    /// Adds what a delta says of the current call. Returns the id and name once the block can begin.
    pub(super) fn identify(&mut self, delta: &CallDelta<'_>, id: Option<&str>) -> Option<(String, String)> {
        let hash = id.map(|id| self.hash(id));
        let count = self.seen.len();
        let random = self.random.hash_one(count);
        let current = self.current.as_mut().filter(|current| !current.started)?;
        if let (None, Some(id)) = (&current.id, id) {
            current.id = Some(id.to_owned());
            // A repeated id would make two results indistinguishable.
            current.unique = !self.seen.iter().any(|seen| seen.id == hash);
            if let Some(seen) = self.seen.last_mut() {
                seen.id = hash;
            }
        }
        delta.name()?.clone_into(&mut current.name);
        current.started = true;
        let id =
            current.id.clone().filter(|_| current.unique).unwrap_or_else(|| format!("toolu_{random:016x}{count:02}"));
        Some((id, current.name.clone()))
    }

    /// Forgets the last call, which said nothing.
    pub(super) fn forget(&mut self) {
        self.seen.pop();
    }

    /// A hash that is enough to compare ids.
    fn hash(&self, id: &str) -> u64 {
        self.random.hash_one(id)
    }
}

impl Current {
    /// Keeps arguments until the name arrives. False if they are too many.
    pub(super) fn keep(&mut self, escaped: &str) -> bool {
        self.early.push_str(escaped);
        self.early.len() <= MOST_EARLY
    }

    /// The arguments that arrived before the name.
    pub(super) fn take_early(&mut self) -> String {
        std::mem::take(&mut self.early)
    }

    /// Notes the last byte of its arguments.
    pub(super) fn note(&mut self, escaped: &str) {
        self.last = escaped.bytes().last().or(self.last);
    }

    /// True if nothing but an id is known of it.
    pub(super) fn is_empty(&self) -> bool {
        self.name.is_empty() && is_blank(&self.early)
    }
}
