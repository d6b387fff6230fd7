//! Room of an engine for one model, as its refusals show it: the number of our requests for it that it takes at once.
//!
//! An engine that says that it is full is not broken. One address may stand for several models, each with its own servers
//! behind it, so that each has its own room. It gets as many requests as it held when it refused one, and
//! another one after a rest without refusals, then two, and so on. The rest doubles while the engine refuses what was added, and halves while
//! it takes it, so that a constant limit costs few refusals and a larger one is found soon.

use std::time::Duration;

use parking_lot::Mutex;

use signalbox_types::Moment;

/// Shortest and longest time after which the room grows by one.
const SHORTEST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(30);
/// Times that a step of growth doubles: one after the other was taken.
const MOST_DOUBLINGS: u32 = 4;
/// Pause of an engine that refuses although nothing of ours is there: its room depends on other clients. It doubles with
/// each such refusal.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Most such pauses in a row. After that the engine fails.
const MOST_PAUSES: u32 = 3;
/// Longest pause, also of one that the engine asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Time without refusals after which nothing is known any more. Under load a refusal comes with each step of growth, and so
/// sooner; requests that hang keep others out for no longer.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(1);

/// Learned room of one engine for one model.
#[derive(Debug, Default)]
pub(super) struct Room(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Most of our requests at once; `None` while the engine never refused one.
    limit: Option<u32>,
    /// Time until which it gets no request.
    closed_until: Moment,
    /// Pauses in a row without anything of ours there.
    pauses: u32,
    /// Time between two steps of growth, and the time of the next.
    rest: Duration,
    grows_at: Moment,
    /// Steps of growth since the last refusal.
    steps: u32,
    refused_at: Moment,
}

impl Room {
    /// Records that the engine refused a request for lack of room while it had `others` of our requests. `pause`: the
    /// delay that it asks for.
    ///
    /// Returns false if it has refused several requests in a row that it had to itself: what it lacks is more than room.
    pub(super) fn refused(&self, others: u32, pause: Option<Duration>, now: Moment) -> bool {
        let mut state = self.0.lock();
        let known = state.known(now);
        state.limit = Some(others.min(known.unwrap_or(u32::MAX)).max(1));
        state.rest = match known {
            // Requests that were sent at the same time as the one refused before.
            Some(_) if now.since(state.refused_at) < SHORTEST_REST => state.rest,
            Some(_) => state.rest.saturating_mul(2).min(LONGEST_REST),
            None => SHORTEST_REST,
        };
        state.grows_at = now.plus(state.rest);
        state.steps = 0;
        state.refused_at = now;
        let own = (others == 0).then(|| {
            state.pauses = state.pauses.saturating_add(1);
            FIRST_PAUSE.saturating_mul(1 << (state.pauses - 1).min(MOST_PAUSES))
        });
        if state.pauses > MOST_PAUSES {
            return false;
        }
        if let Some(pause) = pause.max(own) {
            state.closed_until = state.closed_until.max(now.plus(pause.min(LONGEST_PAUSE)));
        }
        true
    }

    /// Records that the engine answered a request while it had `in_flight` of ours, with this one.
    pub(super) fn served(&self, in_flight: u32, now: Moment) {
        let mut state = self.0.lock();
        state.pauses = 0;
        let Some(limit) = state.known(now) else { return };
        if in_flight >= limit && now >= state.grows_at {
            state.limit = Some(limit.saturating_add(1 << state.steps.min(MOST_DOUBLINGS)));
            if state.steps > 0 {
                // The engine took the step before.
                state.rest = (state.rest / 2).max(SHORTEST_REST);
            }
            state.steps = state.steps.saturating_add(1);
            state.grows_at = now.plus(state.rest);
        }
    }

    /// Most of our requests at once; `None` while nothing is known, and 0 while the engine gets none.
    pub(super) fn limit(&self, now: Moment) -> Option<u32> {
        let mut state = self.0.lock();
        if now < state.closed_until {
            return Some(0);
        }
        state.known(now)
    }

    /// Forgets everything: the engine was restarted.
    pub(super) fn clear(&self) {
        *self.0.lock() = State::default();
    }
}

impl State {
    fn known(&mut self, now: Moment) -> Option<u32> {
        if self.limit.is_some() && now.since(self.refused_at) > FORGOTTEN_AFTER {
            *self = Self::default();
        }
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    /// Refusals and mean use of an engine with room for `most(second)`, over so many seconds of full load, with answers of
    /// 250 ms.
    fn run(seconds: u64, most: impl Fn(u64) -> u32) -> (u32, f64) {
        let room = Room::default();
        let (mut refusals, mut served) = (0, 0);
        let quarters = seconds * 4;
        for quarter in 0..quarters {
            let (now, most) = (at(quarter * 250), most(quarter / 4));
            let mut in_flight = 0;
            while in_flight < room.limit(now).unwrap_or(100) {
                if in_flight >= most {
                    refusals += 1;
                    room.refused(in_flight, None, now);
                    break;
                }
                in_flight += 1;
            }
            served += in_flight;
            let there = in_flight;
            (0..there).for_each(|_| room.served(there, at(quarter * 250 + 240)));
        }
        (refusals, f64::from(served) / quarters as f64)
    }

    #[test]
    fn a_constant_room_is_found_with_few_refusals() {
        let (refusals, used) = run(120, |_| 8);
        assert!(refusals <= 12 && used > 7.9, "{refusals} {used}");
    }

    #[test]
    fn a_room_that_grows_is_found() {
        let (refusals, used) = run(120, |second| if second < 20 { 4 } else { 24 });
        assert!(refusals <= 12 && used > 14.0, "{refusals} {used}");
        let (refusals, used) = run(120, |second| if second < 60 { 24 } else { 4 });
        assert!(refusals <= 24 && used > 13.5, "{refusals} {used}");
    }

    #[test]
    fn an_engine_full_of_others_requests_is_left_alone_for_a_moment() {
        let room = Room::default();
        assert_eq!(room.limit(at(0)), None);
        room.refused(0, None, at(0));
        assert_eq!((room.limit(at(199)), room.limit(at(200))), (Some(0), Some(1)));
        room.refused(0, None, at(200));
        assert_eq!((room.limit(at(599)), room.limit(at(600))), (Some(0), Some(1)));
        room.refused(3, Some(Duration::from_secs(2)), at(600));
        assert_eq!((room.limit(at(2_599)), room.limit(at(2_600))), (Some(0), Some(1)));
        room.refused(3, Some(Duration::from_hours(1)), at(3_000));
        assert_eq!((room.limit(at(12_999)), room.limit(at(13_000))), (Some(0), Some(1)), "not for an hour");
        assert_eq!(room.limit(at(400_000)), None, "forgotten");
    }
}
