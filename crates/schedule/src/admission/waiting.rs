//! Admission of waiting requests.

use std::{cmp::Reverse, time::Duration};

use super::Queue;
use signalbox_types::Moment;

/// Interval at which waiting requests check whether time alone has made room.
pub const RECHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Most requests of one queue that are tried without success in one scan. Only a queue of many routes has so many
/// different ones.
const MOST_WITHOUT_ROOM: usize = 16;
/// Most requests that are held back for a busy engine in one scan: a burst of prompts with a common beginning wants the
/// same engine. Requests behind them that are not held are tried too, up to as many again.
const MOST_HELD: usize = 32;
/// Most candidates weighed in one scan once half of that bound is reached. The request that releases a place waits for
/// all these decisions, and one among 64 engines takes ten microseconds.
const MOST_WEIGHED: usize = 1024;

/// Reason why a request keeps waiting.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// No backend has room.
    Full,
    /// Its engine has enough work for now; holds the number of candidates that were weighed.
    Held(usize),
}

/// Tries to admit waiting requests.
pub trait TryAdmit<T> {
    /// Reserves a place on an engine for a request, if one is free. A reservation must not be dropped during the call.
    fn try_admit(&mut self, item: &T, now: Moment) -> Result<(), Wait>;

    /// True if there was room for it on arrival, at an engine with enough work.
    fn was_held(&self, item: &T) -> bool;

    /// Class of the request. Requests of one class find room or none alike, though each may wait for another engine.
    /// Where an account has tokens left for small requests only, these wait behind a large one, which would otherwise
    /// never be admitted.
    fn kind(&self, item: &T) -> u64;
}

/// Admits as many requests as possible. The queue whose oldest request has waited longest goes first; each queue keeps
/// its own order. Returns the admitted requests, which have left their queues.
pub fn admit_waiting<'a, T: 'a>(
    queues: impl IntoIterator<Item = &'a mut Queue<T>>,
    admit: &mut impl TryAdmit<T>,
    now: Moment,
) -> Vec<T> {
    let mut order: Vec<_> = queues.into_iter().filter(|queue| !queue.is_empty()).collect();
    order.sort_by_key(|queue| Reverse(queue.oldest(now)));
    let mut admitted = Vec::new();
    for queue in order {
        let (mut full, mut keys) = (Vec::new(), Vec::new());
        let mut scan = Scan::default();
        queue.put_late_back(now);
        for (key, item) in queue.in_order(now) {
            if scan.is_over() {
                break;
            }
            if scan.skips(admit.was_held(item)) {
                continue;
            }
            let kind = admit.kind(item);
            if full.contains(&kind) {
                continue;
            }
            match admit.try_admit(item, now) {
                Ok(()) => keys.push(key),
                Err(Wait::Held(weighed)) => scan.held(weighed),
                Err(Wait::Full) => {
                    scan.without_room();
                    full.push(kind);
                }
            }
        }
        admitted.extend(keys.into_iter().filter_map(|key| queue.serve(key, now)));
    }
    admitted
}

/// State of one scan through a queue, in its order.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Scan {
    without_room: usize,
    held: usize,
    weighed: usize,
}

impl Scan {
    /// True if the scan ends here.
    pub(super) fn is_over(&self) -> bool {
        self.without_room >= MOST_WITHOUT_ROOM || self.has_enough(2)
    }

    /// True if a `held` request is skipped because there were enough of them.
    pub(super) fn skips(&self, held: bool) -> bool {
        held && self.has_enough(1)
    }

    fn has_enough(&self, times: usize) -> bool {
        let weighed = self.weighed >= times * MOST_WEIGHED;
        self.held >= times * if weighed { MOST_HELD / 2 } else { MOST_HELD }
    }

    /// Counts a request without room.
    pub(super) fn without_room(&mut self) {
        self.without_room += 1;
    }

    /// Counts a request whose engine has enough work; `weighed` candidates were compared for it.
    pub(super) fn held(&mut self, weighed: usize) {
        self.held += 1;
        self.weighed += weighed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of held and of other requests that a scan with `candidates` tries.
    fn scan(candidates: usize) -> (usize, usize) {
        let (mut scan, mut seen) = (Scan::default(), (0, 0));
        while !scan.is_over() {
            *(if scan.skips(true) { &mut seen.1 } else { &mut seen.0 }) += 1;
            scan.held(candidates);
        }
        seen
    }

    #[test]
    fn a_scan_tries_fewer_requests_among_many_engines_and_held_ones_do_not_block_others() {
        assert_eq!(scan(8), (32, 32));
        assert_eq!(scan(64), (16, 16));
        assert_eq!(scan(48), (22, 21));
        assert_eq!(scan(5_000), (16, 16));
    }

    #[test]
    fn a_scan_ends_after_a_bound_of_requests_without_room() {
        let mut scan = Scan::default();
        let mut seen = 0;
        while !scan.is_over() {
            scan.without_room();
            seen += 1;
        }
        assert_eq!(seen, 16);
    }
}
