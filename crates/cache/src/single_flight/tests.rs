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
use crate::ExactKey;
use signalbox_types::Fault;

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

fn write(leader: &Leader<Head>, text: &'static str) -> bool {
    leader.poll_write(&mut Some(entry(text)), &mut noop()).is_ready()
}

fn read(reader: &mut Reader<Head>) -> Option<Next> {
    match reader.poll_next(&mut noop()) {
        Poll::Ready(next) => Some(next),
        Poll::Pending => None,
    }
}

fn all(reader: &mut Reader<Head>) -> String {
    let mut text = String::new();
    while let Some(Next::Entry(entry)) = read(reader) {
        text += std::str::from_utf8(&entry.bytes).unwrap();
    }
    text
}

fn start(reader: &mut Reader<Head>) -> Option<Result<Head, &'static str>> {
    match reader.poll_start(&mut noop()) {
        Poll::Ready(Start::Head(head)) => Some(Ok(*head)),
        Poll::Ready(Start::Failed(fault)) => Some(Err(fault.kind)),
        Poll::Ready(Start::TakeOver(_)) => panic!("not called upon"),
        Poll::Pending => None,
    }
}

fn taken_over(reader: &mut Reader<Head>) -> Leader<Head> {
    match reader.poll_start(&mut noop()) {
        Poll::Ready(Start::TakeOver(leader)) => leader,
        other => panic!("{other:?}"),
    }
}

fn fault(kind: &'static str) -> Fault {
    Fault::upstream(http::StatusCode::BAD_GATEWAY, kind, "")
}

fn lead(flights: &Arc<SingleFlight<Head>>) -> (Reader<Head>, Leader<Head>) {
    let (first, leader) = flights.join(key());
    (first, leader.expect("nobody else has begun"))
}

fn join(flights: &Arc<SingleFlight<Head>>) -> Reader<Head> {
    let (reader, leader) = flights.join(key());
    assert!(leader.is_none(), "somebody leads already");
    reader
}

#[test]
fn every_reader_gets_the_whole_answer() {
    let flights = SingleFlight::new(100);
    let (mut first, mut leader) = lead(&flights);
    let mut early = join(&flights);
    assert!(start(&mut early).is_none() && first.leads() && !early.leads());
    leader.begin("head");
    assert!(write(&leader, "a"));
    let mut late = join(&flights);
    assert_eq!(
        (start(&mut first), start(&mut early), start(&mut late)),
        (Some(Ok("head")), Some(Ok("head")), Some(Ok("head")))
    );
    assert_eq!(all(&mut early), "a");
    assert!(write(&leader, "b"));
    assert_eq!(all(&mut late), "ab");
    leader.end(End::Complete);
    let mut last = join(&flights);
    assert_eq!(last.others(), 3);
    for (reader, left) in [(&mut first, "ab"), (&mut early, "b"), (&mut late, ""), (&mut last, "ab")] {
        assert_eq!(all(reader), left);
        assert_eq!(read(reader), Some(Next::End(End::Complete)));
    }
    drop(leader);
    assert!(flights.is_empty());
    let (_, leader) = flights.join(key());
    assert!(leader.is_some(), "what is over is not joined");
}

#[test]
fn a_reader_that_leaves_instead_of_taking_over_blocks_no_other() {
    let flights = SingleFlight::new(100);
    let (mut first, leader) = lead(&flights);
    let follower = join(&flights);
    leader.fail(fault("lost"), Others::TakeOverForAll);
    assert!(start(&mut first).is_none(), "another's request is to be sent for it");
    drop(follower);
    assert_eq!(start(&mut first), Some(Err("lost")));
    assert!(flights.is_empty());
    let (_, leader) = flights.join(key());
    assert!(leader.is_some(), "whoever asks now is not let wait with them");

    let (mut first, leader) = lead(&SingleFlight::new(100));
    assert!(start(&mut first).is_none());
    drop(leader);
    assert_eq!(start(&mut first), Some(Err("internal")));
}

