//! The keys of an account at a provider, used in turn. One that the provider refuses is left out for a while, and tried again after it.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::{measure::lock, types::Moment};

/// For how long a key is left out at first.
const FIRST: Duration = Duration::from_mins(1);
/// For how long at most: it doubles each time that it is refused again.
const LONGEST: Duration = Duration::from_mins(10);

/// Which of an account's keys may be used, by their places.
#[derive(Debug)]
pub struct KeyRing {
    turn: AtomicUsize,
    keys: Mutex<Vec<State>>,
}

#[derive(Copy, Clone, Debug, Default)]
struct State {
    /// Refusals since it was last accepted.
    refused: u32,
    /// Until when it is left out.
    until: Moment,
}

impl KeyRing {
    /// So many keys, all of which may be used.
    pub fn new(keys: usize) -> Self {
        Self { turn: AtomicUsize::new(0), keys: Mutex::new(vec![State::default(); keys]) }
    }

    /// The place of the next key; `None` where every one is left out, or there is none.
    pub fn next(&self, now: Moment) -> Option<usize> {
        let keys = lock(&self.keys);
        let turn = self.turn.fetch_add(1, Relaxed);
        (0..keys.len()).map(|at| turn.wrapping_add(at) % keys.len()).find(|&at| keys[at].until <= now)
    }

    /// The place of the key that is let in again first, for where there is no other.
    pub fn least_refused(&self) -> Option<usize> {
        let keys = lock(&self.keys);
        (0..keys.len()).min_by_key(|&at| keys[at].until)
    }

    /// How many may be used now.
    pub fn ready(&self, now: Moment) -> usize {
        lock(&self.keys).iter().filter(|key| key.until <= now).count()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        lock(&self.keys).len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The provider refused the key at this place. Whether it is that which leaves it out: requests that went with it before are refused
    /// after it.
    pub fn refuse(&self, key: usize, now: Moment) -> bool {
        let mut keys = lock(&self.keys);
        let Some(state) = keys.get_mut(key).filter(|state| state.until <= now) else { return false };
        let pause = FIRST.saturating_mul(1 << state.refused.min(8)).min(LONGEST);
        *state = State { refused: state.refused + 1, until: now.plus(pause) };
        true
    }

    /// The provider took the key at this place.
    pub fn accept(&self, key: usize) {
        if let Some(state) = lock(&self.keys).get_mut(key).filter(|state| state.refused > 0) {
            *state = State::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn keys_take_turns_and_those_refused_are_left_out() {
        let ring = KeyRing::new(3);
        let mut turns: Vec<_> = (0..6).map(|_| ring.next(at(0)).unwrap()).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
        assert!(ring.refuse(1, at(0)) && !ring.refuse(1, at(1)), "it is counted once");
        turns = (0..4).map(|_| ring.next(at(1)).unwrap()).collect();
        assert!(!turns.contains(&1) && ring.ready(at(1)) == 2);
        assert_eq!(ring.ready(at(60)), 3);
    }

    #[test]
    fn who_is_refused_again_waits_longer_until_it_is_accepted() {
        let ring = KeyRing::new(1);
        let mut now = 0;
        for minutes in [1, 2, 4, 8, 10, 10] {
            assert!(ring.refuse(0, at(now)));
            assert_eq!((ring.next(at(now + 60 * minutes - 1)), ring.least_refused()), (None, Some(0)));
            now += 60 * minutes;
            assert_eq!(ring.next(at(now)), Some(0));
        }
        ring.accept(0);
        ring.refuse(0, at(now));
        assert_eq!(ring.ready(at(now + 60)), 1);
        assert!(!ring.refuse(7, at(now)), "a key of another policy");
    }
}
