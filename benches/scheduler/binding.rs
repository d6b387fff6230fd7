//! Requests held back in front of a baseline's rule: by the gateway's late binding with its hedges, or by Dynamo's router queue.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::Duration,
};

use signalbox::{
    schedule::{
        admission::{Key, Queue, RECHECK_INTERVAL, Waiting, due, holds},
        budget::Budget,
        hedge::{self, Alternative, Awaited},
        predict::Ahead,
    },
    sim::{Job, cluster::Command},
    types::Moment,
};

use crate::{account::Known, learner::Learner};

/// Longest wait and length of the gateway's queue, by default.
const WAIT: Duration = Duration::from_secs(30);
const LENGTH: usize = 1_000;
/// Held requests after which one scan ends, as in the gateway.
const MOST_HELD: usize = 64;

/// Reason to hold requests back.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Hold {
    /// The gateway's: a prompt waits while its engine has enough work.
    Late,
    /// Dynamo's `--router-queue-threshold`: all wait while every engine has more than this number of prompt tokens to compute, and go
    /// in the order of arrival (`fcfs`) or shortest first (`wspt`).
    Router { tokens: u64, shortest_first: bool },
}

/// The requests that wait behind a held one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    This,
    All,
}

/// Held requests, and hedges to come.
pub(crate) struct Binding {
    hold: Hold,
    queue: Queue<u32>,
    keys: HashMap<u32, Key>,
    look_at: Moment,
    awaited: HashMap<u32, Awaited>,
    late: BinaryHeap<Reverse<(Moment, u32)>>,
    hedges: Budget,
}

/// One pass over the held requests, in order.
pub(crate) struct Scan {
    left: std::vec::IntoIter<(Key, u32)>,
    held: usize,
}

impl Scan {
    pub(crate) fn held(&mut self) {
        self.held += 1;
    }

    pub(crate) fn next(&mut self) -> Option<(Key, u32)> {
        if self.held < MOST_HELD { self.left.next() } else { None }
    }
}

impl Binding {
    pub(crate) fn new(hold: Hold) -> Self {
        Self {
            hold,
            queue: Queue::new(if matches!(hold, Hold::Late) { LENGTH } else { usize::MAX }),
            keys: HashMap::new(),
            look_at: Moment::default(),
            awaited: HashMap::new(),
            late: BinaryHeap::new(),
            hedges: hedge::budget(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Requests that wait if `job` is not to be sent to `engine` now.
    pub(crate) fn holds(
        &self,
        now: Moment,
        job: &Job,
        engine: usize,
        engines: &[Known],
        learner: &Learner,
    ) -> Option<Held> {
        match self.hold {
            Hold::Late => {
                let known = &engines[engine];
                let (features, Ahead { wait, prefill, .. }) = learner.ahead(now, known, job);
                let wait = learner.proven_wait(known.engine, wait, now);
                let held = known.gauges.is_some() && holds(wait * known.seen(features.queued), prefill);
                held.then_some(Held::This)
            }
            Hold::Router { tokens, .. } => engines.iter().all(|known| known.queued > tokens).then_some(Held::All),
        }
    }

    /// Queues a request; false if the queue is full.
    pub(crate) fn push(
        &mut self,
        now: Moment,
        number: u32,
        job: &Job,
        known: &Known,
        learner: &Learner,
        out: &mut Vec<Command>,
    ) -> bool {
        let (due, deadline) = match self.hold {
            Hold::Late => (due(now, learner.ahead(now, known, job).1.prefill), Some(now.plus(WAIT))),
            Hold::Router { shortest_first: true, .. } => (Moment::from_nanos(u64::from(job.prompt_tokens)), None),
            Hold::Router { .. } => (now, None),
        };
        let waiting = Waiting { caller: None, work: 0.0, priority: 9, due, deadline, late: None, item: number };
        let Ok(queued) = self.queue.push(now, waiting) else { return false };
        self.keys.insert(number, queued.key);
        out.extend(deadline.map(Command::Wake));
        self.look_again(now, out);
        true
    }

    /// Schedules another look at the held requests.
    pub(crate) fn look_again(&mut self, now: Moment, out: &mut Vec<Command>) {
        if !self.queue.is_empty() && self.look_at <= now {
            self.look_at = now.plus(RECHECK_INTERVAL);
            out.push(Command::Wake(self.look_at));
        }
    }

    /// Removes the requests that have waited for as long as they may.
    pub(crate) fn expired(&mut self, now: Moment) -> Vec<u32> {
        let expired = self.queue.expired(now);
        for number in &expired {
            self.keys.remove(number);
        }
        expired
    }

    pub(crate) fn scan(&self) -> Scan {
        let all: Vec<_> = self.queue.in_order(Moment::default()).map(|(key, number)| (key, *number)).collect();
        Scan { left: all.into_iter(), held: 0 }
    }

    pub(crate) fn remove(&mut self, key: Key, number: u32) {
        self.queue.remove(key);
        self.keys.remove(&number);
    }

    pub(crate) fn leave(&mut self, number: u32) {
        if let Some(key) = self.keys.remove(&number) {
            self.queue.remove(key);
        }
    }

    /// Plans hedges of a request that was sent.
    pub(crate) fn sent(&mut self, number: u32, awaited: Awaited, out: &mut Vec<Command>) {
        if matches!(self.hold, Hold::Router { .. }) {
            return;
        }
        self.hedges.earn();
        for at in [awaited.due(), awaited.stalled_at()].into_iter().flatten() {
            self.late.push(Reverse((at, number)));
            out.push(Command::Wake(at));
        }
        self.awaited.insert(number, awaited);
    }

    /// A request whose first token is late.
    pub(crate) fn due(&mut self, now: Moment) -> Option<u32> {
        while let Some(&Reverse((at, number))) = self.late.peek()
            && at <= now
        {
            self.late.pop();
            if self.awaited.contains_key(&number) {
                return Some(number);
            }
        }
        None
    }

    /// True if a hedge pays; it is then counted.
    pub(crate) fn pays(&mut self, now: Moment, number: u32, other: Alternative) -> bool {
        let pays = self.awaited.get(&number).is_some_and(|awaited| awaited.pays(&other, now)) && self.hedges.take();
        if pays {
            self.awaited.remove(&number);
        }
        pays
    }

    /// Forgets the first token that a request awaits.
    pub(crate) fn forget(&mut self, number: u32) {
        self.awaited.remove(&number);
    }
}
