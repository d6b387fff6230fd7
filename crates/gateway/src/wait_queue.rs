//! Wait queues: a bounded queue for each pool, scanned whenever room may have appeared.
//!
//! Every release of a permit admits waiting requests in the same call. So no request is woken to find that another was
//! faster, and no wake-up can be lost. A request that joins is tried again once it is queued, so that room that
//! appeared in between is not missed. Room that appears only because time passes (a failed engine may be tried again,
//! load from elsewhere has gone) triggers no scan: waiting requests scan for it at intervals.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{
            AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Duration,
};

use parking_lot::Mutex;

use signalbox_schedule::admission::{Key, Queue, RECHECK_INTERVAL, TryAdmit, Wait, Waiting, admit_waiting};
use signalbox_types::{Moment, Name};

/// A waiting request.
pub(super) trait Waiter: Send {
    /// See [`TryAdmit::try_admit`]. A reservation to drop is kept until the request itself is dropped.
    fn try_reserve(&self, now: Moment) -> Result<(), Wait>;

    /// See [`TryAdmit::was_held`].
    fn is_held(&self) -> bool;

    /// See [`TryAdmit::kind`].
    fn kind(&self) -> u64;
}

type PoolQueue = Queue<Box<dyn Waiter>>;

/// Wait queues of all pools, by name. They outlive policies. Empty queues stay too, because their keys are never
/// reused: a request that was admitted and leaves late cannot remove another.
#[derive(Default)]
pub struct WaitQueues {
    /// Number of requests in all queues, so that a release of a permit skips the scan if none waits.
    waiting: AtomicUsize,
    /// Time of the last scan by a waiting request, in nanoseconds of [`Moment`].
    scanned_at: AtomicU64,
    by_pool: Mutex<BTreeMap<Name, PoolQueue>>,
}

/// State of a queue.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The queue's pool.
    pub pool: Name,
    /// Number of waiting requests.
    pub depth: usize,
    /// Number of those that are held although there is room.
    pub held: usize,
    /// Time that the oldest request has waited.
    pub oldest: Duration,
}

impl Standing {
    fn of(pool: &Name, queue: &PoolQueue, now: Moment) -> Self {
        let held = queue.iter().filter(|waiter| waiter.is_held()).count();
        Self { pool: pool.clone(), depth: queue.len(), held, oldest: queue.oldest(now) }
    }
}

/// A place in a queue. Dropping it leaves the queue.
pub(super) struct WaitGuard {
    queues: Arc<WaitQueues>,
    pool: Name,
    key: Key,
}

/// The queue is full.
pub(super) struct Full;

impl WaitQueues {
    /// True if all queues are empty.
    pub fn is_empty(&self) -> bool {
        self.waiting.load(SeqCst) == 0
    }

    /// Returns the state of each queue that is not empty.
    pub fn standings(&self, now: Moment) -> Vec<Standing> {
        let queues = self.by_pool.lock();
        let waiting = queues.iter().filter(|(_, queue)| !queue.is_empty());
        waiting.map(|(pool, queue)| Standing::of(pool, queue, now)).collect()
    }

    /// Returns the state of the queue of `pool`.
    pub(super) fn standing(&self, pool: &Name, now: Moment) -> Standing {
        let queues = self.by_pool.lock();
        let none = || Standing { pool: pool.clone(), depth: 0, held: 0, oldest: Duration::ZERO };
        queues.get(pool).map_or_else(none, |queue| Standing::of(pool, queue, now))
    }

    /// Joins the queue of `pool`, which holds at most `length` requests.
    pub(super) fn join(
        self: &Arc<Self>,
        pool: &Name,
        length: usize,
        waiting: Waiting<Box<dyn Waiter>>,
        now: Moment,
    ) -> Result<WaitGuard, Full> {
        let mut queues = self.by_pool.lock();
        // In a full queue, requests that can be admitted now make room.
        let full = queues.get(pool).is_some_and(|queue| queue.len() >= length);
        let mut removed = if full { scan(&mut queues, now) } else { Vec::new() };
        let queue = queues.entry(pool.clone()).or_insert_with(|| Queue::new(length));
        // The newest policy sets the length.
        queue.set_length(length);
        let joined = queue.push(now, waiting);
        // From here on, every release of a permit sees that a request waits.
        self.count(&queues);
        let result = match joined {
            Ok(placed) => {
                removed.extend(placed.displaced);
                removed.extend(scan(&mut queues, now));
                Ok(WaitGuard { queues: self.clone(), pool: pool.clone(), key: placed.key })
            }
            Err(refused) => {
                removed.push(refused.0);
                Err(Full)
            }
        };
        self.close(queues, removed);
        result
    }

