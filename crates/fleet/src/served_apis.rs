//! Paths that an engine serves, by its answers to probes, and the times at which it is asked again.
//!
//! Requests of callers change nothing here: one that gets an answer as of a server without the path only brings the next
//! probe forward.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

use signalbox_types::{EngineApi, Moment, Presence};

/// Time after which a path that is served is asked for again: an engine may have been upgraded without a restart that
/// was noticed.
const MAX_AGE: Duration = Duration::from_hours(1);
/// Shortest and longest pause between two probes for a path that is missing or unclear. Between the two, the pause is a
/// share of the time for which it has been so: what was away for a short time is found within seconds, and what was
/// never there costs one probe a minute.
const SHORTEST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const PAUSE_DIVISOR: u32 = 4;
/// Longest pause for a path that few engines have.
const LONGEST_RARE_PAUSE: Duration = Duration::from_mins(10);
/// Least time between two log lines about a path that goes away.
const REPORTS: Duration = Duration::from_secs(30);

/// Paths of one engine.
#[derive(Debug, Default)]
pub struct ServedApis {
    /// Two bits for each path: absent, present, or neither while unknown. Read by every decision.
    presence: AtomicU32,
    /// One bit for each path: a real request was answered properly.
    answered: AtomicU32,
    /// Nanoseconds of the [`Moment`] at which a probe last found each path after it was missing; 0 before.
    found_at: [AtomicU64; EngineApi::ALL.len()],
    asked: Mutex<[Asked; EngineApi::ALL.len()]>,
}

/// The probes for one path.
#[derive(Copy, Clone, Debug, Default)]
struct Asked {
    /// Time of the next probe.
    due: Moment,
    /// Time of the last probe; `None` before the first.
    at: Option<Moment>,
    /// Status of the last answer that says that the path is missing.
    status: u16,
    /// Time since which the path has been missing.
    missing_since: Moment,
    /// True if it was served before.
    was_served: bool,
    /// Time since which answers have said nothing.
    unclear_since: Option<Moment>,
    /// Probes brought forward in a row that found the path.
    doubts: u32,
    reported_at: Option<Moment>,
    /// True if the log says that the path is missing.
    is_reported: bool,
}

/// A path that is missing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct MissingApi {
    /// The path.
    pub api: EngineApi,
    /// Status of the answer to the last probe.
    pub status: u16,
    /// Time for which it has been missing.
    pub missing_for: Duration,
    /// Time until the next probe.
    pub again_in: Duration,
    /// True if the engine served it before.
    pub was_served: bool,
}

/// A change to be logged.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ApiChange {
    /// The engine serves the path no longer; the answer had this status.
    Gone(u16),
    /// The engine serves the path again, or for the first time, after it was missing for this time.
    Found(Duration),
}

impl ApiChange {
    /// Status of the answer that shows the loss of a path.
    pub fn status(&self) -> Option<u16> {
        if let Self::Gone(status) = self { Some(*status) } else { None }
    }

    /// Time for which a path was missing that is served again.
    pub fn missing_for(&self) -> Option<Duration> {
        if let Self::Found(after) = self { Some(*after) } else { None }
    }
}

const ABSENT: u32 = 1;
const PRESENT: u32 = 2;
const BOTH: u32 = 3;

impl ServedApis {
    /// State of one path.
    pub fn presence(&self, api: EngineApi) -> Presence {
        match self.presence.load(Relaxed) >> shift(api) & BOTH {
            ABSENT => Presence::Absent,
            PRESENT => Presence::Present,
            _ => Presence::Unknown,
        }
    }

    /// Paths that it serves; `None` while nothing is known.
    pub fn served(&self) -> Option<Vec<EngineApi>> {
        let is = |api: &EngineApi| self.presence(*api) == Presence::Present;
        (self.presence.load(Relaxed) != 0).then(|| EngineApi::ALL.into_iter().filter(is).collect())
    }

    /// Paths that are missing.
    pub fn missing(&self, now: Moment) -> Vec<MissingApi> {
        let asked = *self.asked.lock();
        let of = |api: EngineApi| {
            let Asked { due, status, missing_since, was_served, .. } = asked[api as usize];
            let (missing_for, again_in) = (now.since(missing_since), due.since(now));
            MissingApi { api, status, missing_for, again_in, was_served }
        };
        EngineApi::ALL.into_iter().filter(|api| self.presence(*api) == Presence::Absent).map(of).collect()
    }

    /// Paths to be asked for at `now`.
    pub fn due(&self, now: Moment) -> Vec<EngineApi> {
        let asked = self.asked.lock();
        EngineApi::ALL.into_iter().filter(|api| asked[*api as usize].due <= now).collect()
    }

    /// Makes all paths due: the engine was restarted or upgraded.
    pub fn ask_all(&self, now: Moment) {
        self.asked.lock().iter_mut().for_each(|asked| asked.due = asked.due.min(now));
    }

    /// True once every path was asked for.
    pub fn is_asked(&self) -> bool {
        self.asked.lock().iter().all(|asked| asked.at.is_some())
    }

