//! What we have under way on an engine, from dispatch to end.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::others::{Others, Ours};
use crate::{
    schedule::predict::{Prediction, Waiting},
    types::Moment,
};

/// Over how many seconds the share of time spent on prompts is taken.
const BUSY_SPAN: f64 = 20.0;
/// How long a request that left before its first token is taken to wait still, where nothing shows that its engine lives. After that it is
/// tried again.
const DOUBT: Duration = Duration::from_secs(10);
/// Uncached tokens of a prompt that tells how fast an engine computes them.
const FEWEST_TOLD: u64 = 256;
/// What is kept of those before it at each: about the last fifty count. By time they would fade away where none come for long.
const TELLERS: f64 = 0.98;
/// A request waited in vain if it left after so many times the 90th percentile predicted for it. One in ten waits for longer than once that.
const IN_VAIN: f64 = 2.0;

/// An engine's account of our requests. Moved only by [`Ticket`](super::Ticket)s; its lock is held for some nanoseconds.
#[derive(Debug, Default)]
pub struct Ledger {
    book: Mutex<Book>,
}

/// A request's entry, until its ticket is given back.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Entry {
    /// When it was dispatched; also its name, together with `number`.
    at: Moment,
    number: u64,
    pub(super) work: Work,
    /// Whether its first token came, where its answer comes whole or it thinks first: others are told by where they stand.
    seen: bool,
}

/// What a request asks of an engine.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Work {
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// Of these, the ones to be computed.
    pub uncached_tokens: u64,
    /// Tokens of its answer, as expected before it began.
    pub output_tokens: u64,
    /// The time these uncached tokens take by themselves, in seconds.
    pub prefill: f64,
    /// When its first token is expected.
    pub prediction: Prediction,
    /// Whether its first token tells nothing of its engine: the answer comes whole, or the model thinks first for as long as it likes.
    pub whole: bool,
}

#[derive(Debug, Default)]
struct Book {
    numbers: u64,
    in_flight: u32,
    decoding: u32,
    /// Prompt tokens of those that decode.
    context: u64,
    /// Tokens of prompts and expected answers of all; of answers that stream, as expected by how far they have come.
    promised: u64,
    /// Uncached tokens of the streamed requests that wait for their first token.
    queued: u64,
    /// These requests, oldest first.
    waiting: VecDeque<Entry>,
    /// Requests whose answers come whole and that are thought to wait still.
    whole: Vec<Entry>,
    last_first_token: Moment,
    /// When a first token came, or an answer that came whole.
    alive_at: Moment,
    /// The number of the newest request to which anything came.
    newest_begun: u64,
    /// When that was dispatched.
    newest_begun_at: Moment,
    /// Of the requests that left lately while they waited, the one that tells of the slowest engine; and when it left.
    given_up: Option<(Entry, Moment)>,
    /// Uncached tokens dispatched, ever.
    sent: u64,
    /// Those of requests whose answers come whole, or that think first, until anything comes.
    unseen: u64,
    /// What was dispatched of late.
    busy: Busy,
    /// What others dispatched.
    others: Others,
}

/// What was dispatched of late.
#[derive(Debug, Default)]
struct Busy {
    /// Seconds of prefill, ours and others', decayed; and as of when.
    seconds: f64,
    at: Moment,
    /// Of our last prompts that were long enough to tell how fast the engine is: seconds, uncached tokens and number.
    told: [f64; 3],
}

/// An engine's load at one moment.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Requests dispatched and not over.
    pub in_flight: u32,
    /// Prompt tokens that others dispatched and that are still to be computed, as far as the engine tells.
    pub foreign_tokens: u64,
    /// Prompt tokens dispatched and still to be computed. Of answers that come whole nothing is seen before their end: theirs
    /// run down along the time predicted for them.
    pub queued_tokens: u64,
    /// Of these, the ones whose first tokens will be seen.
    pub streamed_tokens: u64,
    /// Requests that decode, or are thought to.
    pub decoding: u32,
    /// Their prompts' tokens.
    pub context_tokens: u64,
    /// Tokens of prompts and expected answers of all requests under way.
    pub promised_tokens: u64,
    /// The share of its time that prompts dispatched lately take, ours and what is known of others'.
    pub utilisation: f64,
    /// Seconds since the engine could begin with the first of what is queued; 0 when nothing is.
    pub progress: f64,
    /// How slow the engine is at least, beside its pool, by the streamed requests that wait for their first token or left before it
    /// came; 0 where none waits for longer than predicted. See [`Waiting::speed`].
    pub slower: f64,
}

impl Ledger {
    /// Requests dispatched and not over.
    pub fn in_flight(&self) -> u32 {
        self.book().in_flight
    }

    /// Whether anything came to a request that was dispatched after `at`.
    pub fn has_served_after(&self, at: Moment) -> bool {
        self.book().newest_begun_at > at
    }

