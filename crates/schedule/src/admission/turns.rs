//! Turns of the callers in a queue: one with two hundred requests delays another's single one by one of them, not by all.
//!
//! A caller's next request counts as if it had arrived when the caller was last served, later by the work that this was.
//! Between callers of like requests this is round robin, and a caller of heavy requests has fewer turns. It is start-time
//! fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) with the wall clock as its virtual time: nobody saves up turns
//! while he does not wait, and the due times and priorities of the queue keep their meaning.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, btree_set},
    iter::Peekable,
    ops::Bound::{Excluded, Unbounded},
    time::Duration,
};

use signalbox_types::Moment;

/// Longest time by which a caller's work puts back the caller's next request, so that one huge prompt bars nobody for long.
const MOST_DEBT: Duration = Duration::from_mins(1);
/// Number of callers from which on those that neither wait nor owe are looked for.
const FIRST_SWEEP: usize = 64;

/// Key of a queued request; never used twice.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub(super) u64);

/// Position of a request: turn, key and caller.
type Turn = (Moment, Key, Option<u64>);

/// A request's place, with all that it depends on.
#[derive(Copy, Clone, Debug)]
pub(super) struct Place {
    pub(super) key: Key,
    /// Caller whose turn it takes; a request without one has a turn of its own.
    pub(super) caller: Option<u64>,
    pub(super) arrived: Moment,
    /// Place among the caller's own requests, by due time and priority.
    pub(super) stands: Moment,
    /// Work that its admission is.
    pub(super) work: Duration,
}

/// Waiting requests in the order of their callers' turns.
#[derive(Debug, Default)]
pub(super) struct Turns {
    callers: HashMap<u64, Caller>,
    /// Next request of each caller, and all requests without a caller.
    heads: BTreeSet<Turn>,
    sweep_at: usize,
}

#[derive(Debug, Default)]
struct Caller {
    waiting: BTreeMap<(Moment, Key), Place>,
    /// Time from which on the next request counts as waiting.
    served: Moment,
}

// === impl Turns ===

impl Turns {
    pub(super) fn insert(&mut self, place: Place, now: Moment) {
        let Some(id) = place.caller else {
            self.heads.insert((place.stands, place.key, None));
            return;
        };
        self.forget_idle(now);
        self.change(id, |caller| caller.waiting.insert((place.stands, place.key), place));
    }

    /// Removes a request that left without being served.
    pub(super) fn remove(&mut self, place: &Place) {
        match place.caller {
            None => {
                self.heads.remove(&(place.stands, place.key, None));
            }
            Some(id) => self.change(id, |caller| caller.waiting.remove(&(place.stands, place.key))),
        }
    }

    /// Charges the work of a request that is being served to its caller.
    pub(super) fn charge(&mut self, place: &Place, now: Moment) {
        if let Some(id) = place.caller {
            self.change(id, |caller| caller.served = after(caller.served, place.work, now));
        }
    }

    /// Keys of all waiting requests in the order in which they would be served at `now`.
    pub(super) fn in_order(&self, now: Moment) -> InOrder<'_> {
        InOrder { turns: self, heads: self.heads.iter().peekable(), following: BinaryHeap::new(), now }
    }

    /// Last request of the caller with the most waiting requests that `may` go, if that caller has at least two more than `id`.
    pub(super) fn last_of_largest(&self, id: Option<u64>, may: impl Fn(Key) -> bool) -> Option<Key> {
        let own = id.and_then(|id| self.callers.get(&id)).map_or(0, |caller| caller.waiting.len());
        let (_, largest) = self.callers.iter().max_by_key(|(id, caller)| (caller.waiting.len(), **id))?;
        let keys = || largest.waiting.keys().rev().map(|(_, key)| *key);
        (largest.waiting.len() > own + 1).then(|| keys().find(|key| may(*key)))?
    }

    /// Changes a caller, and its turn with it.
    fn change<R>(&mut self, id: u64, change: impl FnOnce(&mut Caller) -> R) {
        let caller = self.callers.entry(id).or_default();
        if let Some((turn, key)) = caller.head() {
            self.heads.remove(&(turn, key, Some(id)));
        }
        change(caller);
        self.heads.extend(caller.head().map(|(turn, key)| (turn, key, Some(id))));
    }

    /// Forgets callers that neither wait nor owe, each time that their number has doubled.
    fn forget_idle(&mut self, now: Moment) {
        if self.callers.len() >= self.sweep_at.max(FIRST_SWEEP) {
            self.callers.retain(|_, caller| !caller.waiting.is_empty() || caller.served > now);
            self.sweep_at = 2 * self.callers.len();
        }
    }

    #[cfg(test)]
    pub(super) fn callers(&self) -> usize {
        self.callers.len()
    }
}

