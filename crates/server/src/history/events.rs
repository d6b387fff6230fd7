//! Events in the life of the gateway, for the marks of charts: bounded in number and length.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::recent::Recent;
use signalbox_fleet::{BreakerState, Snapshot};
use signalbox_types::{Moment, Name};

/// Most events that are kept; the oldest are dropped.
const MOST: usize = 1000;
/// Most characters of an event's text.
const LONGEST: usize = 200;

/// Kind of an event.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// The process started.
    Started,
    /// Another policy is in force.
    Reloaded,
    /// A policy was not loaded.
    ReloadFailed,
    /// Polls of a backend's engine get no answer.
    BackendDown,
    /// They are answered again.
    BackendUp,
    /// Requests avoid a backend, since it failed.
    BreakerOpened,
    /// It serves again.
    BreakerClosed,
    /// An operator changed something.
    Action,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// Seconds since 1970.
    time_s: i64,
    kind: Kind,
    pool: Option<Name>,
    backend: Option<Name>,
    text: String,
}

impl Event {
    /// An event of the gateway, which has no time yet.
    pub(crate) fn new(kind: Kind, text: String) -> Self {
        Self { time_s: 0, kind, pool: None, backend: None, text }
    }
}

/// The last events.
#[derive(Default)]
pub(super) struct Events(Recent<Event, MOST>);

impl Events {
    /// Adds an event that happened at `time`, in Unix seconds.
    pub(super) fn add(&self, time: i64, mut event: Event) {
        event.time_s = time;
        if let Some((end, _)) = event.text.char_indices().nth(LONGEST) {
            event.text.truncate(end);
        }
        self.0.add([event]);
    }

    /// Adds events that have their time.
    pub(super) fn put(&self, events: Vec<Event>) {
        self.0.add(events);
    }

    /// Events after `since`, in Unix seconds, oldest first.
    pub(super) fn since(&self, since: i64) -> Vec<Event> {
        self.0.all().into_iter().filter(|event| event.time_s > since).collect()
    }
}

/// Backends that are down, and those that are broken, by pool and name: each changes with a look.
#[derive(Default)]
pub(crate) struct Seen(HashMap<(Name, Name), (bool, bool)>);

impl Seen {
    /// Events since the last look.
    pub(crate) fn look(&mut self, snapshot: &Snapshot, now: Moment) -> Vec<Event> {
        let (mut events, mut seen) = (Vec::new(), HashMap::with_capacity(self.0.len()));
        for (pool, backend) in snapshot.pools.iter().flat_map(|pool| pool.backends.iter().map(move |it| (pool, it))) {
            let key = (pool.spec.name.clone(), backend.name().clone());
            let name = snapshot.policy.labels.shown(&key.1);
            let (was_down, was_broken) = self.0.get(&key).copied().unwrap_or_default();
            let is_down = backend.engine.is_reachable().map_or(was_down, |up| !up);
            let is_broken = match backend.worst_own_breaker(now).max(backend.engine.breaker.state(now)) {
                BreakerState::Closed => false,
                BreakerState::Open => true,
                BreakerState::HalfOpen => was_broken,
            };
            let mut note = |kind, words: &str| {
                let (pool, backend, text) = (Some(key.0.clone()), Some(key.1.clone()), format!("{name} {words}"));
                events.push(Event { pool, backend, ..Event::new(kind, text) });
            };
            match (was_down, is_down) {
                (false, true) => note(Kind::BackendDown, "does not answer"),
                (true, false) => note(Kind::BackendUp, "answers again"),
                _ => {}
            }
            match (was_broken, is_broken) {
                (false, true) => note(Kind::BreakerOpened, "failed: requests avoid it"),
                (true, false) => note(Kind::BreakerClosed, "serves again"),
                _ => {}
            }
            seen.insert(key, (is_down, is_broken));
        }
        self.0 = seen;
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_bounded_in_number_and_length() {
        let events = Events::default();
        for number in 0..1005 {
            events.add(number, Event::new(Kind::Action, "ä".repeat(LONGEST + 50)));
        }
        let kept = events.since(-1);
        assert_eq!((kept.len(), kept[0].time_s), (1000, 5));
        assert_eq!(kept[0].text.chars().count(), LONGEST);
        assert_eq!(events.since(1000).len(), 4, "those after a time");
    }
}