    /// Everything at once.
    pub fn view(&self, now: Moment) -> View {
        let mut book = self.book();
        book.pass(now);
        let oldest = book.waiting.front();
        let begun = oldest.map(|entry| entry.at.max(book.last_first_token));
        View {
            in_flight: book.in_flight,
            foreign_tokens: book.others.queued(|| book.ours(now), now),
            queued_tokens: book.waiting_tokens(now),
            streamed_tokens: book.queued,
            decoding: book.decoding,
            context_tokens: book.context,
            promised_tokens: book.promised,
            utilisation: book.busy.seconds * fading(book.busy.at, now) * (1.0 / BUSY_SPAN),
            progress: begun.map_or(0.0, |begun| now.seconds_since(begun)),
            slower: book.slower(now),
        }
    }

    /// The engine says that it had begun to compute so many prompt tokens in its life, whoever sent them, and has `others` requests that
    /// are not ours. Returns how many of these tokens came from others since it said so last.
    pub(super) fn read(&self, begun: Option<f64>, others: f64, now: Moment) -> f64 {
        let mut book = self.book();
        let ours = book.ours(now);
        let tokens = book.others.read(begun, others, &ours, now);
        // They take as much of its time as ours would.
        book.busy.add(tokens / ours.pace(), now);
        tokens
    }

    /// The engine's process is gone, and what others had there with it.
    pub(super) fn gone(&self) {
        self.book().others = Others::default();
    }

    /// Enters a request that is dispatched now.
    pub(super) fn enter(&self, work: Work, now: Moment) -> Entry {
        self.book().enter(work, now)
    }

    /// The same, unless `most` of ours are there already.
    pub(super) fn enter_below(&self, most: Option<u32>, work: Work, now: Moment) -> Option<Entry> {
        let mut book = self.book();
        most.is_none_or(|most| book.in_flight < most).then(|| book.enter(work, now))
    }

    /// The first token of a request came: its prompt is no longer queued, it decodes.
    pub(super) fn first_token(&self, entry: &mut Entry, now: Moment) {
        let mut book = self.book();
        book.alive(entry, now);
        book.see(entry);
        entry.seen = true;
        if book.stop_waiting(entry) {
            book.last_first_token = book.last_first_token.max(now);
            book.decode(entry);
        }
    }

    /// The answer of a request is expected to come to so many tokens now.
    pub(super) fn expect(&self, entry: &mut Entry, output_tokens: u64) {
        let mut book = self.book();
        book.promised -= entry.work.output_tokens;
        book.promised += output_tokens;
        entry.work.output_tokens = output_tokens;
    }

    /// A request is about to leave. Had it waited too long for its first token, that is remembered: else a stalled engine would look
    /// idle as soon as those who wait there have gone elsewhere, and attract the next.
    pub(super) fn give_up(&self, entry: &Entry, now: Moment) {
        let mut book = self.book();
        let waited = book.waiting(entry, now);
        if !entry.work.whole && waited.age > IN_VAIN * waited.prediction.p90 {
            let known = book.given_up(now).filter(|known| known.speed() > waited.speed());
            let kept = known.and(book.given_up).map_or(*entry, |(kept, _)| kept);
            book.given_up = Some((kept, now));
        }
    }

    /// A whole answer came, to a request of ours: its engine lives.
    pub(super) fn answered(&self, entry: &Entry, now: Moment) {
        let mut book = self.book();
        book.alive(entry, now);
    }