// === impl Caller ===

impl Caller {
    /// Turn and key of the next request.
    fn head(&self) -> Option<(Moment, Key)> {
        self.waiting.values().next().map(|place| (place.turn(self.served), place.key))
    }
}

// === impl Place ===

impl Place {
    /// Its turn, if the caller was `served` last at that time.
    fn turn(&self, served: Moment) -> Moment {
        self.stands.plus(served.since(self.arrived))
    }
}

/// Time from which on the next request of a caller counts as waiting, if one of that much `work` is served `now`.
fn after(served: Moment, work: Duration, now: Moment) -> Moment {
    served.max(now).plus(work).min(now.plus(MOST_DEBT))
}

/// Iterator over all waiting requests in the order of turns.
pub(super) struct InOrder<'a> {
    turns: &'a Turns,
    heads: Peekable<btree_set::Iter<'a, Turn>>,
    /// Requests behind those that were passed.
    following: BinaryHeap<Reverse<Following>>,
    now: Moment,
}

/// The next request of a caller of whom others were passed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Following {
    turn: Turn,
    /// Its place among the caller's own.
    stands: Moment,
    /// Time at which the caller is served last if all that were passed are served now.
    served: Moment,
}

impl Iterator for InOrder<'_> {
    type Item = Key;

    fn next(&mut self) -> Option<Key> {
        let head = self.heads.peek().copied();
        let follows = self.following.peek().is_some_and(|Reverse(next)| head.is_none_or(|head| next.turn < *head));
        let passed = if follows { self.following.pop().map(|Reverse(next)| next) } else { None };
        let (_, key, caller) = passed.map_or_else(|| self.heads.next().copied(), |next| Some(next.turn))?;
        self.following.extend(caller.and_then(|id| self.behind(id, key, passed)).map(Reverse));
        Some(key)
    }
}

