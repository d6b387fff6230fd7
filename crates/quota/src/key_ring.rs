//! The keys of an account at a provider, used in rotation. A key that the provider rejects is left out for a while and
//! then tried again.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

use signalbox_types::Moment;

/// The first pause of a rejected key.
const FIRST_EXCLUSION: Duration = Duration::from_mins(1);
/// The longest pause: it doubles with each further rejection.
const MAX_EXCLUSION: Duration = Duration::from_mins(10);

/// The state of an account's keys, by index.
#[derive(Debug)]
pub struct KeyRing {
    turn: AtomicUsize,
    keys: Mutex<Vec<State>>,
}

#[derive(Copy, Clone, Debug, Default)]
struct State {
    /// Rejections since it was last accepted.
    refused: u32,
    /// The time until which it is left out.
    until: Moment,
}

impl KeyRing {
    /// A ring of `keys` usable keys.
    pub fn new(keys: usize) -> Self {
        Self { turn: AtomicUsize::new(0), keys: Mutex::new(vec![State::default(); keys]) }
    }

    /// The index of the next usable key; `None` if every key is left out or there is none.
    pub fn next(&self, now: Moment) -> Option<usize> {
        let keys = self.keys.lock();
        let turn = self.turn.fetch_add(1, Relaxed);
        (0..keys.len()).map(|at| turn.wrapping_add(at) % keys.len()).find(|&at| keys[at].until <= now)
    }

    /// The index of the key whose pause ends first, for use when no other is left.
    pub fn least_refused(&self) -> Option<usize> {
        let keys = self.keys.lock();
        (0..keys.len()).min_by_key(|&at| keys[at].until)
    }

    /// Number of usable keys.
    pub fn ready(&self, now: Moment) -> usize {
        self.keys.lock().iter().filter(|key| key.until <= now).count()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.keys.lock().len()
    }

    /// True if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Records that the provider rejected the key at index `key`. Returns true if this call leaves it out: later
    /// rejections of requests already sent with it return false.
    pub fn refuse(&self, key: usize, now: Moment) -> bool {
        let mut keys = self.keys.lock();
        let Some(state) = keys.get_mut(key).filter(|state| state.until <= now) else { return false };
        let pause = FIRST_EXCLUSION.saturating_mul(1 << state.refused.min(8)).min(MAX_EXCLUSION);
        *state = State { refused: state.refused + 1, until: now.plus(pause) };
        true
    }

    /// Records that the provider accepted the key at index `key`.
    pub fn accept(&self, key: usize) {
        if let Some(state) = self.keys.lock().get_mut(key).filter(|state| state.refused > 0) {
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
    fn pauses_double_until_the_key_is_accepted() {
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