    /// Strikes out a request, however far it had come.
    pub(super) fn leave(&self, entry: &Entry) {
        let mut book = self.book();
        book.in_flight -= 1;
        book.see(entry);
        book.promised -= entry.work.prompt_tokens + entry.work.output_tokens;
        if !book.stop_waiting(entry) {
            book.decoding -= 1;
            book.context -= entry.work.prompt_tokens;
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn ours(&self, now: Moment) -> Ours {
        let [seconds, tokens, prompts] = self.busy.told;
        let known = |what: f64| (what.is_finite() && what > 0.0).then_some(what);
        Ours {
            sent: self.sent,
            queued: self.waiting_tokens(now),
            unseen: self.queued + self.unseen,
            pace: known(tokens / seconds),
            prompt: known(tokens / prompts),
        }
    }

    /// Prompt tokens that are taken to wait still. Of answers that come whole nothing is seen: theirs run down along the time predicted.
    fn waiting_tokens(&self, now: Moment) -> u64 {
        let left = |entry: &Entry| {
            let share = now.seconds_since(entry.at) / entry.work.prediction.seconds.max(f64::MIN_POSITIVE);
            (1.0 - share).max(0.0) * entry.work.uncached_tokens as f64
        };
        let whole: f64 = self.whole.iter().map(left).sum();
        // No engine has four billion tokens waiting, and 32 bits are the faster to come by.
        self.queued + u64::from(whole as u32)
    }

    /// Something came to a request of which nothing was seen, or it leaves.
    const fn see(&mut self, entry: &Entry) {
        if entry.work.whole && !entry.seen {
            self.unseen -= entry.work.uncached_tokens;
        }
    }

    /// How long a request has waited, as far as its engine is to blame. One that was overtaken is an accident, or a long prompt: then the engine
    /// is in doubt only since it last gave anything.
    fn waiting(&self, entry: &Entry, now: Moment) -> Waiting {
        let overtaken = entry.number < self.newest_begun;
        let since = if overtaken { entry.at.max(self.alive_at) } else { entry.at };
        Waiting { age: now.seconds_since(since), prediction: entry.work.prediction }
    }

    /// The engine gave something to a request.
    fn alive(&mut self, entry: &Entry, now: Moment) {
        self.alive_at = self.alive_at.max(now);
        if entry.number >= self.newest_begun {
            (self.newest_begun, self.newest_begun_at) = (entry.number, entry.at);
        }
    }

    /// By the oldest that waits, the oldest that waits and was not overtaken, and who left in vain: the slowest of what they tell.
    fn slower(&self, now: Moment) -> f64 {
        let oldest = self.waiting.front();
        let overtaken = oldest.is_some_and(|entry| entry.number < self.newest_begun);
        let in_turn = overtaken.then(|| self.oldest_in_turn(now)).flatten();
        let oldest = oldest.map(|entry| self.waiting(entry, now));
        [oldest, in_turn, self.given_up(now)].iter().flatten().map(Waiting::speed).fold(0.0, f64::max)
    }

    /// Of those that wait and were not overtaken, the oldest.
    fn oldest_in_turn(&self, now: Moment) -> Option<Waiting> {
        let place = self.waiting.partition_point(|entry| entry.number < self.newest_begun);
        self.waiting.get(place).map(|entry| self.waiting(entry, now))
    }

    fn given_up(&self, now: Moment) -> Option<Waiting> {
        let (entry, left) = &self.given_up?;
        (self.alive_at <= *left && now.since(*left) < DOUBT).then(|| self.waiting(entry, now))
    }

    fn enter(&mut self, work: Work, now: Moment) -> Entry {
        let entry = Entry { at: now, number: self.numbers, work, seen: false };
        self.numbers += 1;
        self.in_flight += 1;
        self.promised += work.prompt_tokens + work.output_tokens;
        self.sent += work.uncached_tokens;
        self.busy.add(work.prefill, now);
        self.busy.tell(&work);
        if work.whole {
            self.unseen += work.uncached_tokens;
            self.whole.push(entry);
        } else {
            self.queued += work.uncached_tokens;
            self.waiting.push_back(entry);
        }
        entry
    }

    /// Takes a request from those that wait; false where it is not among them any more.
    fn stop_waiting(&mut self, entry: &Entry) -> bool {
        if entry.work.whole {
            let place = self.whole.iter().position(|other| other.number == entry.number);
            return place.map(|place| self.whole.swap_remove(place)).is_some();
        }
        let Ok(place) = self.waiting.binary_search_by_key(&entry.number, |other| other.number) else { return false };
        self.waiting.remove(place);
        self.queued -= entry.work.uncached_tokens;
        true
    }

    fn decode(&mut self, entry: &Entry) {
        self.decoding += 1;
        self.context += entry.work.prompt_tokens;
    }

    /// Has whole answers whose first token is due by `now` decode.
    fn pass(&mut self, now: Moment) {
        let mut place = 0;
        while let Some(entry) = self.whole.get(place).copied() {
            if now.seconds_since(entry.at) >= entry.work.prediction.seconds {
                self.whole.swap_remove(place);
                self.decode(&entry);
            } else {
                place += 1;
            }
        }
    }
}

impl Busy {
    fn add(&mut self, seconds: f64, now: Moment) {
        let left = fading(self.at, now);
        self.seconds = self.seconds * left + seconds;
        self.at = now;
    }

    /// Prompts of few tokens say nothing: what they take is mostly what any request does.
    fn tell(&mut self, work: &Work) {
        if work.uncached_tokens >= FEWEST_TOLD {
            let told = [work.prefill, work.uncached_tokens as f64, 1.0];
            self.told.iter_mut().zip(told).for_each(|(sum, one)| *sum = TELLERS * *sum + one);
        }
    }
}

/// What is left by `now` of something that was whole `then`: `1 / eˣ` by the series of `eˣ`, 2 % more after
/// one span and half as much again after three. Decisions ask it of every engine, where a call counts, and a division.
fn fading(then: Moment, now: Moment) -> f64 {
    let x = now.seconds_since(then) * (1.0 / BUSY_SPAN);
    1.0 / (1.0 + x * (1.0 + x * (1.0 / 2.0 + x * (1.0 / 6.0))))
}
