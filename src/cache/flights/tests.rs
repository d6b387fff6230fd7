use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    task::{Context, Poll, Wake, Waker},
};

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{cache::ExactKey, types::Fault};

type Head = &'static str;

fn key() -> FlightKey {
    FlightKey { key: ExactKey::from_bytes([1; 32]), stream: true, acceptable: 1 }
}

fn noop() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn entry(text: &'static str) -> Entry {
    Entry { bytes: Bytes::from_static(text.as_bytes()), token: true, only_usage: false, usage: None }
}

fn write(pilot: &Pilot<Head>, text: &'static str) -> bool {
    pilot.poll_write(&mut Some(entry(text)), &mut noop()).is_ready()
}

fn read(passenger: &mut Passenger<Head>) -> Option<Next> {
    match passenger.poll_next(&mut noop()) {
        Poll::Ready(next) => Some(next),
        Poll::Pending => None,
    }
}

fn all(passenger: &mut Passenger<Head>) -> String {
    let mut text = String::new();
    while let Some(Next::Entry(entry)) = read(passenger) {
        text += std::str::from_utf8(&entry.bytes).unwrap();
    }
    text
}

fn begun(passenger: &mut Passenger<Head>) -> Option<Result<Head, &'static str>> {
    match passenger.poll_begun(&mut noop()) {
        Poll::Ready(Begun::Head(head)) => Some(Ok(*head)),
        Poll::Ready(Begun::Failed(fault)) => Some(Err(fault.kind)),
        Poll::Ready(Begun::TakeOver(_)) => panic!("not called upon"),
        Poll::Pending => None,
    }
}

fn taken_over(passenger: &mut Passenger<Head>) -> Pilot<Head> {
    match passenger.poll_begun(&mut noop()) {
        Poll::Ready(Begun::TakeOver(pilot)) => pilot,
        other => panic!("{other:?}"),
    }
}

fn fault(kind: &'static str) -> Fault {
    Fault::upstream(http::StatusCode::BAD_GATEWAY, kind, "")
}

fn board(flights: &Arc<Flights<Head>>) -> (Passenger<Head>, Pilot<Head>) {
    let (leader, pilot) = flights.board(key());
    (leader, pilot.expect("nobody else has begun"))
}

fn join(flights: &Arc<Flights<Head>>) -> Passenger<Head> {
    let (passenger, pilot) = flights.board(key());
    assert!(pilot.is_none(), "somebody leads already");
    passenger
}

#[test]
fn everybody_reads_all_of_it_whenever_they_join() {
    let flights = Flights::new(100);
    let (mut leader, mut pilot) = board(&flights);
    let mut early = join(&flights);
    assert!(begun(&mut early).is_none() && leader.leads() && !early.leads());
    pilot.begin("head");
    assert!(write(&pilot, "a"));
    let mut late = join(&flights);
    assert_eq!(
        (begun(&mut leader), begun(&mut early), begun(&mut late)),
        (Some(Ok("head")), Some(Ok("head")), Some(Ok("head")))
    );
    assert_eq!(all(&mut early), "a");
    assert!(write(&pilot, "b"));
    assert_eq!(all(&mut late), "ab");
    pilot.end(End::Complete);
    let mut last = join(&flights);
    assert_eq!(last.others(), 3);
    for (passenger, left) in [(&mut leader, "ab"), (&mut early, "b"), (&mut late, ""), (&mut last, "ab")] {
        assert_eq!(all(passenger), left);
        assert_eq!(read(passenger), Some(Next::End(End::Complete)));
    }
    drop(pilot);
    assert!(flights.is_empty());
    let (_, pilot) = flights.board(key());
    assert!(pilot.is_some(), "what is over is not joined");
}

#[test]
fn nobody_waits_for_one_who_was_called_upon_and_left() {
    let flights = Flights::new(100);
    let (mut leader, pilot) = board(&flights);
    let follower = join(&flights);
    pilot.fail(fault("lost"), Others::TakeOverForAll);
    assert!(begun(&mut leader).is_none(), "another's request is to be sent for it");
    drop(follower);
    assert_eq!(begun(&mut leader), Some(Err("lost")));
    assert!(flights.is_empty());
    let (_, pilot) = flights.board(key());
    assert!(pilot.is_some(), "whoever asks now is not let wait with them");

    let (mut leader, pilot) = board(&Flights::new(100));
    assert!(begun(&mut leader).is_none());
    drop(pilot);
    assert_eq!(begun(&mut leader), Some(Err("internal")));
}