impl InOrder<'_> {
    /// The request of the caller `id` behind the one with this `key`.
    fn behind(&self, id: u64, key: Key, passed: Option<Following>) -> Option<Following> {
        let caller = self.turns.callers.get(&id)?;
        let first = caller.waiting.values().next()?;
        let (stands, served) = passed.map_or((first.stands, caller.served), |next| (next.stands, next.served));
        let passed = caller.waiting.get(&(stands, key))?;
        let served = after(served, passed.work, self.now);
        let (_, next) = caller.waiting.range((Excluded((stands, key)), Unbounded)).next()?;
        Some(Following { turn: (next.turn(served), next.key, Some(id)), stands: next.stands, served })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Queue, Waiting};
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    fn waiting(caller: Option<u64>, work: f64, now: u64, item: u64) -> Waiting<u64> {
        Waiting { caller, work, priority: 5, due: at(now), deadline: None, late: None, item }
    }

    /// Number of requests that are served before the one `item`, one each `service` milliseconds.
    fn before(queue: &mut Queue<u64>, item: u64, now: u64, service: u64) -> usize {
        (0..9_999).position(|n| queue.pop(at(now + n * service)) == Some(item)).unwrap()
    }

    #[test]
    fn a_lone_request_waits_for_one_of_each_other_caller() {
        for service in [20, 500, 8_000] {
            for floods in 1..4 {
                let mut queue = Queue::new(9_999);
                for n in 0..600 {
                    queue.push(at(0), waiting(Some(n % floods), 0.1, 0, n)).unwrap();
                }
                for n in 0..50 {
                    queue.pop(at(n * service)).unwrap();
                }
                let now = 50 * service;
                queue.push(at(now), waiting(Some(9), 0.1, now, 1_000)).unwrap();
                assert!(before(&mut queue, 1_000, now, service) <= floods as usize, "{floods} each {service} ms");
            }
        }
    }

    #[test]
    fn heavy_requests_take_fewer_turns_and_owe_a_minute_at_most() {
        let mut queue = Queue::new(9_999);
        for n in 0..400 {
            queue.push(at(0), waiting(Some(n % 2), if n % 2 == 0 { 0.1 } else { 1.0 }, 0, n)).unwrap();
        }
        let heavy = (0..110).filter(|n| queue.pop(at(n * 100)).is_some_and(|item| item % 2 == 1)).count();
        assert!((8..14).contains(&heavy), "{heavy}");

        let mut queue = Queue::new(9);
        queue.push(at(0), waiting(Some(0), 1e9, 0, 0)).unwrap();
        queue.pop(at(0)).unwrap();
        queue.push(at(10), waiting(Some(0), 1.0, 10, 1)).unwrap();
        for now in [10, 59_000] {
            queue.push(at(now), waiting(Some(1), 1.0, now, 2)).unwrap();
            assert_eq!(queue.pop(at(now)), Some(2));
        }
        queue.push(at(61_000), waiting(Some(1), 1.0, 61_000, 3)).unwrap();
        assert_eq!(queue.pop(at(61_000)), Some(1));
    }

    #[test]
    fn a_full_queue_makes_room_for_a_caller_with_fewer() {
        let mut queue = Queue::new(4);
        for n in 0..4 {
            queue.push(at(n), waiting(Some(7), 0.1, n, n)).unwrap();
        }
        let mut push = |caller, item| queue.push(at(9), waiting(caller, 0.1, 9, item));
        assert!(push(Some(7), 4).is_err(), "its own do not yield");
        assert_eq!(push(Some(8), 5).unwrap().displaced, Some(3));
        assert_eq!(push(None, 6).unwrap().displaced, Some(2));
        assert!(push(Some(8), 7).is_err(), "two and one are about as many");
        let urgent = Waiting { priority: 4, ..waiting(Some(9), 0.1, 9, 8) };
        assert!(queue.push(at(9), urgent).is_err(), "higher priorities do not yield");
    }

    #[test]
    fn callers_that_neither_wait_nor_owe_are_forgotten() {
        let mut queue = Queue::new(9);
        for n in 0..10_000 {
            queue.push(at(n * 100), waiting(Some(n), 1.0, n * 100, n)).unwrap();
            assert_eq!(queue.pop(at(n * 100)), Some(n));
        }
        assert!(queue.callers() <= 2 * FIRST_SWEEP, "{}", queue.callers());
    }

    proptest! {
        /// The order names each waiting request once, and its first is the one that is served.
        #[test]
        fn the_order_is_of_all_that_wait(
            acts in proptest::collection::vec((0..4_u8, 0..5_u64, 0.0..3.0_f64, 0..3_000_u64), 1..120),
        ) {
            let mut queue = Queue::new(usize::MAX);
            let (mut now, mut waits) = (0, std::collections::BTreeMap::new());
            for (item, (act, caller, work, after)) in (0..).zip(acts) {
                now += after;
                if act < 3 {
                    let asked = waiting(caller.checked_sub(1), work, now, item);
                    waits.insert(item, queue.push(at(now), asked).unwrap().key);
                } else if act == 3 && caller == 0 {
                    if let Some((item, key)) = waits.pop_last() {
                        prop_assert_eq!(queue.remove(key), Some(item));
                    }
                } else {
                    let first = queue.in_order(at(now)).next().map(|(_, item)| *item);
                    let served = queue.pop(at(now));
                    prop_assert_eq!(served, first);
                    prop_assert_eq!(served.is_some(), served.and_then(|item| waits.remove(&item)).is_some());
                }
                let mut order: Vec<_> = queue.in_order(at(now)).map(|(_, item)| *item).collect();
                order.sort_unstable();
                prop_assert_eq!(order, waits.keys().copied().collect::<Vec<_>>());
            }
            while let Some(item) = { now += 10; queue.pop(at(now)) } {
                waits.remove(&item);
            }
            prop_assert!(waits.is_empty() && queue.is_empty());
        }

        /// The order of a scan is the order in which the requests would be served one after another at that moment.
        #[test]
        fn a_scan_sees_the_turns_that_follow(
            requests in proptest::collection::vec((0..4_u64, 0.0..3.0_f64, 0..500_u64), 1..60),
        ) {
            let mut queue = Queue::new(usize::MAX);
            let mut now = 0;
            for (item, (caller, work, after)) in (0..).zip(requests) {
                now += after;
                queue.push(at(now), waiting(caller.checked_sub(1), work, now, item)).unwrap();
            }
            let order: Vec<_> = queue.in_order(at(now)).map(|(_, item)| *item).collect();
            let served: Vec<_> = std::iter::from_fn(|| queue.pop(at(now))).collect();
            prop_assert_eq!(order, served);
        }
    }
}
