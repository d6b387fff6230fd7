//! Whether a provider takes the keys that its engines are called with, and since when it does not.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::{measure::lock, types::Moment};

/// A refusal is told again after this long at the earliest.
const PAUSE: Duration = Duration::from_mins(1);

/// What is known of the keys of an account, or of an engine without one. A change of the keys begins anew.
#[derive(Debug)]
pub struct Credential {
    /// True if every key is known to be taken: then there is nothing to note of a success.
    accepted: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// By their places; an engine without keys has one place all the same, for requests that carry none.
    keys: Vec<Known>,
    /// Refusals since one was told last, and when that was.
    untold: u64,
    told: Option<Moment>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Known {
    Unknown,
    Accepted,
    Refused(u16, Moment),
}

/// Keys that are refused.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// How many of them, and of how many.
    pub keys: usize,
    /// How many there are.
    pub of: usize,
    /// The HTTP status of the refusal: 401 or 403.
    pub status: u16,
    /// Since when the first of them is refused.
    pub since: Moment,
}

impl Credential {
    /// So many keys, of which nothing is known.
    pub fn new(keys: usize) -> Self {
        let state = State { keys: vec![Known::Unknown; keys.max(1)], untold: 0, told: None };
        Self { accepted: AtomicBool::new(false), state: Mutex::new(state) }
    }

    /// The provider refused the key at this place. Returns how many refusals there were since this was last told, where it is to be told
    /// again: at most once a minute.
    pub fn refuse(&self, key: usize, status: u16, now: Moment) -> Option<u64> {
        let mut state = lock(&self.state);
        self.accepted.store(false, Relaxed);
        if let Some(known) = state.keys.get_mut(key) {
            let since = if let Known::Refused(_, since) = *known { since } else { now };
            *known = Known::Refused(status, since);
        }
        state.untold = state.untold.saturating_add(1);
        if state.told.is_some_and(|told| now.since(told) < PAUSE) {
            return None;
        }
        state.told = Some(now);
        Some(std::mem::take(&mut state.untold))
    }

    /// The provider took the key at this place. Returns since when it had been refused, where it had.
    pub fn accept(&self, key: usize) -> Option<Moment> {
        if self.accepted.load(Relaxed) {
            return None;
        }
        let mut state = lock(&self.state);
        let before = std::mem::replace(state.keys.get_mut(key)?, Known::Accepted);
        self.accepted.store(state.keys.iter().all(|known| *known == Known::Accepted), Relaxed);
        match before {
            Known::Refused(_, since) => Some(since),
            Known::Unknown | Known::Accepted => None,
        }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        lock(&self.state).keys.len()
    }

    /// True if there are none; an engine without keys counts as having one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the provider has said anything of the key at this place.
    pub fn is_known(&self, key: usize) -> bool {
        lock(&self.state).keys.get(key).is_none_or(|known| *known != Known::Unknown)
    }

    /// The keys that are refused; `None` where none is.
    pub fn refused(&self) -> Option<Refused> {
        if self.accepted.load(Relaxed) {
            return None;
        }
        let state = lock(&self.state);
        let refused = state.keys.iter().filter_map(|known| match known {
            Known::Refused(status, since) => Some((*since, *status)),
            _ => None,
        });
        let (since, status) = refused.clone().min()?;
        Some(Refused { keys: refused.count(), of: state.keys.len(), status, since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn refusals_are_counted_and_told_once_a_minute() {
        let credential = Credential::new(1);
        assert_eq!((credential.refuse(0, 401, at(5)), credential.refuse(0, 401, at(6))), (Some(1), None));
        assert_eq!(credential.refuse(0, 403, at(64)), None);
        assert_eq!(credential.refuse(0, 403, at(65)), Some(3));
        assert_eq!(credential.refused(), Some(Refused { keys: 1, of: 1, status: 403, since: at(5) }));
        assert_eq!((credential.accept(0), credential.accept(0), credential.refused()), (Some(at(5)), None, None));
        assert_eq!(credential.refuse(0, 401, at(70)), None, "what comes and goes is told no more often");
    }

    #[test]
    fn a_success_speaks_for_its_own_key() {
        let credential = Credential::new(3);
        assert!(!credential.is_known(1) && credential.is_known(7));
        credential.refuse(1, 401, at(1));
        assert_eq!(credential.accept(0), None);
        let refused = credential.refused().unwrap();
        assert_eq!((refused.keys, refused.of), (1, 3));
        credential.refuse(0, 401, at(2));
        credential.refuse(2, 401, at(3));
        let refused = credential.refused().unwrap();
        assert_eq!((refused.keys, refused.of), (3, 3));
        assert_eq!(Credential::new(0).accept(0), None, "an engine without keys may refuse, too");
    }
}