    /// Admits the requests for which there is room by now.
    pub(super) fn scan(&self, now: Moment) {
        if self.is_empty() {
            return;
        }
        let mut queues = self.by_pool.lock();
        let removed = scan(&mut queues, now);
        self.close(queues, removed);
    }

    /// Does the same at the call of a request that has waited for a while, unless another did within
    /// [`RECHECK_INTERVAL`].
    pub(super) fn scan_if_due(&self, now: Moment) {
        let before = self.scanned_at.load(Relaxed);
        let due = now.since(Moment::from_nanos(before)) >= RECHECK_INTERVAL;
        if due && self.scanned_at.compare_exchange(before, now.nanos(), Relaxed, Relaxed).is_ok() {
            self.scan(now);
        }
    }

    /// Updates the count and releases the lock. Removed requests are dropped only then: dropping one may start another
    /// scan.
    fn close(&self, queues: parking_lot::MutexGuard<'_, BTreeMap<Name, PoolQueue>>, removed: Vec<Box<dyn Waiter>>) {
        self.count(&queues);
        drop(queues);
        drop(removed);
    }

    fn count(&self, queues: &BTreeMap<Name, PoolQueue>) {
        self.waiting.store(queues.values().map(Queue::len).sum(), SeqCst);
    }
}

/// Lets each request reserve its own permit.
struct EachReserves;

impl TryAdmit<Box<dyn Waiter>> for EachReserves {
    fn try_admit(&mut self, waiter: &Box<dyn Waiter>, now: Moment) -> Result<(), Wait> {
        waiter.try_reserve(now)
    }

    fn was_held(&self, waiter: &Box<dyn Waiter>) -> bool {
        waiter.is_held()
    }

    fn kind(&self, waiter: &Box<dyn Waiter>) -> u64 {
        waiter.kind()
    }
}