#[test]
fn the_request_goes_on_while_anybody_is_left() {
    let flights = Flights::new(100);
    let (leader, mut pilot) = board(&flights);
    let mut follower = join(&flights);
    pilot.begin("head");
    drop(leader);
    assert!(pilot.poll_deserted(&mut noop()).is_pending());
    assert!(write(&pilot, "a"));
    pilot.end(End::Complete);
    assert_eq!(all(&mut follower), "a");

    let (leader, pilot) = {
        drop(pilot);
        board(&flights)
    };
    drop(leader);
    assert!(pilot.poll_deserted(&mut noop()).is_ready());
    let (_new, second) = flights.board(key());
    assert!(second.is_some(), "nobody joins what is being given up");
    drop(pilot);
    assert_eq!(flights.len(), 1, "and its end does not take the new one away");
}

#[test]
fn a_failure_before_the_answer_lets_another_take_over() {
    let flights = Flights::new(100);
    let (mut leader, pilot) = board(&flights);
    let (mut second, mut third) = (join(&flights), join(&flights));
    pilot.fail(fault("one"), Others::TakeOver);
    assert_eq!(begun(&mut leader), Some(Err("one")));
    assert!(begun(&mut third).is_none());
    let pilot = taken_over(&mut second);
    assert!(second.leads());
    pilot.fail(fault("two"), Others::TakeOverForAll);
    assert!(begun(&mut second).is_none(), "who led waits with the others");
    let pilot = taken_over(&mut third);
    pilot.begin("head");
    assert_eq!((begun(&mut second), begun(&mut third)), (Some(Ok("head")), Some(Ok("head"))));
    assert!(write(&pilot, "a"));
    assert_eq!((all(&mut second), all(&mut third)), ("a".into(), "a".into()));
    drop(pilot);
    assert_eq!(read(&mut second), Some(Next::End(End::Broken("internal"))), "a pilot that is lost breaks it off");
}

#[test]
fn takeovers_have_an_end_and_what_fails_everywhere_fails_at_once() {
    let flights = Flights::new(100);
    let (mut leader, pilot) = board(&flights);
    let mut others = [join(&flights), join(&flights), join(&flights)];
    pilot.fail(fault("one"), Others::TakeOverForAll);
    taken_over(&mut others[0]).fail(fault("two"), Others::TakeOverForAll);
    taken_over(&mut others[1]).fail(fault("three"), Others::TakeOverForAll);
    assert_eq!(begun(&mut leader), Some(Err("three")));
    assert!(others.iter_mut().all(|other| begun(other) == Some(Err("three"))));
    assert!(flights.is_empty());

    let (mut leader, pilot) = board(&flights);
    let mut other = join(&flights);
    pilot.fail(fault("bad"), Others::Fail);
    assert_eq!((begun(&mut leader), begun(&mut other)), (Some(Err("bad")), Some(Err("bad"))));
    let (mut leader, pilot) = board(&flights);
    pilot.fail(fault("alone"), Others::TakeOverForAll);
    assert_eq!(begun(&mut leader), Some(Err("alone")));
}

#[test]
fn one_who_is_called_upon_and_leaves_is_replaced() {
    let flights = Flights::new(100);
    let (leader, pilot) = board(&flights);
    let (second, mut third) = (join(&flights), join(&flights));
    pilot.fail(fault("one"), Others::TakeOverForAll);
    drop((leader, second));
    let pilot = taken_over(&mut third);
    drop(pilot);
    assert_eq!(begun(&mut third), Some(Err("internal")));
}

