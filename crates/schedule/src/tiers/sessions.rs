//! Current tier of each session.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;

use super::lru::Lru;
use signalbox_types::Moment;

/// Pause after which an engine's cache has probably lost a session (see `schedule::affinity`): it may start anew in any
/// tier.
const COLD: Duration = Duration::from_mins(10);
/// Time after which an idle session is dropped. A running tool is waited for as long.
const EXPIRY: Duration = Duration::from_hours(1);
/// Most expired sessions that are dropped with each request: twice as many as can arrive.
const SWEPT: usize = 2;

/// Bounded map of sessions: a session takes about 100 bytes. The lock is held for less than a microsecond.
#[derive(Debug)]
pub(super) struct Sessions {
    sessions: Mutex<Lru<(SessionState, Moment)>>,
    started: AtomicU64,
}

/// Tier of a session and its moves since it was cold.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(super) struct SessionState {
    pub(super) tier: u8,
    /// Consecutive last requests that clearly belong below.
    pub(super) easy: u8,
    pub(super) risen: bool,
    pub(super) fallen: bool,
    /// Highest score of the session's requests.
    pub(super) peak: f64,
    /// Time at which the session began, or began anew.
    pub(super) since: Moment,
}

impl Sessions {
    /// Creates a map of at most `most` sessions.
    pub(super) fn new(most: usize) -> Self {
        Self { sessions: Mutex::new(Lru::new(most)), started: AtomicU64::new(0) }
    }

    /// State of the session, if it is still warm or its tools may still be running.
    pub(super) fn session_state(&self, session: u64, tool_loop: bool, now: Moment) -> Option<SessionState> {
        let (session_state, used) = self.sessions.lock().peek(session).copied()?;
        let max_age = if tool_loop { EXPIRY } else { COLD };
        (now.since(used) < max_age).then_some(session_state)
    }

    /// Stores the session's state; `begins` if it is new. Its hash may change with each turn.
    pub(super) fn store(&self, session: u64, session_state: SessionState, begins: bool, now: Moment) {
        let mut sessions = self.sessions.lock();
        for _ in 0..SWEPT {
            if sessions.oldest().is_some_and(|(_, used)| now.since(*used) >= EXPIRY) {
                sessions.pop_oldest();
            }
        }
        self.started.fetch_add(u64::from(begins), Ordering::Relaxed);
        sessions.insert(session, (session_state, now));
    }

    /// Number of sessions that began.
    pub(super) fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// Drops all sessions.
    pub(super) fn clear(&self) {
        self.sessions.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_session_is_warm_for_ten_minutes_and_its_tools_may_take_an_hour() {
        let sessions = Sessions::new(8);
        let session_state = SessionState { tier: 2, easy: 3, risen: true, peak: 0.7, ..SessionState::default() };
        sessions.store(1, session_state, true, at(0));
        assert_eq!(sessions.session_state(1, false, at(599)), Some(session_state));
        assert_eq!(sessions.session_state(1, false, at(600)), None);
        assert_eq!(sessions.session_state(1, true, at(3_599)), Some(session_state));
        assert_eq!(sessions.session_state(1, true, at(3_600)), None);
    }

    #[test]
    fn sessions_are_forgotten_in_time_and_beyond_their_bound() {
        let sessions = Sessions::new(8);
        (0..20).for_each(|session| sessions.store(session, SessionState::default(), true, at(session)));
        assert_eq!((sessions.sessions.lock().len(), sessions.started()), (8, 20));
        (30..33).for_each(|session| sessions.store(session, SessionState::default(), false, at(7_200)));
        assert_eq!(sessions.sessions.lock().len(), 5, "two go for each that comes");
        sessions.clear();
        assert_eq!(sessions.sessions.lock().len(), 0);
    }
}
