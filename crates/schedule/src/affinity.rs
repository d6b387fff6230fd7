//! Session affinity: the backend that last served each session, as an estimate of what is cached there. It makes that
//! backend cheaper and decides nothing by itself.
//!
//! The prefix index is more exact where it has data. It may lack hashes of the prompt's blocks, may have evicted them,
//! or may be as young as the gateway. A turn of a session extends the turn before it, so the session alone is some
//! evidence.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use parking_lot::Mutex;

use super::prefix::HolderId;
use signalbox_types::Moment;

/// Time after which an idle session is dropped: a sixty-fourth of the expected tokens is left.
const EXPIRY: Duration = Duration::from_hours(1);
/// Seconds of idleness after which an engine's other traffic has evicted a session's prefix with even odds.
const HALF_LIFE_SECONDS: f64 = 600.0;
/// Share of a session's last prompt that is expected to begin its next one. Not all sessions append (edited histories,
/// subagents, trimmed contexts).
const CONFIDENCE: f64 = 0.5;

/// Sessions and the holders that served them last. Shared by reference between threads. Its lock is held for less than
/// a microsecond, except by [`Affinity::clear`]. A session takes about 120 bytes. Beyond the bound the least recently
/// used session is evicted.
#[derive(Debug)]
pub struct Affinity {
    most: usize,
    sessions: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    by_session: HashMap<u64, LastServed>,
    /// Sessions by last use, least recent first.
    by_use: BTreeSet<(Moment, u64)>,
}

/// Last placement of a session.
#[derive(Copy, Clone, Debug)]
struct LastServed {
    holder: HolderId,
    prompt_tokens: u64,
    used: Moment,
}

impl Affinity {
    /// Creates an empty index of at most `most` sessions.
    pub fn new(most: usize) -> Self {
        Self { most, sessions: Mutex::default() }
    }

    /// Records that the session with this hash got its first token from `holder`, for a prompt of `prompt_tokens`.
    pub fn served(&self, session: u64, holder: HolderId, prompt_tokens: u64, now: Moment) {
        let mut sessions = self.sessions.lock();
        sessions.forget(session);
        sessions.expire(now);
        if sessions.by_session.len() >= self.most {
            sessions.forget_oldest();
        }
        if self.most > 0 {
            sessions.by_session.insert(session, LastServed { holder, prompt_tokens, used: now });
            sessions.by_use.insert((now, session));
        }
    }

    /// Holder that served the session last.
    pub fn holder(&self, session: u64) -> Option<HolderId> {
        self.sessions.lock().by_session.get(&session).map(|last| last.holder)
    }

    /// Expected cached tokens of the session's next prompt at `holder`: half of its last prompt, halved again for each
    /// ten minutes since. 0 where another holder served it last, or none. A decision uses the larger of this value and
    /// the prefix index's, capped at the prompt's length.
    pub fn expected_cached(&self, session: u64, holder: HolderId, now: Moment) -> u64 {
        let last = self.sessions.lock().by_session.get(&session).copied();
        let Some(last) = last.filter(|last| last.holder == holder) else { return 0 };
        let idle = now.since(last.used);
        if idle >= EXPIRY {
            return 0;
        }
        let survival = (-idle.as_secs_f64() / HALF_LIFE_SECONDS).exp2();
        (last.prompt_tokens as f64 * CONFIDENCE * survival) as u64
    }

    /// Drops all sessions of `holder` after its engine restarted with an empty cache. Takes time proportional to all
    /// sessions.
    pub fn clear(&self, holder: HolderId) {
        let mut sessions = self.sessions.lock();
        let Sessions { by_session, by_use } = &mut *sessions;
        by_session.retain(|session, last| {
            let stays = last.holder != holder;
            if !stays {
                by_use.remove(&(last.used, *session));
            }
            stays
        });
    }

    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.sessions.lock().by_session.len()
    }

    /// True if there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// 65,536 sessions, which take about 8 MB.
impl Default for Affinity {
    fn default() -> Self {
        Self::new(64 << 10)
    }
}

