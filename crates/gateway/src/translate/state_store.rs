//! Keeps what providers want back with the calls of translated answers, in memory, within a bound.
//!
//! Callers send the ids of calls back and nothing else of it, and a conversation goes on within minutes. State that was
//! used least lately is dropped first; it is lost with the process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use signalbox_translation::{ProviderState, ProviderStates};
use signalbox_types::Name;

/// The most bytes of each generation; there are two.
const MOST_BYTES: usize = 32 << 20;
/// Bytes that an entry takes beside its state.
const OVERHEAD: usize = 256;

/// The state of all callers.
#[derive(Default)]
pub(super) struct StateStore {
    generations: Mutex<Generations>,
}

/// Two generations: when the new one is full, it replaces the old one, and what was used meanwhile has moved on.
#[derive(Default)]
struct Generations {
    new: HashMap<Key, Kept>,
    new_bytes: usize,
    old: HashMap<Key, Kept>,
}

/// The caller's key, if the gateway has keys, and the id of a call.
type Key = (Option<Name>, Box<str>);

#[derive(Clone)]
struct Kept {
    state: Arc<ProviderState>,
    bytes: usize,
}

impl Generations {
    fn insert(&mut self, key: Key, kept: Kept) {
        if self.new_bytes + kept.bytes > MOST_BYTES {
            self.old = std::mem::take(&mut self.new);
            self.new_bytes = 0;
        }
        self.new_bytes += kept.bytes;
        if let Some(before) = self.new.insert(key, kept) {
            self.new_bytes -= before.bytes;
        }
    }

    fn get(&mut self, key: &Key) -> Option<Arc<ProviderState>> {
        if let Some(kept) = self.new.get(key) {
            return Some(kept.state.clone());
        }
        let (key, kept) = self.old.remove_entry(key)?;
        let state = kept.state.clone();
        self.insert(key, kept);
        Some(state)
    }
}

impl StateStore {
    /// The part of one caller.
    pub(super) fn of(self: &Arc<Self>, caller: Option<&Name>) -> Arc<dyn ProviderStates> {
        Arc::new(CallerStates { store: self.clone(), caller: caller.cloned() })
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        // Whole entries are moved, so a panic elsewhere leaves the maps valid.
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of one caller's conversations.
struct CallerStates {
    store: Arc<StateStore>,
    caller: Option<Name>,
}

impl ProviderStates for CallerStates {
    fn keep(&self, call_ids: Vec<String>, state: Arc<ProviderState>, bytes: usize) {
        let mut generations = self.store.lock();
        // The calls of an answer share its state.
        let each = bytes / call_ids.len().max(1);
        for id in call_ids {
            let bytes = each + id.len() + OVERHEAD;
            generations.insert((self.caller.clone(), id.into()), Kept { state: state.clone(), bytes });
        }
    }

    fn of_call(&self, call_id: &str) -> Option<Arc<ProviderState>> {
        self.store.lock().get(&(self.caller.clone(), call_id.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_of_one_caller_and_what_is_used_stays() {
        let store = Arc::new(StateStore::default());
        let (a, b) = (Name::from("a"), Name::from("b"));
        let (of_a, of_b) = (store.of(Some(&a)), store.of(Some(&b)));
        of_a.keep(vec!["x".to_owned(), "y".to_owned()], Arc::default(), 9);
        assert!(of_a.of_call("x").is_some() && of_a.of_call("y").is_some());
        assert!(of_b.of_call("x").is_none() && store.of(None).of_call("x").is_none());
        for round in 0..4 {
            for at in 0..16 {
                of_b.keep(vec![format!("{round}.{at}")], Arc::default(), MOST_BYTES / 16);
            }
            assert!(of_a.of_call("x").is_some(), "{round}");
        }
        assert!(of_a.of_call("y").is_none() && of_b.of_call("0.0").is_none());
        assert!(store.lock().new_bytes <= MOST_BYTES);
    }
}
