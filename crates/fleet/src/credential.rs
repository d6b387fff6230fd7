//! Acceptance of API keys: whether a provider accepts the keys of its engines, and since when it refuses them.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

use signalbox_types::Moment;

/// Least time between two log reports of refusals.
const REPORT_INTERVAL: Duration = Duration::from_mins(1);

/// State of the keys of an account, or of an engine without an account. Replacing the keys resets it.
#[derive(Debug)]
pub struct Credential {
    /// True if every key is known to be accepted. A success then needs no lock.
    accepted: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// One entry per key. An engine without keys has one entry too, for requests that carry none.
    keys: Vec<Known>,
    /// Refusals since the last log report, and the time of that report.
    unreported: u64,
    reported_at: Option<Moment>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Known {
    Unknown,
    Accepted,
    Refused(u16, Moment),
}

/// Refused keys of one account.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Number of refused keys.
    pub keys: usize,
    /// Number of all keys.
    pub of: usize,
    /// The HTTP status of the refusal: 401 or 403.
    pub status: u16,
    /// Time of the first refusal among them.
    pub since: Moment,
}

impl Credential {
    /// State of `keys` keys that were never used.
    pub fn new(keys: usize) -> Self {
        let state = State { keys: vec![Known::Unknown; keys.max(1)], unreported: 0, reported_at: None };
        Self { accepted: AtomicBool::new(false), state: Mutex::new(state) }
    }

    /// Records that the provider refused a key. Returns the number of refusals since the last report if a report is
    /// due, which is at most once a minute.
    pub fn refuse(&self, key: usize, status: u16, now: Moment) -> Option<u64> {
        let mut state = self.state.lock();
        self.accepted.store(false, Relaxed);
        if let Some(known) = state.keys.get_mut(key) {
            let since = if let Known::Refused(_, since) = *known { since } else { now };
            *known = Known::Refused(status, since);
        }
        state.unreported = state.unreported.saturating_add(1);
        if state.reported_at.is_some_and(|reported| now.since(reported) < REPORT_INTERVAL) {
            return None;
        }
        state.reported_at = Some(now);
        Some(std::mem::take(&mut state.unreported))
    }

    /// Records that the provider accepted a key. Returns since when it had been refused, if it had.
    pub fn accept(&self, key: usize) -> Option<Moment> {
        if self.accepted.load(Relaxed) {
            return None;
        }
        let mut state = self.state.lock();
        let before = std::mem::replace(state.keys.get_mut(key)?, Known::Accepted);
        self.accepted.store(state.keys.iter().all(|known| *known == Known::Accepted), Relaxed);
        match before {
            Known::Refused(_, since) => Some(since),
            Known::Unknown | Known::Accepted => None,
        }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.state.lock().keys.len()
    }

    /// True if there are no entries; an engine without keys counts as having one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the provider has accepted or refused the key at this index.
    pub fn is_known(&self, key: usize) -> bool {
        self.state.lock().keys.get(key).is_none_or(|known| *known != Known::Unknown)
    }

    /// The refused keys; `None` where no key is.
    pub fn refused(&self) -> Option<Refused> {
        if self.accepted.load(Relaxed) {
            return None;
        }
        let state = self.state.lock();
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
    fn refusals_are_counted_and_reported_once_a_minute() {
        let credential = Credential::new(1);
        assert_eq!((credential.refuse(0, 401, at(5)), credential.refuse(0, 401, at(6))), (Some(1), None));
        assert_eq!(credential.refuse(0, 403, at(64)), None);
        assert_eq!(credential.refuse(0, 403, at(65)), Some(3));
        assert_eq!(credential.refused(), Some(Refused { keys: 1, of: 1, status: 403, since: at(5) }));
        assert_eq!((credential.accept(0), credential.accept(0), credential.refused()), (Some(at(5)), None, None));
        assert_eq!(credential.refuse(0, 401, at(70)), None, "alternating refusals are reported no more often");
    }

    #[test]
    fn a_success_applies_to_its_own_key_only() {
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