fn scan(queues: &mut BTreeMap<Name, PoolQueue>, now: Moment) -> Vec<Box<dyn Waiter>> {
    admit_waiting(queues.values_mut(), &mut EachReserves, now)
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        let mut queues = self.queues.by_pool.lock();
        let removed = queues.get_mut(&self.pool).and_then(|queue| queue.remove(self.key));
        self.queues.close(queues, removed.into_iter().collect());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use proptest::prelude::*;

    use super::*;

    /// Two rooms with free places, of which a request takes one.
    #[derive(Clone, Default)]
    struct Rooms(Arc<Mutex<[u32; 2]>>);

    struct Request {
        rooms: Rooms,
        /// Permission for the first room, and for the second.
        may: [bool; 2],
        admitted: Arc<AtomicBool>,
    }

    impl Waiter for Request {
        fn try_reserve(&self, _: Moment) -> Result<(), Wait> {
            let mut rooms = self.rooms.0.lock();
            let free = |room: &usize| self.may[*room] && rooms[*room] > 0;
            let room = (0..2).find(free).ok_or(Wait::Full)?;
            rooms[room] -= 1;
            self.admitted.store(true, SeqCst);
            Ok(())
        }

        fn is_held(&self) -> bool {
            false
        }

        fn kind(&self) -> u64 {
            u64::from(self.may[0]) + 2 * u64::from(self.may[1])
        }
    }

    struct Joined {
        guard: WaitGuard,
        may: [bool; 2],
        admitted: Arc<AtomicBool>,
    }

    fn join(queues: &Arc<WaitQueues>, rooms: &Rooms, pool: &str, may: [bool; 2], now: Moment) -> Result<Joined, Full> {
        let admitted = Arc::new(AtomicBool::new(false));
        let item: Box<dyn Waiter> = Box::new(Request { rooms: rooms.clone(), may, admitted: admitted.clone() });
        let guard = queues.join(
            &pool.into(),
            5,
            Waiting { caller: None, work: 0.0, priority: 5, due: now, deadline: None, late: None, item },
            now,
        )?;
        Ok(Joined { guard, may, admitted })
    }

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_request_that_cannot_be_admitted_does_not_block_those_behind() {
        let (queues, rooms) = (Arc::new(WaitQueues::default()), Rooms::default());
        let waiters: Vec<_> = [[true, false], [true, false], [false, true]]
            .into_iter()
            .zip(0..)
            .map(|(may, millis)| join(&queues, &rooms, "p", may, at(millis)).ok().unwrap())
            .collect();
        let admitted = || waiters.iter().map(|waiter| waiter.admitted.load(SeqCst)).collect::<Vec<_>>();
        rooms.0.lock()[1] = 1;
        queues.scan(at(10));
        assert_eq!(admitted(), [false, false, true]);
        rooms.0.lock()[0] = 1;
        queues.scan(at(11));
        assert_eq!(admitted(), [true, false, true], "in the order of arrival");
        let standing = queues.standing(&"p".into(), at(12));
        assert_eq!((standing.depth, standing.oldest), (1, Duration::from_millis(11)));
    }

    /// A request that is held while its engine has enough work.
    struct Held(Arc<AtomicBool>);

    impl Waiter for Held {
        fn try_reserve(&self, _: Moment) -> Result<(), Wait> {
            if self.0.load(SeqCst) { Ok(()) } else { Err(Wait::Held(1)) }
        }

        fn is_held(&self) -> bool {
            !self.0.load(SeqCst)
        }

        fn kind(&self) -> u64 {
            1
        }
    }

    #[test]
    fn a_held_request_lets_others_of_its_kind_pass() {
        const HELD: usize = 96;
        let queues = Arc::new(WaitQueues::default());
        let [busy, idle] = [false, true].map(|free| Arc::new(AtomicBool::new(free)));
        // More than a scan looks at, and behind them one that can be admitted.
        let guards: Vec<_> = std::iter::repeat_n(&busy, HELD)
            .chain([&idle])
            .map(|engine| {
                let item: Box<dyn Waiter> = Box::new(Held(engine.clone()));
                queues
                    .join(
                        &"p".into(),
                        999,
                        Waiting { caller: None, work: 0.0, priority: 5, due: at(0), deadline: None, late: None, item },
                        at(0),
                    )
                    .ok()
            })
            .collect();
        assert_eq!(queues.standing(&"p".into(), at(1)).depth, HELD);
        busy.store(true, SeqCst);
        queues.scan(at(1));
        assert!(queues.is_empty());
        drop(guards);
    }

    #[test]
    fn a_full_queue_rejects_requests_until_one_leaves() {
        let (queues, rooms) = (Arc::new(WaitQueues::default()), Rooms::default());
        let mut waiters: Vec<_> = (0..5).map(|n| join(&queues, &rooms, "p", [true; 2], at(n)).ok().unwrap()).collect();
        assert!(join(&queues, &rooms, "p", [true; 2], at(9)).is_err());
        assert!(join(&queues, &rooms, "q", [true; 2], at(9)).is_ok(), "each pool has its own, and it left at once");
        waiters.pop();
        waiters.extend(join(&queues, &rooms, "p", [true; 2], at(9)));
        assert_eq!((waiters.len(), queues.waiting.load(SeqCst)), (5, 5));
        waiters.clear();
        assert!(queues.is_empty() && queues.standings(at(9)).is_empty());
    }

    proptest! {
        /// After each step of a random sequence, no request waits while there is room for it, and the count is correct.
        #[test]
        fn no_request_waits_while_there_is_room(steps in proptest::collection::vec((0..4_u8, 0..2_usize, 0..20_usize, any::<[bool; 2]>()), 1..200)) {
            let (queues, rooms) = (Arc::new(WaitQueues::default()), Rooms::default());
            let mut here: Vec<Joined> = Vec::new();
            for ((step, which, index, may), millis) in steps.into_iter().zip(0..) {
                let now = at(millis);
                match step {
                    0 | 1 => {
                        let joined = join(&queues, &rooms, ["p", "q"][which], may, now);
                        here.extend(joined);
                    }
                    2 if index < here.len() => drop(here.swap_remove(index)),
                    _ => {
                        rooms.0.lock()[which] += 1;
                        queues.scan(now);
                    }
                }
                let waiting = || here.iter().filter(|waiter| !waiter.admitted.load(SeqCst));
                prop_assert_eq!(queues.waiting.load(SeqCst), waiting().count());
                let room = *rooms.0.lock();
                for waiter in waiting() {
                    prop_assert!((0..2).all(|place| !waiter.may[place] || room[place] == 0));
                    prop_assert!(!waiter.guard.pool.is_empty());
                }
            }
            here.clear();
            prop_assert!(queues.is_empty());
        }
    }
}
