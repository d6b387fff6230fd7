//! Wait queues of the simulated gateway, on the simulation's clock.

use std::collections::HashMap;

use signalbox_schedule::admission::{Key, Queue, TryAdmit, Waiting, admit_waiting};
use signalbox_types::Moment;

/// Queues of all pools, by index of the pool in the policy.
#[derive(Default)]
pub(super) struct Queues {
    queues: Vec<Queue<u32>>,
    /// Pool and key of each waiting request, by its number.
    places: HashMap<u32, (usize, Key)>,
}

impl Queues {
    /// One queue of at most `length` requests for each of `pools`.
    pub(super) fn new(pools: usize, length: usize) -> Self {
        Self { queues: (0..pools).map(|_| Queue::new(length)).collect(), places: HashMap::new() }
    }

    /// True if no request waits.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Depth of each queue.
    pub(super) fn depths(&self) -> impl Iterator<Item = usize> + '_ {
        self.queues.iter().map(Queue::len)
    }

    /// Joins the queue of `pool`. Returns the request that was displaced, or `Err` if the queue is full.
    pub(super) fn join(&mut self, pool: usize, waiting: Waiting<u32>, now: Moment) -> Result<Option<u32>, ()> {
        let number = waiting.item;
        let queued = self.queues[pool].push(now, waiting).map_err(|_| ())?;
        self.places.insert(number, (pool, queued.key));
        if let Some(displaced) = queued.displaced {
            self.places.remove(&displaced);
        }
        Ok(queued.displaced)
    }

    /// Leaves its queue, if it is in one.
    pub(super) fn leave(&mut self, number: u32) {
        if let Some((pool, key)) = self.places.remove(&number) {
            self.queues[pool].remove(key);
        }
    }

    /// Removes and returns the requests whose wait expired.
    pub(super) fn expired(&mut self, now: Moment) -> Vec<u32> {
        let gone: Vec<u32> = self.queues.iter_mut().flat_map(|queue| queue.expired(now)).collect();
        for number in &gone {
            self.places.remove(number);
        }
        gone
    }

    /// Admits the waiting requests that `try_admit` finds room for.
    pub(super) fn admit(&mut self, try_admit: &mut impl TryAdmit<u32>, now: Moment) {
        for number in admit_waiting(&mut self.queues, try_admit, now) {
            self.places.remove(&number);
        }
    }
}