#[test]
fn a_full_log_takes_no_more_readers_and_waits_for_those_it_has() {
    let flights = Flights::new(4);
    let (mut leader, pilot) = board(&flights);
    pilot.begin("head");
    assert!(write(&pilot, "aaaa"));
    assert!(!write(&pilot, "b"), "its one reader has read nothing");
    assert!(!pilot.is_whole());
    let (_other, second) = flights.board(key());
    assert!(second.is_some(), "who comes now would miss the beginning");
    assert_eq!(all(&mut leader), "aaaa");
    assert!(write(&pilot, "bbbbbbbb"), "what is longer than the log passes alone");
    assert_eq!(all(&mut leader), "bbbbbbbb");
}

#[test]
fn who_holds_up_the_others_is_put_off() {
    let flights = Flights::new(4);
    let (mut leader, pilot) = board(&flights);
    let mut slow = join(&flights);
    pilot.begin("head");
    for text in ["aa", "bb", "cc", "dd"] {
        assert!(write(&pilot, text));
        assert_eq!(all(&mut leader), text);
    }
    assert_eq!(read(&mut slow), Some(Next::TooSlow));
    drop(leader);
    assert!(pilot.poll_deserted(&mut noop()).is_pending());
    drop(slow);
    assert!(pilot.poll_deserted(&mut noop()).is_ready());
}

struct Bell(AtomicU32);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn who_waits_is_woken() {
    let bells = [(); 3].map(|()| Arc::new(Bell(AtomicU32::new(0))));
    let rung = |at: usize| bells[at].0.swap(0, Relaxed) > 0;
    let wakers = [0, 1, 2].map(|at: usize| Waker::from(bells[at].clone()));
    let [mut first, mut second, mut flier] = [0, 1, 2].map(|at: usize| Context::from_waker(&wakers[at]));
    let flights = Flights::new(4);
    let (mut leader, pilot) = board(&flights);
    let mut follower = join(&flights);
    assert!(leader.poll_begun(&mut first).is_pending() && follower.poll_begun(&mut second).is_pending());
    pilot.begin("head");
    assert!(rung(0) && rung(1));
    assert!(leader.poll_next(&mut first).is_pending() && follower.poll_next(&mut second).is_pending());
    assert!(write(&pilot, "aaaa"));
    assert!(rung(0) && rung(1));
    assert!(pilot.poll_write(&mut Some(entry("b")), &mut flier).is_pending());
    assert!(!rung(2) && leader.poll_next(&mut first).is_ready());
    assert!(rung(2), "there may be room");
    drop(leader);
    assert!(pilot.poll_deserted(&mut flier).is_pending());
    rung(2);
    drop(follower);
    assert!(rung(2), "nobody is left");
}

proptest! {
    /// Readers that join, read, leave or take over at any time miss and duplicate no entry, and the log stays within
    /// its limit.
    #[test]
    fn every_reader_sees_a_prefix_of_what_was_written(steps in proptest::collection::vec((0..5_u8, 0..6_usize), 1..120)) {
        let flights = Flights::new(6);
        let (leader, pilot) = board(&flights);
        pilot.begin("head");
        let mut aboard = vec![(leader, String::new())];
        let mut written = String::new();
        for (step, which) in steps {
            match step {
                0 | 1 => {
                    let text = ["a", "bc", "def", "g", "hi", "jklm"][which];
                    if write(&pilot, text) {
                        written += text;
                    }
                }
                2 => {
                    if let (passenger, None) = flights.board(key()) {
                        aboard.push((passenger, String::new()));
                    }
                }
                3 if which < aboard.len() => drop(aboard.swap_remove(which)),
                _ => {
                    let count = aboard.len().max(1);
                    if let Some((passenger, seen)) = aboard.get_mut(which % count)
                        && let Some(Next::Entry(entry)) = read(passenger)
                    {
                        *seen += std::str::from_utf8(&entry.bytes).unwrap();
                        prop_assert!(written.starts_with(&**seen));
                    }
                }
            }
            if aboard.is_empty() {
                break;
            }
        }
        prop_assert_eq!(pilot.poll_deserted(&mut noop()).is_ready(), aboard.is_empty());
        for (passenger, seen) in &mut aboard {
            *seen += &all(passenger);
            prop_assert!(written.starts_with(&**seen));
            prop_assert!(*seen == written || read(passenger) == Some(Next::TooSlow));
        }
    }
}
