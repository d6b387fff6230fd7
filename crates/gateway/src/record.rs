//! Record of a request: keeps what its steps report from arrival on, and is settled exactly once, when the answer ends or
//! fails or the client disconnects. The journal entry is put together then.

mod hold;
mod progress;
mod settlement;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use self::hold::{Hold, Storing};
pub(super) use self::{
    hold::{Store, Verdict},
    progress::{AnswerEnd, AttemptEnd, InFlightPermit, Parsed, Progress},
    settlement::Settlement,
};
use super::{
    spans::RequestSpans,
    traced::{Timed, Traced},
};
use signalbox_accounting::{Caller, CallerReservation, Demand, FinishedRequest};
use signalbox_journal::{FORMAT, JournalEntry};
use signalbox_prompt::tokens::{CountBasis, Counter};
use signalbox_telemetry::{InFlight, Metrics, Purpose};
use signalbox_types::{Clock, Endpoint, Fault, Moment, Name, Outcome, wall_clock::since_1970};

pub(super) struct Record {
    settlement: Arc<Settlement>,
    endpoint: Endpoint,
    id: Arc<str>,
    /// Purpose of a request of the gateway's own.
    purpose: Option<Purpose>,
    arrived: Moment,
    /// Time of arrival by the wall clock: milliseconds since 1970.
    time_ms: u64,
    /// Nanoseconds spent waiting for upstream.
    waited: AtomicU64,
    /// True if one of the attempts under way has answered, so that the others are discarded.
    won: AtomicBool,
    /// Results of the steps so far.
    progress: Mutex<Progress>,
    /// State of the hold on settling, if an answer is still to be translated.
    hold: Mutex<Hold>,
    /// State of the answer's storing.
    storing: Mutex<Storing>,
    /// Basis of the prompt's token estimate, to compare with the engine's own count.
    counted: OnceLock<(Arc<Counter>, CountBasis)>,
    /// Source of the answer.
    served: OnceLock<Served>,
    /// Reservation from the caller's limits.
    reservation: OnceLock<CallerReservation>,
    /// The most that the request may use of an engine.
    demand: OnceLock<Demand>,
    /// Trace, if traces are enabled.
    traced: Option<Traced>,
    _in_flight: InFlight,
}

/// Delays settling a request while its answer is translated: only then its outcome at the caller is known.
pub(super) struct HeldRecord(Arc<Record>);

impl HeldRecord {
    /// Stores the answer, if that waited for it: all of it is translated.
    pub(super) fn translated(&self) {
        let waiting = self.0.storing.lock().allow();
        if let Some(store) = waiting {
            store();
        }
    }

    /// Makes the answer's attempt a failed one, whether it is over or under way. [`break_off`](Self::break_off) settles
    /// the request.
    pub(super) fn spoil(&self, fault: &Fault) {
        self.0.storing.lock().refuse();
        let verdict = self.0.hold.lock().spoil(fault);
        let mut progress = self.0.progress();
        progress.blamed(fault.blame);
        if let Some(verdict) = verdict {
            verdict(&mut progress, Some(fault));
        }
    }

    /// Settles the request with this fault instead of the outcome of the backend's answer.
    pub(super) fn break_off(&self, fault: &Fault) {
        self.spoil(fault);
        self.0.break_off(fault);
    }

    /// Settles the request with the outcome of the backend's answer, if that is over, and delays it no longer.
    pub(super) fn release(&self) {
        let Some((outcome, verdict)) = self.0.hold.lock().release() else { return };
        if let Some(verdict) = verdict {
            verdict(&mut self.0.progress(), None);
        }
        self.0.settle(outcome);
    }
}

impl Drop for HeldRecord {
    fn drop(&mut self) {
        self.0.storing.lock().refuse();
        self.release();
    }
}

/// Source of an answer.
#[derive(Clone, Debug)]
pub(super) struct Served {
    pub(super) pool: Name,
    pub(super) backend: Name,
    /// API in which it answered.
    pub(super) endpoint: Endpoint,
    /// False if the cascade of its route neither kept nor replaced the answer.
    pub(super) passed: bool,
}

