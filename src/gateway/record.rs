//! Record of a request: collects its facts from arrival on, and is settled exactly once, when the answer ends or fails
//! or the client disconnects.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use super::{
    spans,
    traced::{Took, Traced},
};
use crate::{
    accounting::{Accounting, Caller, CallerReservation, Demand, FinishedRequest},
    journal::{DecisionLog, FORMAT, JournalEntry},
    learning::Learning,
    prompt::tokens::{CountBasis, Counter},
    quota::Spent,
    telemetry::{InFlight, Metrics, Purpose, Stage},
    types::{
        Clock, Endpoint, Fault, Moment, Name, Outcome,
        fault::{INTERNAL, STOPPED},
        wall_clock::since_1970,
    },
};

/// Accounts that settle a finished request, and the state that determines its outcome.
pub(super) struct Settlement {
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    pub(super) accounting: Arc<Accounting>,
    pub(super) decisions: Arc<DecisionLog>,
    pub(super) learning: Arc<Learning>,
    /// True once the gateway stops the requests still in flight.
    pub(super) stopping: AtomicBool,
}

impl Settlement {
    /// Returns the outcome of a request that was dropped before its end.
    fn dropped(&self) -> Outcome {
        if std::thread::panicking() {
            Outcome::Failed(INTERNAL)
        } else if self.stopping.load(Relaxed) {
            Outcome::Failed(STOPPED)
        } else {
            Outcome::ClientGone
        }
    }
}

/// Permit for one request in flight, released on drop.
pub(super) struct InFlightPermit(Arc<AtomicUsize>);

impl InFlightPermit {
    /// Takes one of `most` permits, if one is free.
    pub(super) fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        taken.fetch_update(Relaxed, Relaxed, |count| (count < most).then_some(count + 1)).ok()?;
        Some(Self(taken.clone()))
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

pub(super) struct Record {
    settlement: Arc<Settlement>,
    endpoint: Endpoint,
    id: Arc<str>,
    arrived: Moment,
    /// Nanoseconds spent waiting for upstream.
    waited: AtomicU64,
    /// True if one of the attempts under way has answered, so that the others are discarded.
    won: AtomicBool,
    /// Journal entry, `None` once settled.
    line: Mutex<Option<Box<JournalEntry>>>,
    /// Basis of the prompt's token estimate, to compare with the engine's own count.
    counted: OnceLock<(Arc<Counter>, CountBasis)>,
    /// Source of the answer.
    served: OnceLock<Served>,
    /// Reservation from the caller's limits.
    bill: OnceLock<CallerReservation>,
    /// The most that the request may use of an engine.
    demand: OnceLock<Demand>,
    /// Trace, if traces are enabled.
    traced: Option<Traced>,
    /// Permit in flight, released on settlement.
    permit: Mutex<Option<InFlightPermit>>,
    _in_flight: InFlight,
}

/// Source of an answer.
#[derive(Clone, Debug)]
pub(super) struct Served {
    pub(super) pool: Name,
    pub(super) backend: Name,
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
        let line = JournalEntry {
            format: FORMAT,
            id: id.clone(),
            time_ms: since_1970().as_millis() as u64,
            request_line: None,
            endpoint: endpoint.name(),
            stream: false,
            background: purpose,
            key: None,
            model: None,
            route: None,
            prompt_bytes: 0,
            estimated_prompt_tokens: 0,
            explained: None,
            routing_facts: None,
            cache: None,
            admission: None,
            counterfactual: None,
            attempts: Vec::new(),
            answered: None,
            cascade: None,
            status: 0,
            outcome: "",
            blame: None,
            stage: Stage::Queued,
            usage: None,
            ttft_ms: None,
            upstream_ttft_ms: None,
            tpot_ms: None,
            e2e_ms: 0.0,
            overhead_us: None,
            cost_usd: None,
            uncounted: Spent::default(),
        };
        let in_flight = settlement.metrics.start_request();
        let arrived = settlement.clock.now();
        Arc::new(Self {
            settlement,
            endpoint,
            id,
            arrived,
            waited: AtomicU64::new(0),
            won: AtomicBool::new(false),
            line: Mutex::new(Some(Box::new(line))),
            counted: OnceLock::new(),
            served: OnceLock::new(),
            bill: OnceLock::new(),
            demand: OnceLock::new(),
            traced,
            permit: Mutex::default(),
            _in_flight: in_flight,
        })
    }

    pub(super) fn clock(&self) -> Clock {
        self.settlement.clock
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.settlement.metrics
    }

    /// Holds the permit until the request is settled.
    pub(super) fn admit(&self, permit: InFlightPermit) {
        *self.permit.lock() = Some(permit);
    }

    /// Returns the outcome of a request or attempt dropped before its end.
    pub(super) fn dropped(&self) -> Outcome {
        self.settlement.dropped()
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

    /// Edits the journal entry, unless it is settled.
    pub(super) fn note(&self, write: impl FnOnce(&mut JournalEntry)) {
        if let Some(line) = self.lock().as_deref_mut() {
            write(line);
        }
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
        self.bill.get_or_init(|| CallerReservation::new(caller))
    }

    /// Reservation from the caller's limits, if the request has a caller.
    pub(super) fn bill(&self) -> Option<&CallerReservation> {
        self.bill.get()
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

    /// Adds to the trace a step that began at `began` and ends now.
    pub(super) fn took(&self, name: &'static str, began: Moment) {
        if let Some(traced) = &self.traced {
            traced.took(Took { name, began, ended: self.settlement.clock.now() });
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
        self.note(|line| {
            line.status = fault.status.as_u16();
            line.blame = Some(fault.blame);
        });
        self.settlement.metrics.fault(fault);
        self.settle(Outcome::Failed(fault.kind));
    }

    /// Settles a request whose answer failed with this fault after at least its head was sent.
    pub(super) fn break_off(&self, fault: &Fault) {
        self.note(|line| line.blame = Some(fault.blame));
        self.settlement.metrics.fault(fault);
        self.settle(Outcome::Failed(fault.kind));
    }

    /// Settles the request. Only the first call has an effect.
    pub(super) fn settle(&self, outcome: Outcome) {
        let Some(mut line) = self.lock().take() else { return };
        *self.permit.lock() = None;
        let now = self.settlement.clock.now();
        line.outcome = outcome.label();
        line.e2e_ms = millis(now.since(self.arrived));
        let free = line.cache.as_ref().filter(|reused| reused.is_free()).map(|_| 0.0);
        line.cost_usd =
            line.attempts.iter().filter_map(|attempt| attempt.cost_usd).reduce(|sum, cost| sum + cost).or(free);
        if let Some(bill) = self.bill() {
            bill.settle(&line, self.demand());
        }
        if let Some(traced) = &self.traced {
            spans::RequestSpans { traced, endpoint: self.endpoint, arrived: self.arrived, line: &line }.export();
        }
        let (endpoint, reservation) = (self.endpoint, self.bill());
        self.settlement.accounting.settle(&FinishedRequest { entry: &line, endpoint, outcome, reservation, now });
        self.learn(&line);
        self.settlement.decisions.record(*line);
    }

    /// Remembers a completed request for feedback, if its route has tiers.
    fn learn(&self, line: &JournalEntry) {
        if line.outcome == Outcome::Complete.label()
            && line.explained.as_ref().is_some_and(|explained| explained.tier.is_some())
            && let Some(attempt) = line.answered.and_then(|at| line.attempts.get(at))
        {
            self.settlement.learning.tiers.record_answer(&line.id, line.key.as_ref(), &attempt.pool);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<JournalEntry>>> {
        self.line.lock()
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