    /// Records the answer to a probe that was made at `now`. `Unknown` keeps what was known: the engine asks for a key,
    /// or is starting. Returns the change to log.
    pub fn probed(&self, api: EngineApi, presence: Presence, status: u16, now: Moment) -> Option<ApiChange> {
        let before = self.presence(api);
        let mut all = self.asked.lock();
        let asked = &mut all[api as usize];
        asked.at = Some(now);
        match presence {
            Presence::Unknown => {
                let since = *asked.unclear_since.get_or_insert(now);
                // Keys are not changed within seconds, and a server may block who knocks often without one.
                let refuses_key = matches!(status, 401 | 403);
                asked.due = now.plus(if refuses_key { MAX_AGE } else { pause(api, now.since(since)) });
                return None;
            }
            Presence::Present => {
                asked.due = now.plus(MAX_AGE);
                self.set(api, PRESENT);
                if before == Presence::Absent {
                    self.found_at[api as usize].store(now.nanos(), Relaxed);
                }
            }
            Presence::Absent => {
                if before != Presence::Absent {
                    asked.missing_since = now;
                    asked.was_served = before == Presence::Present;
                    asked.doubts = 0;
                }
                asked.status = status;
                asked.due = now.plus(pause(api, now.since(asked.missing_since)));
                self.set(api, ABSENT);
            }
        }
        asked.unclear_since = None;
        asked.change(before, presence, now)
    }

    /// Notes that the engine did not answer a probe: all that are due wait for a while.
    pub fn postpone(&self, now: Moment) {
        let mut asked = self.asked.lock();
        for (api, asked) in EngineApi::ALL.into_iter().zip(asked.iter_mut()).filter(|(_, asked)| asked.due <= now) {
            let since = *asked.unclear_since.get_or_insert(now);
            asked.due = now.plus(pause(api, now.since(since)));
        }
    }

    /// Brings the next probe for a path forward, since a request got an answer as of a server without it. Probes that
    /// find it all the same are made at growing intervals.
    pub(super) fn doubt(&self, api: EngineApi, now: Moment) {
        if self.presence(api) == Presence::Absent {
            return;
        }
        self.answered.fetch_and(!(1 << api as u32), Relaxed);
        let asked = &mut self.asked.lock()[api as usize];
        let Some(at) = asked.at else { return };
        if now.since(at) > LONGEST_PAUSE * 2 {
            asked.doubts = 0;
        }
        let next = at.plus(backoff(asked.doubts)).max(now);
        if next < asked.due {
            asked.doubts += 1;
            asked.due = next;
        }
    }

    /// Notes that a real request was answered properly.
    pub(super) fn answered(&self, api: EngineApi) {
        // Answers report the same again and again: memory that is only read stays in all processors' caches.
        if self.answered.load(Relaxed) >> api as u32 & 1 == 0 {
            self.answered.fetch_or(1 << api as u32, Relaxed);
        }
    }

    /// True if a probe found that the path is missing, and no real request was answered properly.
    pub(super) fn is_missing(&self, api: EngineApi) -> bool {
        self.presence(api) == Presence::Absent && self.answered.load(Relaxed) >> api as u32 & 1 == 0
    }

    /// True if a probe found the path at a time after `since`, when it was missing.
    pub(super) fn is_found_since(&self, api: EngineApi, since: Moment) -> bool {
        self.found_at[api as usize].load(Relaxed) > since.nanos()
    }

    fn set(&self, api: EngineApi, bits: u32) {
        let with = |all: u32| Some(all & !(BOTH << shift(api)) | bits << shift(api));
        let _ = self.presence.fetch_update(Relaxed, Relaxed, with);
    }
}

impl Asked {
    fn change(&mut self, before: Presence, after: Presence, now: Moment) -> Option<ApiChange> {
        match (before, after) {
            (Presence::Present, Presence::Absent) => {
                let is_new = self.reported_at.is_none_or(|at| now.since(at) >= REPORTS);
                self.is_reported = is_new;
                self.reported_at = if is_new { Some(now) } else { self.reported_at };
                is_new.then_some(ApiChange::Gone(self.status))
            }
            (Presence::Absent, Presence::Present) => {
                // Of a path that was served before, only if its loss was logged.
                let is_due = std::mem::take(&mut self.is_reported) || !self.was_served;
                is_due.then(|| ApiChange::Found(now.since(self.missing_since)))
            }
            _ => None,
        }
    }
}

/// Pause before the next probe for a path that has been missing, or unclear, for `elapsed`.
fn pause(api: EngineApi, elapsed: Duration) -> Duration {
    let longest = if api.is_rare() { LONGEST_RARE_PAUSE } else { LONGEST_PAUSE };
    (elapsed / PAUSE_DIVISOR).clamp(SHORTEST_PAUSE, longest)
}

/// Least time between two probes that doubts bring forward, after `times` that found the path: it doubles up to a minute.
fn backoff(times: u32) -> Duration {
    SHORTEST_PAUSE.saturating_mul(1 << times.min(5)).min(LONGEST_PAUSE)
}

