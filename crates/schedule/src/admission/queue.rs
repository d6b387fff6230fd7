//! Wait queue of a pool: the most urgent request goes next, and none starves.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use signalbox_types::Moment;

use super::turns::{Key, Place, Turns};

/// Highest priority; the lowest is 0.
const HIGHEST: u8 = 9;
/// A step of priority is worth a tenth of the request's longest wait, so that a request of the lowest priority
/// overtakes newcomers of the highest before its deadline,
const STEPS: u32 = 10;
/// but not less than this: otherwise short deadlines would override priorities,
const SHORTEST_STEP: Duration = Duration::from_secs(3);
/// and not more: requests with more than ten minutes to wait, or without a deadline, age as if they had ten.
const LONGEST_STEP: Duration = Duration::from_mins(1);

/// A bounded queue. Callers take turns, the requests of one caller are ordered by their due time, plus one
/// step for each priority below the highest; then by arrival. Those that have become late are put back by their longest wait: under overload, the order by due time would
/// otherwise make every request late (Baruah et al., Real-Time Systems 4, 1992).
///
/// A step is a tenth of the longest wait (deadline less arrival), but not less than 3 s nor more than a minute. This is
/// priority with aging, one level for each step waited, expressed as a time that never changes. A request of the lowest
/// priority that can wait 30 s or more, and is due at once, has thus overtaken all newcomers before its deadline, and
/// one that can wait for ten minutes yields to urgent requests for most of them. No request starves, since newcomers
/// are due later and later.
///
/// All operations take the time of a tree search, except eviction from a full queue, which looks at all requests.
/// Popped, removed and expired requests leave nothing behind.
#[derive(Debug)]
pub struct Queue<T> {
    length: usize,
    next: u64,
    /// All waiting requests, in the order of arrival.
    entries: BTreeMap<Key, Entry<T>>,
    /// In the order of admission.
    turns: Turns,
    /// Requests with a deadline, earliest first.
    deadlines: BTreeSet<(Moment, Key)>,
    /// Requests that are going to be late, the first of them first.
    late: BTreeSet<(Moment, Key)>,
}

/// A request to be queued.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting<T> {
    /// Caller whose turns it takes. Without one it has a turn of its own.
    pub caller: Option<u64>,
    /// Seconds of an engine that it takes: later by them is the caller's next turn.
    pub work: f64,
    /// From 0, the lowest, to 9.
    pub priority: u8,
    /// Time at which it should go: among equals the earliest is first ([`due`](super::due())).
    pub due: Moment,
    /// Time from which on an answer is useless. Without one it waits until it is popped or removed.
    pub deadline: Option<Moment>,
    /// Time from which on it misses its objective: then others go first.
    pub late: Option<Moment>,
    /// Payload that wakes the request.
    pub item: T,
}

/// Result of queueing a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued<T> {
    /// Its key.
    pub key: Key,
    /// Request that was evicted for it and is to be refused.
    pub displaced: Option<T>,
}

/// A request that found the queue full of requests of the same or a higher priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused<T>(pub T);

#[derive(Debug)]
struct Entry<T> {
    item: T,
    priority: u8,
    deadline: Option<Moment>,
    /// Time at which it is put back; `None` once it was.
    late: Option<Moment>,
    place: Place,
}

// === impl Queue ===

impl<T> Queue<T> {
    /// Creates an empty queue for at most `length` requests.
    pub fn new(length: usize) -> Self {
        Self {
            length,
            next: 0,
            entries: BTreeMap::new(),
            turns: Turns::default(),
            deadlines: BTreeSet::new(),
            late: BTreeSet::new(),
        }
    }

    /// Sets the limit. Requests beyond it stay.
    pub fn set_length(&mut self, length: usize) {
        self.length = length;
    }

    /// Queues `waiting`. In a full queue, another request is evicted for it, or it is refused:
    /// the last of the lowest current level, if the arrival has a strictly higher priority, else the last of the caller with the most
    /// requests, unless the arrival's caller has about as many.
    pub fn push(&mut self, now: Moment, waiting: Waiting<T>) -> Result<Queued<T>, Refused<T>> {
        let mut displaced = None;
        if self.entries.len() >= self.length {
            displaced = self.evict(now, waiting.priority, waiting.caller);
            if displaced.is_none() {
                return Err(Refused(waiting.item));
            }
        }
        let key = Key(self.next);
        self.next += 1;
        let entry = Entry::new(waiting, key, now);
        self.turns.insert(entry.place, now);
        self.deadlines.extend(entry.deadline.map(|deadline| (deadline, key)));
        self.late.extend(entry.late.map(|late| (late, key)));
        self.entries.insert(key, entry);
        Ok(Queued { key, displaced })
    }

