//! Where requests wait for room: a bounded queue for each pool, looked through whenever room may have come up.
//!
//! Whoever gives up a place seats those who wait, then and there: nobody is woken to find that another was faster, and a wake-up
//! cannot be lost. One that joins is looked at once more after it is in the queue, so that room that came up in between is not
//! missed either.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::{
    measure::lock,
    schedule::admission::{Key, Queue, Waiting},
    types::{Moment, Name},
};

/// Most requests of one queue that are looked at in vain before those behind them have to wait for the next time. Only a queue of
/// many routes has so many that differ.
const MOST_IN_VAIN: usize = 16;

/// One who waits.
pub(super) trait Guest: Send {
    /// Takes a place on an engine, if there is room now. Nothing that holds a place may be dropped meanwhile: what has to be
    /// is kept until the guest itself goes.
    fn sit(&self, now: Moment) -> bool;

    /// Those of one kind find room or none alike; `None` for one that is like no other.
    fn kind(&self) -> Option<usize>;
}

type Line = Queue<Box<dyn Guest>>;

/// The queues of all pools, by name. They outlive policies.
#[derive(Default)]
pub struct Hall {
    /// How many wait in all, so that one that gives up a place need not ask further where nobody does.
    waiting: AtomicUsize,
    lines: Mutex<BTreeMap<Name, Line>>,
}

/// How a queue stands.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Its pool.
    pub pool: Name,
    /// How many wait.
    pub depth: usize,
    /// How long the one who came first has waited.
    pub oldest: Duration,
}

/// A place in a queue; dropping it leaves.
pub(super) struct Stay {
    hall: Arc<Hall>,
    pool: Name,
    key: Key,
}

/// The queue has no place left.
pub(super) struct Full;

impl Hall {
    /// Whether nobody waits anywhere.
    pub fn is_empty(&self) -> bool {
        self.waiting.load(SeqCst) == 0
    }

    /// The queues in which anybody waits.
    pub fn standings(&self, now: Moment) -> Vec<Standing> {
        let lines = lock(&self.lines);
        let standing =
            |(pool, line): (&Name, &Line)| Standing { pool: pool.clone(), depth: line.len(), oldest: line.oldest(now) };
        lines.iter().map(standing).collect()
    }

    /// How the queue of `pool` stands.
    pub(super) fn standing(&self, pool: &Name, now: Moment) -> Standing {
        let lines = lock(&self.lines);
        let line = lines.get(pool);
        let oldest = line.map_or(Duration::ZERO, |line| line.oldest(now));
        Standing { pool: pool.clone(), depth: line.map_or(0, Queue::len), oldest }
    }

    /// Joins the queue of `pool`, which takes at most `length`.
    pub(super) fn join(
        self: &Arc<Self>,
        pool: &Name,
        length: usize,
        waiting: Waiting<Box<dyn Guest>>,
        now: Moment,
    ) -> Result<Stay, Full> {
        let mut lines = lock(&self.lines);
        let mut gone = seat(&mut lines, now);
        let line = lines.entry(pool.clone()).or_insert_with(|| Queue::new(length));
        let joined = line.push(now, waiting);
        // From here on, whoever gives up a place sees that somebody waits.
        self.count(&lines);
        let result = match joined {
            Ok(queued) => {
                gone.extend(queued.displaced);
                gone.extend(seat(&mut lines, now));
                Ok(Stay { hall: self.clone(), pool: pool.clone(), key: queued.key })
            }
            Err(refused) => {
                gone.push(refused.0);
                Err(Full)
            }
        };
        self.close(lines, gone);
        result
    }

    /// Seats those for whom there is room by now.
    pub(super) fn stir(&self, now: Moment) {
        if self.is_empty() {
            return;
        }
        let mut lines = lock(&self.lines);
        let gone = seat(&mut lines, now);
        self.close(lines, gone);
    }

    /// Ends what was done under the lock. Those who are gone are dropped after it: with them may go what stirs the hall again.
    fn close(&self, mut lines: std::sync::MutexGuard<'_, BTreeMap<Name, Line>>, gone: Vec<Box<dyn Guest>>) {
        lines.retain(|_, line| !line.is_empty());
        self.count(&lines);
        drop(lines);
        drop(gone);
    }

    fn count(&self, lines: &BTreeMap<Name, Line>) {
        self.waiting.store(lines.values().map(Queue::len).sum(), SeqCst);
    }
}

/// Seats whom it can, the queue whose first has waited longest before the others, each in its own order.
fn seat(lines: &mut BTreeMap<Name, Line>, now: Moment) -> Vec<Box<dyn Guest>> {
    let mut order: Vec<_> = lines.values_mut().collect();
    order.sort_by_key(|line| Reverse(line.oldest(now)));
    let mut seated = Vec::new();
    for line in order {
        let (mut vain, mut looks) = (Vec::new(), 0);
        let mut keys = Vec::new();
        for (key, guest) in line.in_order(now) {
            if looks == MOST_IN_VAIN {
                break;
            }
            let kind = guest.kind();
            if kind.is_some_and(|kind| vain.contains(&kind)) {
                continue;
            }
            if guest.sit(now) {
                keys.push(key);
            } else {
                looks += 1;
                vain.extend(kind);
            }
        }
        seated.extend(keys.into_iter().filter_map(|key| line.remove(key)));
    }
    seated
}

impl Drop for Stay {
    fn drop(&mut self) {
        let mut lines = lock(&self.hall.lines);
        let gone = lines.get_mut(&self.pool).and_then(|line| line.remove(self.key));
        self.hall.close(lines, gone.into_iter().collect());
    }
}