#[test]
fn the_request_continues_while_a_reader_is_left() {
    let flights = SingleFlight::new(100);
    let (first, mut leader) = lead(&flights);
    let mut follower = join(&flights);
    leader.begin("head");
    drop(first);
    assert!(leader.poll_abandoned(&mut noop()).is_pending());
    assert!(write(&leader, "a"));
    leader.end(End::Complete);
    assert_eq!(all(&mut follower), "a");

    let (first, leader) = {
        drop(leader);
        lead(&flights)
    };
    drop(first);
    assert!(leader.poll_abandoned(&mut noop()).is_ready());
    let (_new, second) = flights.join(key());
    assert!(second.is_some(), "nobody joins what is being given up");
    drop(leader);
    assert_eq!(flights.len(), 1, "and its end does not take the new one away");
}

#[test]
fn a_failure_before_the_answer_lets_another_take_over() {
    let flights = SingleFlight::new(100);
    let (mut first, leader) = lead(&flights);
    let (mut second, mut third) = (join(&flights), join(&flights));
    leader.fail(fault("one"), Others::TakeOver);
    assert_eq!(start(&mut first), Some(Err("one")));
    assert!(start(&mut third).is_none());
    let leader = taken_over(&mut second);
    assert!(second.leads());
    leader.fail(fault("two"), Others::TakeOverForAll);
    assert!(start(&mut second).is_none(), "who led waits with the others");
    let leader = taken_over(&mut third);
    leader.begin("head");
    assert_eq!((start(&mut second), start(&mut third)), (Some(Ok("head")), Some(Ok("head"))));
    assert!(write(&leader, "a"));
    assert_eq!((all(&mut second), all(&mut third)), ("a".into(), "a".into()));
    drop(leader);
    assert_eq!(read(&mut second), Some(Next::End(End::Broken("internal"))), "a leader that is lost breaks it off");
}

#[test]
fn takeovers_are_bounded_and_common_failures_fail_at_once() {
    let flights = SingleFlight::new(100);
    let (mut first, leader) = lead(&flights);
    let mut others = [join(&flights), join(&flights), join(&flights)];
    leader.fail(fault("one"), Others::TakeOverForAll);
    taken_over(&mut others[0]).fail(fault("two"), Others::TakeOverForAll);
    taken_over(&mut others[1]).fail(fault("three"), Others::TakeOverForAll);
    assert_eq!(start(&mut first), Some(Err("three")));
    assert!(others.iter_mut().all(|other| start(other) == Some(Err("three"))));
    assert!(flights.is_empty());

    let (mut first, leader) = lead(&flights);
    let mut other = join(&flights);
    leader.fail(fault("bad"), Others::Fail);
    assert_eq!((start(&mut first), start(&mut other)), (Some(Err("bad")), Some(Err("bad"))));
    let (mut first, leader) = lead(&flights);
    leader.fail(fault("alone"), Others::TakeOverForAll);
    assert_eq!(start(&mut first), Some(Err("alone")));
}

#[test]
fn a_reader_that_leaves_instead_of_taking_over_is_replaced() {
    let flights = SingleFlight::new(100);
    let (first, leader) = lead(&flights);
    let (second, mut third) = (join(&flights), join(&flights));
    leader.fail(fault("one"), Others::TakeOverForAll);
    drop((first, second));
    let leader = taken_over(&mut third);
    drop(leader);
    assert_eq!(start(&mut third), Some(Err("internal")));
}

#[test]
fn a_full_log_accepts_no_readers_and_waits_for_its_own() {
    let flights = SingleFlight::new(4);
    let (mut first, leader) = lead(&flights);
    leader.begin("head");
    assert!(write(&leader, "aaaa"));
    assert!(!write(&leader, "b"), "its one reader has read nothing");
    assert!(!leader.is_whole());
    let (_other, second) = flights.join(key());
    assert!(second.is_some(), "who comes now would miss the beginning");
    assert_eq!(all(&mut first), "aaaa");
    assert!(write(&leader, "bbbbbbbb"), "what is longer than the log passes alone");
    assert_eq!(all(&mut first), "bbbbbbbb");
}