    /// Makes room for a request: removes the last of the lowest current level, if `priority` is strictly higher; else
    /// the last of the caller with the most requests, unless `caller` has about as many.
    fn evict(&mut self, now: Moment, priority: u8, caller: Option<u64>) -> Option<T> {
        let levels = self.entries.iter().map(|(key, entry)| (entry.level(now), Reverse((entry.place.stands, *key))));
        let (level, Reverse((_, lowest))) = levels.min()?;
        if level < u64::from(priority) {
            return self.remove(lowest);
        }
        let yields = |key| self.entries.get(&key).is_some_and(|entry| entry.priority <= priority);
        let last = self.turns.last_of_largest(caller, yields)?;
        self.remove(last)
    }

    /// The next request, which keeps waiting. Requests past their deadline are left to [`Queue::expired`].
    pub fn first(&self, now: Moment) -> Option<&T> {
        let key = self.first_key(now)?;
        self.entries.get(&key).map(|entry| &entry.item)
    }

    /// Removes the next request.
    pub fn pop(&mut self, now: Moment) -> Option<T> {
        let key = self.first_key(now)?;
        self.serve(key, now)
    }

    /// Removes the request with this `key`, which is served `now`; `None` if it no longer waits.
    pub(super) fn serve(&mut self, key: Key, now: Moment) -> Option<T> {
        if let Some(entry) = self.entries.get(&key) {
            self.turns.charge(&entry.place, now);
        }
        self.remove(key)
    }

    /// Removes the request with this `key`, whose client left; `None` if it no longer waits.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let entry = self.entries.remove(&key)?;
        self.turns.remove(&entry.place);
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, key));
        }
        if let Some(late) = entry.late {
            self.late.remove(&(late, key));
        }
        Some(entry.item)
    }

    /// Puts the requests back that have become late.
    pub(super) fn put_late_back(&mut self, now: Moment) {
        while let Some(&(late, key)) = self.late.first()
            && late <= now
        {
            self.late.remove(&(late, key));
            if let Some(entry) = self.entries.get_mut(&key) {
                self.turns.remove(&entry.place);
                entry.late = None;
                entry.place.stands = entry.place.stands.plus(step(entry.deadline, entry.place.arrived) * STEPS);
                self.turns.insert(entry.place, now);
            }
        }
    }

    /// Removes all requests past their deadline, earliest first.
    pub fn expired(&mut self, now: Moment) -> Vec<T> {
        let mut expired = Vec::new();
        while let Some(&(deadline, key)) = self.deadlines.first()
            && deadline <= now
        {
            expired.extend(self.remove(key));
        }
        expired
    }

    /// Waiting requests in the order of admission, without those past their deadline.
    pub fn in_order(&self, now: Moment) -> impl Iterator<Item = (Key, &T)> {
        let entry = |key| self.entries.get(&key).map(|entry| (key, entry));
        let waiting = self.turns.in_order(now).filter_map(entry).filter(move |(_, entry)| entry.is_in_time(now));
        waiting.map(|(key, entry)| (key, &entry.item))
    }

    /// Waiting requests in the order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.values().map(|entry| &entry.item)
    }

    /// Number of waiting requests.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if no request waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Wait of the oldest request; zero without one.
    pub fn oldest(&self, now: Moment) -> Duration {
        self.entries.first_key_value().map_or(Duration::ZERO, |(_, entry)| now.since(entry.place.arrived))
    }

    #[cfg(test)]
    pub(super) fn callers(&self) -> usize {
        self.turns.callers()
    }

    fn first_key(&self, now: Moment) -> Option<Key> {
        self.in_order(now).next().map(|(key, _)| key)
    }
}

// === impl Entry ===

impl<T> Entry<T> {
    fn new(waiting: Waiting<T>, key: Key, arrived: Moment) -> Self {
        let Waiting { caller, work, priority, due, deadline, late, item } = waiting;
        let below = HIGHEST.saturating_sub(priority);
        let stands = due.plus(step(deadline, arrived) * u32::from(below));
        let work = Duration::try_from_secs_f64(work).unwrap_or_default();
        Self { item, priority, deadline, late, place: Place { key, caller, arrived, stands, work } }
    }

