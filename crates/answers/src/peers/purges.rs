//! Known purges of all gateways. They decide which shared answers are still valid.

use std::collections::HashMap;

use parking_lot::Mutex;

use signalbox_cache::{Purge, Tags};

/// Maximum of pending purges. One more replaces them by a purge of everything.
const PENDING: usize = 1024;
/// Maximum of known purges up to which those that the server no longer lists are kept.
const MOST_KNOWN: usize = 20_000;

/// Time of a purge by the server's clock, in microseconds since 1970.
pub(super) type Stamp = u64;

/// Known purges.
#[derive(Debug, Default)]
pub(super) struct Purges(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    known: HashMap<Tags, Stamp>,
    /// The newest stamp.
    newest: Stamp,
    /// Purges that the server does not have yet.
    pending: Vec<(Tags, Purge)>,
}

impl Purges {
    /// Adds a purge of this gateway. From now on, shared answers that it matches are invalid.
    pub(super) fn add_pending(&self, pattern: Tags, purge: Purge) {
        let mut state = self.0.lock();
        if state.pending.len() == PENDING {
            state.pending = vec![(Tags::from_bytes([0; 32]), Purge::default())];
        } else {
            state.pending.push((pattern, purge));
        }
    }

    /// The next purge to send to the server.
    pub(super) fn pending(&self) -> Option<(Tags, Purge)> {
        self.0.lock().pending.first().cloned()
    }

    /// Records that the server has a pending purge now, with this stamp.
    pub(super) fn sent(&self, pattern: Tags, stamp: Stamp) {
        let mut state = self.0.lock();
        if let Some(at) = state.pending.iter().position(|(pending, _)| *pending == pattern) {
            state.pending.remove(at);
        }
        state.record(pattern, stamp);
    }

    /// Adopts the server's list of purges; returns those that are new here.
    pub(super) fn learn(&self, all: Vec<(Tags, Stamp, Option<Purge>)>) -> Vec<(Stamp, Option<Purge>)> {
        let mut state = self.0.lock();
        let before = std::mem::take(&mut state.known);
        let mut new = Vec::new();
        for (pattern, stamp, purge) in all {
            state.record(pattern, stamp);
            if before.get(&pattern) != Some(&stamp) {
                new.push((stamp, purge));
            }
        }
        // A server that was restored from a backup may lack purges and have the answers that they removed.
        for (pattern, stamp) in before {
            if state.known.len() < MOST_KNOWN {
                state.record(pattern, stamp);
            }
        }
        new
    }

    /// The newest known purge. Answers that are written now were made after it.
    pub(super) fn newest(&self) -> Stamp {
        self.0.lock().newest
    }

    /// True if a purge matches an answer whose writer knew of no later purge than `after`.
    pub(super) fn match_entry(&self, tags: &Tags, after: Stamp) -> bool {
        let state = self.0.lock();
        state.pending.iter().any(|(pattern, _)| pattern.cover(tags))
            || state.known.iter().any(|(pattern, stamp)| *stamp > after && pattern.cover(tags))
    }
}

impl State {
    fn record(&mut self, pattern: Tags, stamp: Stamp) {
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
    fn answers_written_before_a_purge_are_invalid() {
        let purges = Purges::default();
        assert!(!purges.match_entry(&tags(1, 1), 0));
        purges.add_pending(tags(1, 0), Purge::default());
        assert!(
            purges.match_entry(&tags(1, 1), 99) && !purges.match_entry(&tags(2, 1), 0),
            "while the purge is pending, at any time of writing"
        );
        assert_eq!(purges.pending().map(|(pattern, _)| pattern), Some(tags(1, 0)));
        purges.sent(tags(1, 0), 10);
        assert_eq!((purges.pending(), purges.newest()), (None, 10));
        assert!(purges.match_entry(&tags(1, 1), 9) && !purges.match_entry(&tags(1, 1), 10), "later answers are valid");
        let named = |route: &str| Purge { route: Some(route.to_owned()), ..Purge::default() };
        let all = |stamp| vec![(tags(1, 0), 10, Some(named("own"))), (tags(0, 2), stamp, Some(named("theirs")))];
        assert_eq!(purges.learn(all(20)), [(20, Some(named("theirs")))]);
        assert_eq!(purges.learn(all(20)), [], "once");
        assert_eq!(purges.learn(all(30)), [(30, Some(named("theirs")))], "and again where it was purged again");
        assert!(purges.match_entry(&tags(3, 2), 29) && !purges.match_entry(&tags(3, 3), 0));
        assert_eq!(purges.learn(Vec::new()), []);
        assert!(purges.match_entry(&tags(3, 2), 29), "purges outlive their loss on the server");
    }

    #[test]
    fn too_many_pending_purges_become_a_purge_of_everything() {
        let purges = Purges::default();
        (0..=PENDING).for_each(|_| purges.add_pending(tags(1, 0), Purge::default()));
        assert!(purges.match_entry(&tags(2, 2), Stamp::MAX));
    }
}