const fn shift(api: EngineApi) -> u32 {
    api as u32 * 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use EngineApi::{Messages, Responses};

    fn at(millis: u64) -> Moment {
        Moment::default().plus(Duration::from_millis(millis))
    }

    #[test]
    fn each_path_has_its_own_state() {
        let apis = ServedApis::default();
        assert_eq!(apis.served(), None);
        apis.probed(Messages, Presence::Present, 400, at(1));
        apis.probed(Responses, Presence::Absent, 404, at(1));
        apis.probed(Messages, Presence::Unknown, 503, at(2));
        assert_eq!(apis.served(), Some(vec![Messages]));
        assert_eq!((apis.presence(Responses), apis.presence(EngineApi::Chat)), (Presence::Absent, Presence::Unknown));
        apis.probed(Messages, Presence::Absent, 404, at(3));
        assert_eq!(apis.served(), Some(Vec::new()));
    }

    /// Times, in seconds, at which a path is asked for until `end`, if every probe finds it missing.
    fn asked_until(apis: &ServedApis, end: u64) -> Vec<u64> {
        let mut times = Vec::new();
        for second in 0..end {
            if apis.due(at(second * 1000)).contains(&Responses) {
                apis.probed(Responses, Presence::Absent, 404, at(second * 1000));
                times.push(second);
            }
        }
        times
    }

    #[test]
    fn a_missing_path_is_asked_for_within_seconds_and_later_once_a_minute() {
        let times = asked_until(&ServedApis::default(), 3600);
        assert_eq!(times[..6], [0, 2, 4, 6, 8, 10]);
        let late = |second: u64| times.iter().find(|time| **time >= second).unwrap() - second;
        assert!(late(30) <= 8 && late(120) <= 30, "{times:?}");
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= 61) && times.len() < 90, "{}", times.len());
    }

    #[test]
    fn losses_and_returns_are_logged_once_and_not_too_often() {
        let apis = ServedApis::default();
        assert_eq!(apis.probed(Responses, Presence::Present, 400, at(0)), None, "the first round logs it");
        assert_eq!(apis.probed(Responses, Presence::Absent, 404, at(1_000)), Some(ApiChange::Gone(404)));
        assert_eq!(apis.probed(Responses, Presence::Absent, 404, at(3_000)), None);
        let missing = apis.missing(at(4_000))[0];
        assert_eq!((missing.api, missing.status, missing.was_served), (Responses, 404, true));
        assert_eq!((missing.missing_for, missing.again_in), (Duration::from_secs(3), Duration::from_secs(1)));
        let found = ApiChange::Found(Duration::from_secs(4));
        assert_eq!(apis.probed(Responses, Presence::Present, 400, at(5_000)), Some(found));
        assert_eq!(apis.probed(Responses, Presence::Absent, 404, at(6_000)), None, "logged a moment ago");
        assert_eq!(apis.probed(Responses, Presence::Present, 400, at(8_000)), None);
        assert_eq!(apis.probed(Responses, Presence::Absent, 404, at(40_000)), Some(ApiChange::Gone(404)));
        assert!(apis.missing(at(40_000))[0].was_served);
        // One that was never there may come later.
        assert_eq!(apis.probed(Messages, Presence::Absent, 404, at(0)), None);
        let found = ApiChange::Found(Duration::from_secs(9));
        assert_eq!(apis.probed(Messages, Presence::Present, 400, at(9_000)), Some(found));
    }

    #[test]
    fn a_doubt_brings_the_probe_forward_and_many_do_so_ever_less() {
        let apis = ServedApis::default();
        apis.probed(Responses, Presence::Present, 400, at(0));
        let mut probes = 0;
        for tick in 0..3_000 {
            let now = at(tick * 100);
            apis.doubt(Responses, now);
            if apis.due(now).contains(&Responses) {
                apis.probed(Responses, Presence::Present, 400, now);
                probes += 1;
            }
        }
        assert!((5..=12).contains(&probes), "{probes} probes in five minutes of doubts");
        apis.probed(Responses, Presence::Present, 400, at(400_000));
        apis.doubt(Responses, at(600_000));
        assert!(apis.due(at(600_000)).contains(&Responses), "at once, after a quiet time");
        apis.probed(Responses, Presence::Absent, 404, at(600_000));
        apis.doubt(Responses, at(600_001));
        assert!(!apis.due(at(601_000)).contains(&Responses), "it is known");
    }

    #[test]
    fn what_says_nothing_is_asked_again_soon_unless_a_key_is_refused() {
        let apis = ServedApis::default();
        apis.probed(Responses, Presence::Unknown, 503, at(0));
        apis.probed(Messages, Presence::Unknown, 401, at(0));
        let due = apis.due(at(2_000));
        assert!(due.contains(&Responses) && !due.contains(&Messages) && !apis.is_asked());
        apis.ask_all(at(2_500));
        assert_eq!(apis.due(at(2_500)).len(), EngineApi::ALL.len());
        apis.postpone(at(2_500));
        assert!(apis.due(at(3_000)).is_empty() && apis.due(at(4_500)).len() == EngineApi::ALL.len());
    }
}