#[test]
fn a_reader_that_delays_the_others_is_cut_off() {
    let flights = SingleFlight::new(4);
    let (mut first, leader) = lead(&flights);
    let mut slow = join(&flights);
    leader.begin("head");
    for text in ["aa", "bb", "cc", "dd"] {
        assert!(write(&leader, text));
        assert_eq!(all(&mut first), text);
    }
    assert_eq!(read(&mut slow), Some(Next::TooSlow));
    drop(first);
    assert!(leader.poll_abandoned(&mut noop()).is_pending());
    drop(slow);
    assert!(leader.poll_abandoned(&mut noop()).is_ready());
}

struct Bell(AtomicU32);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn waiting_tasks_are_woken() {
    let bells = [(); 3].map(|()| Arc::new(Bell(AtomicU32::new(0))));
    let rung = |at: usize| bells[at].0.swap(0, Relaxed) > 0;
    let wakers = [0, 1, 2].map(|at: usize| Waker::from(bells[at].clone()));
    let [mut one, mut two, mut writer] = [0, 1, 2].map(|at: usize| Context::from_waker(&wakers[at]));
    let flights = SingleFlight::new(4);
    let (mut first, leader) = lead(&flights);
    let mut follower = join(&flights);
    assert!(first.poll_start(&mut one).is_pending() && follower.poll_start(&mut two).is_pending());
    leader.begin("head");
    assert!(rung(0) && rung(1));
    assert!(first.poll_next(&mut one).is_pending() && follower.poll_next(&mut two).is_pending());
    assert!(write(&leader, "aaaa"));
    assert!(rung(0) && rung(1));
    assert!(leader.poll_write(&mut Some(entry("b")), &mut writer).is_pending());
    assert!(!rung(2) && first.poll_next(&mut one).is_ready());
    assert!(rung(2), "there may be room");
    drop(first);
    assert!(leader.poll_abandoned(&mut writer).is_pending());
    rung(2);
    drop(follower);
    assert!(rung(2), "nobody is left");
}

proptest! {
    /// Readers that join, read, leave or take over at any time miss and duplicate no entry, and the log stays within
    /// its limit.
    #[test]
    fn every_reader_sees_a_prefix_of_what_was_written(steps in proptest::collection::vec((0..5_u8, 0..6_usize), 1..120)) {
        let flights = SingleFlight::new(6);
        let (first, leader) = lead(&flights);
        leader.begin("head");
        let mut readers = vec![(first, String::new())];
        let mut written = String::new();
        for (step, which) in steps {
            match step {
                0 | 1 => {
                    let text = ["a", "bc", "def", "g", "hi", "jklm"][which];
                    if write(&leader, text) {
                        written += text;
                    }
                }
                2 => {
                    if let (reader, None) = flights.join(key()) {
                        readers.push((reader, String::new()));
                    }
                }
                3 if which < readers.len() => drop(readers.swap_remove(which)),
                _ => {
                    let count = readers.len().max(1);
                    if let Some((reader, seen)) = readers.get_mut(which % count)
                        && let Some(Next::Entry(entry)) = read(reader)
                    {
                        *seen += std::str::from_utf8(&entry.bytes).unwrap();
                        prop_assert!(written.starts_with(&**seen));
                    }
                }
            }
            if readers.is_empty() {
                break;
            }
        }
        prop_assert_eq!(leader.poll_abandoned(&mut noop()).is_ready(), readers.is_empty());
        for (reader, seen) in &mut readers {
            *seen += &all(reader);
            prop_assert!(written.starts_with(&**seen));
            prop_assert!(*seen == written || read(reader) == Some(Next::TooSlow));
        }
    }
}