    /// Its priority after aging.
    fn level(&self, now: Moment) -> u64 {
        let arrived = self.place.arrived;
        let risen = now.since(arrived).as_nanos() / step(self.deadline, arrived).as_nanos();
        u64::from(self.priority).saturating_add(risen as u64)
    }

    fn is_in_time(&self, now: Moment) -> bool {
        self.deadline.is_none_or(|deadline| deadline > now)
    }
}

/// Length of a priority step for a request that arrived at `arrived`.
fn step(deadline: Option<Moment>, arrived: Moment) -> Duration {
    let tenth = |deadline: Moment| deadline.since(arrived) / STEPS;
    deadline.map_or(LONGEST_STEP, tenth).clamp(SHORTEST_STEP, LONGEST_STEP)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    fn push(queue: &mut Queue<u32>, now: u64, item: u32, priority: u8, deadline: Option<u64>) -> Option<u32> {
        queue
            .push(
                at(now),
                Waiting {
                    caller: None,
                    work: 0.0,
                    priority,
                    due: at(now),
                    deadline: deadline.map(at),
                    late: None,
                    item,
                },
            )
            .unwrap()
            .displaced
    }

    fn drain(queue: &mut Queue<u32>, now: u64) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop(at(now))).collect()
    }

    #[test]
    fn order_is_priority_then_due_time_then_arrival() {
        let mut queue = Queue::new(9);
        for (item, priority, due) in [(0, 1, 5_000), (1, 1, 4_000), (2, 1, 4_000), (3, 2, 6_500), (4, 0, 100)] {
            let waiting = Waiting {
                caller: None,
                work: 0.0,
                priority,
                due: at(due),
                deadline: Some(at(30_000)),
                late: None,
                item,
            };
            assert_eq!(queue.push(at(0), waiting).unwrap().displaced, None);
        }
        assert_eq!(
            queue.first(at(1)),
            Some(&4),
            "who is due so much sooner makes up for a step of priority, worth 3 s"
        );
        assert_eq!(drain(&mut queue, 1), [4, 3, 1, 2, 0]);
        assert!(queue.is_empty());
    }

    #[test]
    fn the_lowest_priority_overtakes_newcomers_before_its_deadline() {
        for wait in [30_000, 60_000, 600_000] {
            let mut queue = Queue::new(1_000);
            push(&mut queue, 0, 0, 0, Some(wait));
            let popped = (0..wait).step_by(1_000).position(|now| {
                push(&mut queue, now, 1, 9, Some(now + 30_000));
                queue.pop(at(now)) == Some(0)
            });
            let popped = popped.expect("it does not starve") as u64 * 1_000;
            assert!((wait / 2..wait).contains(&popped), "{popped} of {wait} ms");
        }
        let mut queue = Queue::new(1_000);
        push(&mut queue, 0, 0, 0, None);
        let starves = (0..660_000).step_by(1_000).all(|now| {
            push(&mut queue, now, 1, 9, Some(now + 30_000));
            queue.pop(at(now)) != Some(0)
        });
        assert!(!starves, "nor does one without a deadline");
    }

    #[test]
    fn a_full_queue_evicts_for_higher_priorities_only() {
        let mut queue = Queue::new(2);
        push(&mut queue, 0, 0, 3, None);
        push(&mut queue, 1, 1, 3, None);
        let same =
            Waiting { caller: None, work: 0.0, priority: 3, due: at(9), deadline: Some(at(9)), late: None, item: 2 };
        assert_eq!(queue.push(at(2), same), Err(Refused(2)));
        assert_eq!(push(&mut queue, 2, 3, 4, None), Some(1));
        let late = at(130_000);
        let aged = Waiting { caller: None, work: 0.0, priority: 5, due: late, deadline: None, late: None, item: 4 };
        assert_eq!(queue.push(late, aged), Err(Refused(4)), "who rose is not displaced by what he has reached");
        let none = &mut Queue::new(0);
        assert_eq!(
            none.push(
                at(0),
                Waiting { caller: None, work: 0.0, priority: 9, due: at(0), deadline: None, late: None, item: 0 }
            ),
            Err(Refused(0))
        );
    }

    #[test]
    fn a_late_request_lets_others_go_first() {
        let mut queue = Queue::new(99);
        let waiting = |arrived: u64, item| Waiting {
            caller: None,
            work: 0.0,
            priority: 5,
            due: at(arrived),
            deadline: Some(at(arrived + 40_000)),
            late: Some(at(arrived + 1_000)),
            item,
        };
        for (arrived, item) in [(0, 0), (900, 1)] {
            queue.push(at(arrived), waiting(arrived, item)).unwrap();
        }
        queue.put_late_back(at(999));
        assert_eq!(queue.first(at(999)), Some(&0));
        queue.put_late_back(at(1_000));
        assert_eq!(queue.first(at(1_000)), Some(&1));
        queue.put_late_back(at(2_000));
        assert_eq!(drain(&mut queue, 2_000), [0, 1], "of late ones the first goes first");
        assert!(queue.late.is_empty());
    }

    #[test]
    fn expired_requests_are_returned_and_never_admitted() {
        let mut queue = Queue::new(9);
        push(&mut queue, 0, 0, 9, Some(1_000));
        push(&mut queue, 500, 1, 0, Some(900));
        push(&mut queue, 600, 2, 0, None);
        assert_eq!(queue.oldest(at(700)), Duration::from_millis(700));
        assert_eq!(queue.pop(at(1_000)), Some(2));
        assert_eq!(queue.pop(at(1_000)), None);
        assert_eq!(queue.expired(at(1_000)), [1, 0]);
        assert_eq!((queue.len(), queue.oldest(at(2_000))), (0, Duration::ZERO));
    }

    /// A straightforward model of the queue.
    #[derive(Default)]
    struct Paper(Vec<Written>);

    /// Arrival, priority, deadline, key, item, and when it is due.
    type Written = (u64, u8, Option<u64>, Key, u32, u64);

    impl Paper {
        fn rank(entry: &Written) -> impl Ord + use<> {
            let &(arrived, priority, deadline, key, _, due) = entry;
            (due * 10 + u64::from(9 - priority) * Self::step(arrived, deadline), key)
        }

        /// The request that is evicted for another.
        fn last(&self, now: u64) -> Option<usize> {
            let level = |at: &usize| (Self::level(now, &self.0[*at]), Reverse(Self::rank(&self.0[*at])));
            (0..self.0.len()).min_by_key(level)
        }

        fn sorted(&mut self) -> &mut Vec<Written> {
            self.0.sort_by_key(Self::rank);
            &mut self.0
        }

        fn pop(&mut self, now: u64) -> Option<u32> {
            let sorted = self.sorted();
            let place =
                sorted.iter().position(|(_, _, deadline, ..)| deadline.is_none_or(|deadline| deadline > now))?;
            Some(sorted.remove(place).4)
        }

        fn level(now: u64, entry: &Written) -> u64 {
            let &(arrived, priority, deadline, ..) = entry;
            u64::from(priority) + (now - arrived) * 10 / Self::step(arrived, deadline)
        }

        /// In tenths of a millisecond, so that no remainder is left.
        fn step(arrived: u64, deadline: Option<u64>) -> u64 {
            deadline.map_or(600_000, |deadline| deadline.saturating_sub(arrived)).clamp(30_000, 600_000)
        }
    }

    #[derive(Clone, Debug)]
    enum Act {
        Push { priority: u8, size: u64, wait: Option<u64> },
        Pop,
        Remove(usize),
        Expire,
    }

    fn act() -> impl Strategy<Value = Act> {
        let wait = proptest::option::of(prop_oneof![0..2_000_u64, 10_000..90_000_u64, 500_000..900_000_u64]);
        prop_oneof![
            5 => (0..10_u8, 0..9_000_u64, wait)
                .prop_map(|(priority, size, wait)| Act::Push { priority, size, wait }),
            3 => Just(Act::Pop),
            1 => (0..20_usize).prop_map(Act::Remove),
            1 => Just(Act::Expire),
        ]
    }

    proptest! {
        #[test]
        fn the_queue_agrees_with_its_model(
            length in 0..12_usize,
            acts in proptest::collection::vec((act(), prop_oneof![0..500_u64, 0..20_000_u64]), 0..200),
        ) {
            let (mut queue, mut paper) = (Queue::new(length), Paper::default());
            let (mut now, mut keys) = (0, Vec::new());
            for (item, (act, pause)) in (0..).zip(acts) {
                now += pause;
                match act {
                    Act::Push { priority, size, wait } => {
                        let deadline = wait.map(|wait| now + wait);
                        let last = paper.last(now);
                        let level = last.map(|last| Paper::level(now, &paper.0[last]));
                        let full = paper.0.len() >= length;
                        let taken = !full || level.is_some_and(|level| level < u64::from(priority));
                        let due = now + size;
                        let waiting = Waiting { caller: None, work: 0.0, priority, due: at(due), deadline: deadline.map(at), late: None, item };
                        let pushed = queue.push(at(now), waiting);
                        prop_assert_eq!(pushed.is_ok(), taken);
                        if let Ok(Queued { key, displaced }) = pushed {
                            let expected = last.filter(|_| full).map(|last| paper.0.remove(last).4);
                            prop_assert_eq!(displaced, expected);
                            paper.0.push((now, priority, deadline, key, item, due));
                            keys.push(key);
                        }
                    }
                    Act::Pop => prop_assert_eq!(queue.pop(at(now)), paper.pop(now)),
                    Act::Remove(which) => {
                        let Some(&key) = keys.get(which) else { continue };
                        let place = paper.0.iter().position(|entry| entry.3 == key);
                        prop_assert_eq!(queue.remove(key), place.map(|place| paper.0.remove(place).4));
                    }
                    Act::Expire => {
                        let mut late: Vec<_> =
                            paper.0.extract_if(.., |entry| entry.2.is_some_and(|deadline| deadline <= now)).collect();
                        late.sort_by_key(|entry| (entry.2, entry.3));
                        let late: Vec<_> = late.into_iter().map(|entry| entry.4).collect();
                        prop_assert_eq!(queue.expired(at(now)), late);
                    }
                }
                prop_assert_eq!(queue.len(), paper.0.len());
                prop_assert_eq!(queue.turns.in_order(at(now)).count(), queue.len());
                prop_assert!(queue.deadlines.len() <= queue.len() && queue.len() <= length);
                let oldest = paper.0.iter().map(|entry| entry.0).min().map_or(0, |arrived| now - arrived);
                prop_assert_eq!(queue.oldest(at(now)), Duration::from_millis(oldest));
            }
        }

        /// Whoever is late is overtaken only by those who are due within its bound: nine steps of priority and ten for being late.
        #[test]
        fn late_requests_do_not_starve_and_all_leave(
            requests in proptest::collection::vec((0..2_000_u64, 0..10_u8, 0..5_000_u64, 1_000..120_000_u64, 0..9_000_u64), 1..80),
            served_each in 200..3_000_u64,
        ) {
            let mut queue = Queue::new(usize::MAX);
            let (mut now, mut next) = (0, 0);
            let (mut waiting, mut left) = (std::collections::BTreeMap::new(), 0);
            let mut arriving = requests.iter().scan(0, |at, request| {
                *at += request.0;
                Some((*at, request))
            }).peekable();
            while arriving.peek().is_some() || !queue.is_empty() {
                now += served_each;
                while let Some((arrived, &(_, priority, size, wait, in_time))) = arriving.next_if(|(at, _)| *at <= now) {
                    let (due, deadline) = (arrived + size, arrived + wait);
                    let late = Some(at(arrived + in_time));
                    let entry = Waiting { caller: None, work: 0.0, priority, due: at(due), deadline: Some(at(deadline)), late, item: next };
                    queue.push(at(arrived), entry).unwrap();
                    let step = (wait / 10).clamp(3_000, 60_000);
                    waiting.insert(next, (due, due + step * (19 - u64::from(priority)), deadline));
                    next += 1;
                }
                for item in queue.expired(at(now)) {
                    prop_assert!(waiting.remove(&item).is_some_and(|(.., deadline)| deadline <= now));
                    left += 1;
                }
                queue.put_late_back(at(now));
                if let Some(item) = queue.pop(at(now)) {
                    let (due, ..) = waiting.remove(&item).unwrap();
                    prop_assert!(waiting.values().all(|(_, bound, _)| *bound >= due), "{item} is past the bound of another");
                    left += 1;
                }
            }
            prop_assert_eq!((left, waiting.len()), (requests.len(), 0));
            prop_assert!(queue.turns.in_order(at(now)).next().is_none() && queue.deadlines.is_empty() && queue.late.is_empty());
        }
    }
}