impl Record {
    /// Opens a record. `purpose` is set for a request of the gateway's own, `traced` if traces are enabled.
    pub(super) fn open(
        settlement: Arc<Settlement>,
        id: Arc<str>,
        endpoint: Endpoint,
        purpose: Option<Purpose>,
        traced: Option<Traced>,
    ) -> Arc<Self> {
        let in_flight = settlement.metrics.start_request();
        let arrived = settlement.clock.now();
        Arc::new(Self {
            settlement,
            endpoint,
            id,
            purpose,
            arrived,
            time_ms: since_1970().as_millis() as u64,
            waited: AtomicU64::new(0),
            won: AtomicBool::new(false),
            progress: Mutex::default(),
            hold: Mutex::default(),
            storing: Mutex::default(),
            counted: OnceLock::new(),
            served: OnceLock::new(),
            reservation: OnceLock::new(),
            demand: OnceLock::new(),
            traced,
            _in_flight: in_flight,
        })
    }

    pub(super) fn clock(&self) -> Clock {
        self.settlement.clock
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.settlement.metrics
    }

    /// Returns the outcome of a request or attempt dropped before its end.
    pub(super) fn dropped(&self) -> Outcome {
        let spoilt = self.hold.lock().fault().map(|fault| Outcome::Failed(fault.kind));
        spoilt.unwrap_or_else(|| self.settlement.dropped())
    }

    pub(super) fn arrived(&self) -> Moment {
        self.arrived
    }

    pub(super) fn id(&self) -> Arc<str> {
        self.id.clone()
    }

