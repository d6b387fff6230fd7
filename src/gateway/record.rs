//! What is noted of a request from birth to end, and settled exactly once: when its answer ends, fails, or its client leaves.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{
    spans,
    traced::{Took, Traced},
};
use crate::{
    accounting::{Accounting, Caller, CallerReservation, Demand, FinishedRequest},
    journal::{DecisionLog, FORMAT, JournalEntry},
    learning::Learning,
    measure::lock,
    prompt::tokens::{CountBasis, Counter},
    quota::Spent,
    telemetry::{InFlight, Metrics, Purpose, Stage},
    types::{
        Clock, Endpoint, Fault, Moment, Name, Outcome,
        fault::{INTERNAL, STOPPED},
        wall_clock::since_1970,
    },
};

/// The accounts that a finished request is settled with, and the state that its end depends on.
pub(super) struct Settlement {
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    pub(super) accounting: Arc<Accounting>,
    pub(super) decisions: Arc<DecisionLog>,
    pub(super) learning: Arc<Learning>,
    /// True once the gateway ends what is left under way.
    pub(super) stopping: AtomicBool,
}

impl Settlement {
    /// The outcome of a request that was dropped where it stood.
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

/// A place among the requests under way; dropping it returns it.
pub(super) struct InFlightPermit(Arc<AtomicUsize>);

impl InFlightPermit {
    /// One more of `most`, if there is one left.
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

/// A request's record.
pub(super) struct Record {
    settlement: Arc<Settlement>,
    endpoint: Endpoint,
    id: Arc<str>,
    arrived: Moment,
    /// Nanoseconds spent waiting for upstream.
    waited: AtomicU64,
    /// Whether one of the attempts under way has answered, so that the others are of no use.
    won: AtomicBool,
    /// `None` once it is settled.
    line: Mutex<Option<Box<JournalEntry>>>,
    /// What was known of the prompt's tokens, to be compared with the engine's own count.
    counted: OnceLock<(Arc<Counter>, CountBasis)>,
    /// What answered it.
    served: OnceLock<Served>,
    /// What it took of its caller's limits.
    bill: OnceLock<CallerReservation>,
    /// The most that it may take of an engine.
    demand: OnceLock<Demand>,
    /// Where traces are wanted.
    traced: Option<Traced>,
    /// Its place among the requests under way, until it is settled.
    permit: Mutex<Option<InFlightPermit>>,
    _in_flight: InFlight,
}

/// What answered a request.
#[derive(Clone, Debug)]
pub(super) struct Served {
    pub(super) pool: Name,
    pub(super) backend: Name,
    /// Whether the answer passed what its route looks at, where it looks at any.
    pub(super) passed: bool,
}

impl Record {
    /// Begins one; `purpose` where the request is of our own making, `traced` where traces are wanted.
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

    /// The gateway's clock.
    pub(super) fn clock(&self) -> Clock {
        self.settlement.clock
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.settlement.metrics
    }

    /// Holds its place among the requests under way, until it is settled.
    pub(super) fn admit(&self, permit: InFlightPermit) {
        *lock(&self.permit) = Some(permit);
    }

    /// The outcome of what is dropped where it stands.
    pub(super) fn dropped(&self) -> Outcome {
        self.settlement.dropped()
    }

    pub(super) fn arrived(&self) -> Moment {
        self.arrived
    }

    pub(super) fn id(&self) -> Arc<str> {
        self.id.clone()
    }

    /// Adds to the time that was upstream's, not ours.
    pub(super) fn wait(&self, time: Duration) {
        self.waited.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    pub(super) fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Relaxed))
    }

    /// Notes whether one of the attempts under way has answered.
    pub(super) fn won(&self, won: bool) {
        self.won.store(won, Relaxed);
    }

    /// Whether one of them has.
    pub(super) fn is_won(&self) -> bool {
        self.won.load(Relaxed)
    }

