//! The gateway's own load on an engine, from dispatch to end.

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;

use super::external_prompts::{ExternalPrompts, OwnWork};
use signalbox_schedule::predict::{Prediction, Waiting};
use signalbox_types::Moment;

/// Time constant of the share of time spent on prompts, in seconds.
const BUSY_SPAN: f64 = 20.0;
/// Time for which an abandoned request still counts as waiting while nothing shows that its engine is alive. After that
/// the engine is tried again.
const DOUBT_SPAN: Duration = Duration::from_secs(10);
/// Uncached tokens from which on a prompt shows how fast an engine computes.
const PACE_MIN_TOKENS: u64 = 256;
/// Weight kept by earlier prompts at each new one: about the last fifty count. A decay by time would lose them all when
/// none come for long.
const PROMPT_DECAY: f64 = 0.98;
/// A request counts as abandoned late if it left after this multiple of its predicted 90th percentile. One in ten waits
/// longer than the percentile itself.
const LATE_FACTOR: f64 = 2.0;

/// An engine's account of our requests. Changed only by [`Ticket`](super::Ticket)s. Its lock is held for some
/// nanoseconds.
#[derive(Debug, Default)]
pub struct Ledger {
    state: Mutex<LoadState>,
}

/// A request's entry, until its ticket is dropped.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Entry {
    /// Time of dispatch. Together with `number` it identifies the request.
    at: Moment,
    number: u64,
    pub(super) work: Work,
    /// True after the first token. Set only where that token does not show the engine's speed (whole answers, reasoning
    /// models); other requests are tracked by their queue position.
    seen: bool,
}

/// Work that a request gives to an engine.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Work {
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// Prompt tokens that are not cached.
    pub uncached_tokens: u64,
    /// Answer tokens expected at dispatch.
    pub output_tokens: u64,
    /// Seconds to compute the uncached tokens without load.
    pub prefill: f64,
    /// Predicted time to first token.
    pub prediction: Prediction,
    /// True if the first token does not show the engine's speed: the answer comes whole, or the model reasons first for
    /// an unknown time.
    pub whole: bool,
}

#[derive(Debug, Default)]
struct LoadState {
    numbers: u64,
    in_flight: u32,
    decoding: u32,
    /// Prompt tokens of those that decode.
    context: u64,
    /// Prompt and expected answer tokens of all requests. For streams the expectation follows their progress.
    promised: u64,
    /// Uncached tokens of the streamed requests that wait for their first token.
    queued: u64,
    /// Streamed requests that wait for their first token, oldest first.
    waiting: VecDeque<Entry>,
    /// Whole-answer requests that are assumed to wait still.
    whole: Vec<Entry>,
    last_first_token: Moment,
    /// Time of the last first token or whole answer.
    alive_at: Moment,
    /// Number of the newest request that received anything.
    newest_begun: u64,
    /// Dispatch time of that request.
    newest_begun_at: Moment,
    /// Of the requests recently abandoned while waiting, the one that indicates the slowest engine, and the time it
    /// left.
    given_up: Option<(Entry, Moment)>,
    /// Uncached tokens dispatched in total.
    sent: u64,
    /// Uncached tokens of whole-answer and reasoning requests that have received nothing yet.
    unseen: u64,
    /// Recently dispatched work.
    recent: RecentWork,
    /// Prompts of other clients.
    external: ExternalPrompts,
}

/// Recently dispatched work.
#[derive(Debug, Default)]
struct RecentWork {
    /// Decayed seconds of prefill, ours and external, and the time of the last update.
    seconds: f64,
    at: Moment,
    /// Decayed sums over our recent long prompts: seconds, uncached tokens, number of prompts.
    prompt_sums: [f64; 3],
}

/// Load of an engine at one moment.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Requests dispatched and not over.
    pub in_flight: u32,
    /// Prompt tokens that other clients have queued there, as far as the engine's counters show.
    pub foreign_tokens: u64,
    /// Dispatched prompt tokens that are still to be computed. Whole answers show nothing before their end, so theirs
    /// run down along the predicted time.
    pub queued_tokens: u64,
    /// Of these, the tokens of streamed requests, whose first tokens will be seen.
    pub streamed_tokens: u64,
    /// Requests that decode, or are assumed to.
    pub decoding: u32,
    /// Prompt tokens of the decoding requests.
    pub context_tokens: u64,
    /// Tokens of prompts and expected answers of all requests under way.
    pub promised_tokens: u64,
    /// Share of the engine's time that recently dispatched prompts take, ours and the known external ones.
    pub utilisation: f64,
    /// Seconds since the engine could start on the oldest queued request; 0 with an empty queue.
    pub progress: f64,
    /// Lower bound of the engine's slowness relative to its pool, from streamed requests that wait for their first
    /// token or left before it; 0 where none waits longer than predicted. See [`Waiting::speed`].
    pub slower: f64,
}