    /// Adds to the time spent on upstream, which is not the gateway's overhead.
    pub(super) fn wait(&self, time: Duration) {
        self.waited.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    pub(super) fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Relaxed))
    }

    /// Sets whether one of the attempts under way has answered.
    pub(super) fn won(&self, won: bool) {
        self.won.store(won, Relaxed);
    }

    /// True if one of the attempts under way has answered.
    pub(super) fn is_won(&self) -> bool {
        self.won.load(Relaxed)
    }

    /// Results of the steps so far, locked while a step adds its own.
    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }

    /// Keeps the basis of the prompt's token estimate.
    pub(super) fn counts(&self, known: (Arc<Counter>, CountBasis)) {
        // The prompt is counted once: a second count would be equal.
        let _ = self.counted.set(known);
    }

    /// Learns from an engine's own count of the prompt's tokens.
    pub(super) fn counted(&self, tokens: u64) {
        if let Some((counter, known)) = self.counted.get() {
            counter.learn(*known, tokens);
        }
    }

    /// Sets the caller to charge for the request.
    pub(super) fn charge(&self, caller: Arc<Caller>) -> &CallerReservation {
        self.reservation.get_or_init(|| CallerReservation::new(caller))
    }

    /// Reservation from the caller's limits, if the request has a caller.
    pub(super) fn caller_reservation(&self) -> Option<&CallerReservation> {
        self.reservation.get()
    }

    /// Sets the most that the request may use of an engine.
    pub(super) fn demands(&self, demand: Demand) {
        // It is computed once.
        let _ = self.demand.set(demand);
    }

    /// The most that the request may use of an engine, if known.
    pub(super) fn demand(&self) -> Option<&Demand> {
        self.demand.get()
    }

    /// Trace, if traces are enabled.
    pub(super) fn traced(&self) -> Option<&Traced> {
        self.traced.as_ref()
    }

    /// Id of its trace, if that is recorded.
    pub(super) fn recorded_trace(&self) -> Option<u128> {
        self.traced.as_ref()?.recorded()
    }

    /// Adds to the trace a step that began at `began` and ends now.
    pub(super) fn took(&self, name: &'static str, began: Moment) {
        if self.recorded_trace().is_some() {
            self.progress().timed(Timed { name, began, ended: self.settlement.clock.now() });
        }
    }

    /// Sets the source of the answer.
    pub(super) fn serve(&self, served: Served) {
        // An answer begins once.
        let _ = self.served.set(served);
    }

    /// Source of the answer, once it has begun.
    pub(super) fn served(&self) -> Option<Served> {
        self.served.get().cloned()
    }

    /// Settles a request that got no answer but this fault.
    pub(super) fn fail(&self, fault: &Fault) {
        self.progress().head(fault.status);
        self.break_off(fault);
    }

    /// Settles a request whose answer failed with this fault after at least its head was sent.
    pub(super) fn break_off(&self, fault: &Fault) {
        self.progress().blamed(fault.blame);
        self.settlement.metrics.fault(fault);
        self.settle(Outcome::Failed(fault.kind));
    }

    /// Delays settling until the returned value is released or dropped.
    pub(super) fn hold(self: &Arc<Self>) -> HeldRecord {
        *self.hold.lock() = Hold::Held(None);
        *self.storing.lock() = Storing::Awaits(None);
        HeldRecord(self.clone())
    }

    /// True if the answer is still to be translated, or could not be.
    pub(super) fn awaits_translation(&self) -> bool {
        self.hold.lock().awaits_translation()
    }

    /// True if its answer is or was to be translated, and not all of it is.
    pub(super) fn stores_later(&self) -> bool {
        !matches!(*self.storing.lock(), Storing::Allowed)
    }

    /// Stores the answer once all of it is translated; never, if that fails.
    pub(super) fn store_when_translated(&self, store: Store) {
        let now = self.storing.lock().offer(store);
        if let Some(store) = now {
            store();
        }
    }

    /// Settles the request as complete once its answer is translated, and gives the verdict on its attempt then.
    pub(super) fn complete_when_translated(&self, verdict: Verdict) {
        let kept = self.hold.lock().keep(Outcome::Complete, Some(verdict));
        let Err(verdict) = kept else { return };
        let fault = self.hold.lock().fault().cloned();
        if let Some(verdict) = verdict {
            verdict(&mut self.progress(), fault.as_ref());
        }
        self.settle(fault.map_or(Outcome::Complete, |fault| Outcome::Failed(fault.kind)));
    }

    /// Settles the request. Only the first call has an effect.
    pub(super) fn settle(&self, outcome: Outcome) {
        if self.hold.lock().keep(outcome, None).is_ok() {
            return;
        }
        let Some(mut progress) = self.progress().take() else { return };
        let now = self.settlement.clock.now();
        let steps = std::mem::take(&mut progress.timed);
        let entry = self.entry(progress, outcome, now);
        let (endpoint, reservation) = (self.endpoint, self.caller_reservation());
        if let Some(reservation) = reservation {
            reservation.settle(&entry, self.demand());
        }
        if let Some(traced) = &self.traced {
            RequestSpans { endpoint, arrived: self.arrived, steps, line: entry.clone() }.send(traced);
        }
        self.settlement.accounting.settle(&FinishedRequest { entry: &entry, endpoint, outcome, reservation, now });
        self.learn(&entry);
        self.settlement.decisions.record(entry);
    }

    /// Puts the journal entry together from what the steps reported.
    fn entry(&self, progress: Progress, outcome: Outcome, now: Moment) -> JournalEntry {
        let stage = progress.stage();
        let free = progress.cache.as_ref().filter(|cache| cache.is_free()).map(|_| 0.0);
        let costs = progress.attempts.iter().filter_map(|attempt| attempt.cost_usd);
        let cost_usd = costs.reduce(|sum, cost| sum + cost).or(free);
        JournalEntry {
            format: FORMAT,
            id: self.id.clone(),
            time_ms: self.time_ms,
            request_line: progress.request_line,
            endpoint: self.endpoint.name(),
            stream: progress.parsed.stream,
            background: self.purpose,
            key: progress.key,
            model: progress.parsed.model,
            route: progress.route,
            prompt_bytes: progress.parsed.prompt_bytes,
            estimated_prompt_tokens: progress.prompt_tokens,
            explained: progress.explained,
            routing_facts: progress.routing_facts,
            cache: progress.cache,
            admission: progress.admission,
            counterfactual: progress.counterfactual,
            attempts: progress.attempts,
            answered: progress.answer.attempt,
            cascade: progress.cascade,
            status: progress.status,
            outcome: outcome.label(),
            blame: progress.blame,
            stage,
            usage: progress.answer.usage,
            ttft_ms: progress.ttft.map(millis),
            upstream_ttft_ms: progress.answer.upstream_ttft_ms,
            tpot_ms: progress.answer.tpot_ms,
            gaps: progress.answer.gaps,
            e2e_ms: millis(now.since(self.arrived)),
            overhead_us: progress.answer.overhead_us,
            cost_usd,
            uncounted: progress.uncounted,
        }
    }

    /// Remembers a completed request for feedback, if its route has tiers.
    fn learn(&self, entry: &JournalEntry) {
        if entry.outcome == Outcome::Complete.label()
            && entry.explained.as_ref().is_some_and(|explained| explained.tier.is_some())
            && let Some(attempt) = entry.answered.and_then(|at| entry.attempts.get(at))
        {
            self.settlement.learning.tiers.record_answer(&entry.id, entry.key.as_ref(), &attempt.pool);
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // No holder settled it. Usually the client disconnected, which dropped the request before its end.
        self.settle(self.settlement.dropped());
    }
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