    /// Notes something, unless the record is settled.
    pub(super) fn note(&self, write: impl FnOnce(&mut JournalEntry)) {
        if let Some(line) = self.lock().as_deref_mut() {
            write(line);
        }
    }

    /// Keeps what was known of the prompt's tokens.
    pub(super) fn counts(&self, known: (Arc<Counter>, CountBasis)) {
        // It is counted once; a second time would say the same.
        let _ = self.counted.set(known);
    }

    /// An engine's own count of the prompt's tokens.
    pub(super) fn counted(&self, tokens: u64) {
        if let Some((counter, known)) = self.counted.get() {
            counter.learn(*known, tokens);
        }
    }

    /// Notes who is to be charged for it.
    pub(super) fn charge(&self, caller: Arc<Caller>) -> &CallerReservation {
        self.bill.get_or_init(|| CallerReservation::new(caller))
    }

    /// What it took of its caller's limits, where it has a caller.
    pub(super) fn bill(&self) -> Option<&CallerReservation> {
        self.bill.get()
    }

    /// Notes the most that it may take of an engine.
    pub(super) fn demands(&self, demand: Demand) {
        // It is worked out once.
        let _ = self.demand.set(demand);
    }

    /// The most that it may take of an engine, where that is known.
    pub(super) fn demand(&self) -> Option<&Demand> {
        self.demand.get()
    }

    /// Its trace, where traces are wanted.
    pub(super) fn traced(&self) -> Option<&Traced> {
        self.traced.as_ref()
    }

    /// Notes that a step of its trace is over, which began at `began`.
    pub(super) fn took(&self, name: &'static str, began: Moment) {
        if let Some(traced) = &self.traced {
            traced.took(Took { name, began, ended: self.settlement.clock.now() });
        }
    }

    /// Notes what answers it.
    pub(super) fn serve(&self, served: Served) {
        // An answer begins once.
        let _ = self.served.set(served);
    }

    /// What answered it, once an answer has begun.
    pub(super) fn served(&self) -> Option<Served> {
        self.served.get().cloned()
    }

    /// The end of a request that got no answer but this fault.
    pub(super) fn fail(&self, fault: &Fault) {
        self.note(|line| {
            line.status = fault.status.as_u16();
            line.blame = Some(fault.blame);
        });
        self.settlement.metrics.fault(fault);
        self.settle(Outcome::Failed(fault.kind));
    }

    /// The end of a request whose answer had begun, by its head at least, before this fault.
    pub(super) fn break_off(&self, fault: &Fault) {
        self.note(|line| line.blame = Some(fault.blame));
        self.settlement.metrics.fault(fault);
        self.settle(Outcome::Failed(fault.kind));
    }

    /// The end of a request. Only the first call counts.
    pub(super) fn settle(&self, outcome: Outcome) {
        let Some(mut line) = self.lock().take() else { return };
        *lock(&self.permit) = None;
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
            spans::Told { traced, endpoint: self.endpoint, arrived: self.arrived, line: &line }.tell();
        }
        let (endpoint, reservation) = (self.endpoint, self.bill());
        self.settlement.accounting.settle(&FinishedRequest { entry: &line, endpoint, outcome, reservation, now });
        self.learn(&line);
        self.settlement.decisions.record(*line);
    }

    /// Remembers a completed request for feedback, where its route has tiers.
    fn learn(&self, line: &JournalEntry) {
        if line.outcome == Outcome::Complete.label()
            && line.explained.as_ref().is_some_and(|explained| explained.tier.is_some())
            && let Some(attempt) = line.answered.and_then(|at| line.attempts.get(at))
        {
            self.settlement.learning.tiers.record_answer(&line.id, line.key.as_ref(), &attempt.pool);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<JournalEntry>>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // Whoever held it last let go without an end: as a rule the client left, and its request was dropped where it stood.
        self.settle(self.settlement.dropped());
    }
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