impl Ledger {
    /// Requests dispatched and not over.
    pub fn in_flight(&self) -> u32 {
        self.state.lock().in_flight
    }

    /// True if a request that was dispatched after `at` has received anything.
    pub fn has_served_after(&self, at: Moment) -> bool {
        self.state.lock().newest_begun_at > at
    }

    /// Reads all figures under one lock.
    pub fn view(&self, now: Moment) -> View {
        let mut state = self.state.lock();
        state.advance(now);
        let oldest = state.waiting.front();
        let started = oldest.map(|entry| entry.at.max(state.last_first_token));
        View {
            in_flight: state.in_flight,
            foreign_tokens: state.external.queued(|| state.own(now), now),
            queued_tokens: state.waiting_tokens(now),
            streamed_tokens: state.queued,
            decoding: state.decoding,
            context_tokens: state.context,
            promised_tokens: state.promised,
            utilisation: state.recent.seconds * decay(state.recent.at, now) * (1.0 / BUSY_SPAN),
            progress: started.map_or(0.0, |started| now.seconds_since(started)),
            slower: state.slower(now),
        }
    }

    /// Uncached tokens dispatched in total.
    pub(super) fn sent_tokens(&self) -> u64 {
        self.state.lock().sent
    }

    /// Records the engine's own counters: the prompt tokens it has started on in its life, whoever sent them, and its
    /// `others` external requests; with the tokens that other gateways report as sent and as queued there. Returns the
    /// external tokens that arrived since the last reading.
    pub(super) fn record_counters(
        &self,
        started: Option<f64>,
        others: f64,
        (peers_sent, peers_queued): (u64, u64),
        now: Moment,
    ) -> f64 {
        let mut state = self.state.lock();
        let own = state.own(now).with(peers_sent, peers_queued);
        let tokens = state.external.record(started, others, &own, now);
        // External prompts take as much of the engine's time as ours would.
        state.recent.add(tokens / own.pace(), now);
        tokens
    }

    /// Forgets external prompts after the engine's process has ended.
    pub(super) fn clear_external(&self) {
        self.state.lock().external = ExternalPrompts::default();
    }

    /// Adds a request that is dispatched now.
    pub(super) fn enter(&self, work: Work, now: Moment) -> Entry {
        self.state.lock().enter(work, now)
    }

    /// Like [`Ledger::enter`], unless `most` of our requests are there already.
    pub(super) fn enter_below(&self, most: Option<u32>, work: Work, now: Moment) -> Option<Entry> {
        let mut state = self.state.lock();
        most.is_none_or(|most| state.in_flight < most).then(|| state.enter(work, now))
    }

    /// Records a request's first token: its prompt is no longer queued, it decodes.
    pub(super) fn first_token(&self, entry: &mut Entry, now: Moment) {
        let mut state = self.state.lock();
        state.alive(entry, now);
        state.mark_seen(entry);
        entry.seen = true;
        if state.stop_waiting(entry) {
            state.last_first_token = state.last_first_token.max(now);
            state.decode(entry);
        }
    }

    /// Updates the expected length of a request's answer.
    pub(super) fn expect(&self, entry: &mut Entry, output_tokens: u64) {
        let mut state = self.state.lock();
        state.promised -= entry.work.output_tokens;
        state.promised += output_tokens;
        entry.work.output_tokens = output_tokens;
    }

    /// Records that a request is about to leave. If it waited too long for its first token, that is remembered.
    /// Otherwise a stalled engine would look idle as soon as its requests have moved elsewhere, and attract the next
    /// ones.
    pub(super) fn give_up(&self, entry: &Entry, now: Moment) {
        let mut state = self.state.lock();
        let waited = state.waiting(entry, now);
        if !entry.work.whole && waited.age > LATE_FACTOR * waited.prediction.p90 {
            let known = state.given_up(now).filter(|known| known.speed() > waited.speed());
            let kept = known.and(state.given_up).map_or(*entry, |(kept, _)| kept);
            state.given_up = Some((kept, now));
        }
    }

    /// Records a whole answer: the engine is alive.
    pub(super) fn answered(&self, entry: &Entry, now: Moment) {
        let mut state = self.state.lock();
        state.alive(entry, now);
    }

    /// Removes a request in any state.
    pub(super) fn leave(&self, entry: &Entry) {
        let mut state = self.state.lock();
        state.in_flight -= 1;
        state.mark_seen(entry);
        state.promised -= entry.work.prompt_tokens + entry.work.output_tokens;
        if !state.stop_waiting(entry) {
            state.decoding -= 1;
            state.context -= entry.work.prompt_tokens;
        }
    }
}

impl LoadState {
    fn own(&self, now: Moment) -> OwnWork {
        let [seconds, tokens, prompts] = self.recent.prompt_sums;
        let known = |what: f64| (what.is_finite() && what > 0.0).then_some(what);
        OwnWork {
            sent: self.sent,
            queued: self.waiting_tokens(now),
            unseen: self.queued + self.unseen,
            pace: known(tokens / seconds),
            prompt: known(tokens / prompts),
        }
    }

