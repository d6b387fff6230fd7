//! What was purged, here and elsewhere: until when answers that others wrote are not to be believed in.

use std::{collections::HashMap, sync::Mutex};

use crate::{
    cache::{Purge, Tags},
    measure::lock,
};

/// Purges that wait for the server one by one. One more, and all answers are purged instead.
const PENDING: usize = 1024;
/// Purges up to which those are remembered that the server does not list any more.
const REMEMBERED: usize = 20_000;

/// When something was purged, by the server's clock, in microseconds since 1970.
pub(super) type Stamp = u64;

/// What was purged.
#[derive(Debug, Default)]
pub(super) struct Purges(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    known: HashMap<Tags, Stamp>,
    /// The newest of them.
    newest: Stamp,
    /// Those that the server has not been told of.
    pending: Vec<(Tags, Purge)>,
}

impl Purges {
    /// Something is purged here, and the server is to be told. From now on nothing that it means is taken from there.
    pub(super) fn ask(&self, pattern: Tags, purge: Purge) {
        let mut state = lock(&self.0);
        if state.pending.len() == PENDING {
            state.pending = vec![(Tags::from_bytes([0; 32]), Purge::default())];
        } else {
            state.pending.push((pattern, purge));
        }
    }

    /// What the server is to be told next.
    pub(super) fn pending(&self) -> Option<(Tags, Purge)> {
        lock(&self.0).pending.first().cloned()
    }

    /// The server knows of the purge that it was told of last.
    pub(super) fn told(&self, pattern: Tags, stamp: Stamp) {
        let mut state = lock(&self.0);
        if let Some(at) = state.pending.iter().position(|(waits, _)| *waits == pattern) {
            state.pending.remove(at);
        }
        state.note(pattern, stamp);
    }

    /// All that the server knows of; gives those that were not known here.
    pub(super) fn learn(&self, all: Vec<(Tags, Stamp, Option<Purge>)>) -> Vec<(Stamp, Option<Purge>)> {
        let mut state = lock(&self.0);
        let before = std::mem::take(&mut state.known);
        let mut new = Vec::new();
        for (pattern, stamp, purge) in all {
            state.note(pattern, stamp);
            if before.get(&pattern) != Some(&stamp) {
                new.push((stamp, purge));
            }
        }
        // A server that was set back has forgotten some, and has what they meant.
        for (pattern, stamp) in before {
            if state.known.len() < REMEMBERED {
                state.note(pattern, stamp);
            }
        }
        new
    }

    /// The newest purge that is known here: what is written now was made after it.
    pub(super) fn newest(&self) -> Stamp {
        lock(&self.0).newest
    }

    /// Whether an answer was purged whose writer knew of no later purge than `after`.
    pub(super) fn mean(&self, tags: &Tags, after: Stamp) -> bool {
        let state = lock(&self.0);
        state.pending.iter().any(|(pattern, _)| pattern.cover(tags))
            || state.known.iter().any(|(pattern, stamp)| *stamp > after && pattern.cover(tags))
    }
}

impl State {
    fn note(&mut self, pattern: Tags, stamp: Stamp) {
        let known = self.known.entry(pattern).or_default();
        *known = stamp.max(*known);
        self.newest = self.newest.max(stamp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(caller: u8, route: u8) -> Tags {
        let mut bytes = [0; 32];
        bytes[..8].fill(caller);
        bytes[8..16].fill(route);
        Tags::from_bytes(bytes)
    }

    #[test]
    fn what_was_written_before_a_purge_is_not_believed_in() {
        let purges = Purges::default();
        assert!(!purges.mean(&tags(1, 1), 0));
        purges.ask(tags(1, 0), Purge::default());
        assert!(
            purges.mean(&tags(1, 1), 99) && !purges.mean(&tags(2, 1), 0),
            "before the server knows, whenever it was written"
        );
        assert_eq!(purges.pending().map(|(pattern, _)| pattern), Some(tags(1, 0)));
        purges.told(tags(1, 0), 10);
        assert_eq!((purges.pending(), purges.newest()), (None, 10));
        assert!(purges.mean(&tags(1, 1), 9) && !purges.mean(&tags(1, 1), 10), "what comes after it is new");
        let named = |route: &str| Purge { route: Some(route.to_owned()), ..Purge::default() };
        let all = |stamp| vec![(tags(1, 0), 10, Some(named("own"))), (tags(0, 2), stamp, Some(named("theirs")))];
        assert_eq!(purges.learn(all(20)), [(20, Some(named("theirs")))]);
        assert_eq!(purges.learn(all(20)), [], "once");
        assert_eq!(purges.learn(all(30)), [(30, Some(named("theirs")))], "and again where it was purged again");
        assert!(purges.mean(&tags(3, 2), 29) && !purges.mean(&tags(3, 3), 0));
        assert_eq!(purges.learn(Vec::new()), []);
        assert!(purges.mean(&tags(3, 2), 29), "the server was set back, and we were not");
    }

    #[test]
    fn too_many_to_remember_are_all() {
        let purges = Purges::default();
        (0..=PENDING).for_each(|_| purges.ask(tags(1, 0), Purge::default()));
        assert!(purges.mean(&tags(2, 2), Stamp::MAX));
    }
}