impl Sessions {
    fn forget(&mut self, session: u64) {
        if let Some(last) = self.by_session.remove(&session) {
            self.by_use.remove(&(last.used, session));
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, session)) = self.by_use.pop_first() {
            self.by_session.remove(&session);
        }
    }

    fn expire(&mut self, now: Moment) {
        while let Some((used, _)) = self.by_use.first()
            && now.since(*used) >= EXPIRY
        {
            self.forget_oldest();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::prefix::PrefixIndex;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    fn holders() -> [HolderId; 3] {
        let index = PrefixIndex::new(1 << 20);
        std::array::from_fn(|_| index.join(1 << 20))
    }

    #[test]
    fn expected_tokens_halve_every_ten_minutes_where_the_session_was_served() {
        let [here, there, _] = holders();
        let affinity = Affinity::default();
        affinity.served(1, here, 8_000, at(0));
        assert_eq!(
            [0, 600, 1_200, 3_599].map(|now| affinity.expected_cached(1, here, at(now))),
            [4_000, 2_000, 1_000, 62]
        );
        assert_eq!(affinity.expected_cached(1, here, at(3_600)), 0);
        assert_eq!((affinity.expected_cached(1, there, at(0)), affinity.expected_cached(2, here, at(0))), (0, 0));
        affinity.served(1, there, 9_000, at(60));
        assert_eq!((affinity.expected_cached(1, here, at(60)), affinity.expected_cached(1, there, at(60))), (0, 4_500));
    }

    #[test]
    fn sessions_are_dropped_after_a_restart_or_an_hour() {
        let [here, there, _] = holders();
        let affinity = Affinity::default();
        (0..10).for_each(|session| affinity.served(session, if session < 4 { here } else { there }, 100, at(session)));
        affinity.clear(here);
        assert_eq!((affinity.len(), affinity.expected_cached(3, here, at(9))), (6, 0));
        affinity.served(99, here, 100, at(3_607));
        assert_eq!(affinity.len(), 3);
        let none = Affinity::new(0);
        none.served(1, here, 100, at(0));
        assert!(none.is_empty());
    }

    proptest! {
        /// Compares with a list in the order of use.
        #[test]
        fn the_least_recently_used_are_evicted_first(
            most in 0..6_usize,
            served in proptest::collection::vec((0..10_u64, 0..3_usize, 0..100_000_u64, 0..1_500_u64, 0..12_u8), 0..100),
        ) {
            let holders = holders();
            let affinity = Affinity::new(most);
            let (mut paper, mut now): (Vec<(u64, usize, u64, u64)>, u64) = (Vec::new(), 0);
            for (session, holder, tokens, pause, act) in served {
                now += pause;
                if act == 0 {
                    affinity.clear(holders[holder]);
                    paper.retain(|last| last.1 != holder);
                    continue;
                }
                affinity.served(session, holders[holder], tokens, at(now));
                paper.retain(|last| last.0 != session && now - last.3 < 3_600);
                paper.push((session, holder, tokens, now));
                let over = paper.len().saturating_sub(most);
                paper.sort_by_key(|last| (last.3, last.0));
                if over > 0 {
                    // The newest session is never evicted, unless the bound is zero.
                    let oldest = paper.iter().position(|last| most == 0 || last.0 != session).unwrap();
                    paper.remove(oldest);
                }
                prop_assert_eq!(affinity.len(), paper.len());
                let listed = affinity.sessions.lock().by_use.len();
                prop_assert!(affinity.len() <= most && affinity.len() == listed);
                for session in 0..10 {
                    let last = paper.iter().find(|last| last.0 == session);
                    for (place, &holder) in holders.iter().enumerate() {
                        let expected = affinity.expected_cached(session, holder, at(now));
                        let most = last.filter(|last| last.1 == place).map_or(0, |last| last.2 / 2);
                        prop_assert!(expected <= most);
                        prop_assert!(last.is_none_or(|last| last.3 < now || expected == most));
                    }
                }
            }
        }
    }
}