    /// Prompt tokens that are assumed to be waiting still. Whole answers show nothing before their end, so theirs run
    /// down along the predicted time.
    fn waiting_tokens(&self, now: Moment) -> u64 {
        let left = |entry: &Entry| {
            let share = now.seconds_since(entry.at) / entry.work.prediction.seconds.max(f64::MIN_POSITIVE);
            (1.0 - share).max(0.0) * entry.work.uncached_tokens as f64
        };
        let whole: f64 = self.whole.iter().map(left).sum();
        // No engine has four billion tokens waiting, and converting to 32 bits is faster.
        self.queued + u64::from(whole as u32)
    }

    /// Records that a whole-answer request received something or leaves.
    const fn mark_seen(&mut self, entry: &Entry) {
        if entry.work.whole && !entry.seen {
            self.unseen -= entry.work.uncached_tokens;
        }
    }

    /// The part of a request's wait that its engine may be to blame for. An overtaken request is an accident or a long
    /// prompt: then the wait counts only from the engine's last sign of life.
    fn waiting(&self, entry: &Entry, now: Moment) -> Waiting {
        let overtaken = entry.number < self.newest_begun;
        let since = if overtaken { entry.at.max(self.alive_at) } else { entry.at };
        Waiting { age: now.seconds_since(since), prediction: entry.work.prediction }
    }

    /// Records that the engine sent something to a request.
    fn alive(&mut self, entry: &Entry, now: Moment) {
        self.alive_at = self.alive_at.max(now);
        if entry.number >= self.newest_begun {
            (self.newest_begun, self.newest_begun_at) = (entry.number, entry.at);
        }
    }

    /// Largest slowness that the oldest waiting request, the oldest one that was not overtaken, and an abandoned one
    /// indicate.
    fn slower(&self, now: Moment) -> f64 {
        let oldest = self.waiting.front();
        let overtaken = oldest.is_some_and(|entry| entry.number < self.newest_begun);
        let in_turn = overtaken.then(|| self.oldest_in_turn(now)).flatten();
        let oldest = oldest.map(|entry| self.waiting(entry, now));
        [oldest, in_turn, self.given_up(now)].iter().flatten().map(Waiting::speed).fold(0.0, f64::max)
    }

    /// The oldest waiting request that was not overtaken.
    fn oldest_in_turn(&self, now: Moment) -> Option<Waiting> {
        let place = self.waiting.partition_point(|entry| entry.number < self.newest_begun);
        self.waiting.get(place).map(|entry| self.waiting(entry, now))
    }

    fn given_up(&self, now: Moment) -> Option<Waiting> {
        let (entry, left) = &self.given_up?;
        (self.alive_at <= *left && now.since(*left) < DOUBT_SPAN).then(|| self.waiting(entry, now))
    }

    fn enter(&mut self, work: Work, now: Moment) -> Entry {
        let entry = Entry { at: now, number: self.numbers, work, seen: false };
        self.numbers += 1;
        self.in_flight += 1;
        self.promised += work.prompt_tokens + work.output_tokens;
        self.sent += work.uncached_tokens;
        self.recent.add(work.prefill, now);
        self.recent.add_prompt(&work);
        if work.whole {
            self.unseen += work.uncached_tokens;
            self.whole.push(entry);
        } else {
            self.queued += work.uncached_tokens;
            self.waiting.push_back(entry);
        }
        entry
    }

    /// Removes a request from the waiting ones. Returns false if it is no longer among them.
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

    /// Moves whole-answer requests whose predicted first token is due by `now` to the decoding ones.
    fn advance(&mut self, now: Moment) {
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

impl RecentWork {
    fn add(&mut self, seconds: f64, now: Moment) {
        let left = decay(self.at, now);
        self.seconds = self.seconds * left + seconds;
        self.at = now;
    }

    /// Ignores short prompts: most of their time is the fixed cost of a request.
    fn add_prompt(&mut self, work: &Work) {
        if work.uncached_tokens >= PACE_MIN_TOKENS {
            let prompt_sums = [work.prefill, work.uncached_tokens as f64, 1.0];
            self.prompt_sums.iter_mut().zip(prompt_sums).for_each(|(sum, one)| *sum = PROMPT_DECAY * *sum + one);
        }
    }
}

/// Share left by `now` of a value that was whole `then`: `1 / eˣ` by the series of `eˣ`, 2 % too high after one time
/// constant and half as much again after three. Decisions need it for every engine, where a library call and a division
/// would be noticeable.
fn decay(then: Moment, now: Moment) -> f64 {
    let x = now.seconds_since(then) * (1.0 / BUSY_SPAN);
    1.0 / (1.0 + x * (1.0 + x * (1.0 / 2.0 + x * (1.0 / 6.0))))
}
