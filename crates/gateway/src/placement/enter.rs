//! Entry of an attempt, first or further, into placement: reserves a backend at once if one has room, else waits in the
//! queue of a pool for as long as the request may wait. A request that would be late anyway, or that waited in vain, gets
//! a fault with a `Retry-After`.

use std::time::Duration;

use parking_lot::Mutex;

use http::StatusCode;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};
use xxhash_rust::xxh3::xxh3_64;

use super::request::{PlacementChoice, PlacementRequest, Reservation};
use crate::{
    record::{Record, millis},
    wait_queue::{Full, Waiter},
};
use signalbox_journal::Admission;
use signalbox_schedule::admission::{
    Backlog, RECHECK_INTERVAL, Wait, WaitLimit, Waiting, due, late as late_from, retry_after, wait_limit,
};
use signalbox_telemetry::{PoolMetrics, Shed};
use signalbox_types::{Fault, Moment};

/// Reserves a backend for a first or further attempt, at once or after a wait.
pub(crate) async fn enter(asked: &PlacementRequest, record: &Record) -> Result<Reservation, Fault> {
    let clock = asked.state.clock;
    let began = clock.now();
    if asked.is_new() {
        asked.wanted(0, began);
    }
    let Some(preferred) = asked.preferred() else {
        (0..asked.tries.len()).for_each(|at| asked.wanted(at, began));
        return Err(nowhere(asked));
    };
    let entry = Entry { asked, record, preferred };
    let chosen = asked.choose(began);
    let hope = Expectation::of(chosen.as_ref());
    if let Some(chosen) = chosen {
        if let Some(after) = asked.shed(&chosen, fastrand::f64(), began).filter(|_| asked.is_new()) {
            entry.refused(Shed::Slo, false, Duration::ZERO);
            return Err(late(asked, after));
        }
        // A new request does not overtake those that wait.
        if asked.state.queues.is_empty()
            && !hope.held
            && let Some(placed) = asked.take(chosen, began).or_else(|| asked.place_in_turn(began).ok())
        {
            return Ok(entry.admitted(placed, false, Duration::ZERO));
        }
    }
    // Reported before the wait, since the client may leave in it.
    entry.report("waiting", true, Duration::ZERO);
    let result = wait(asked, preferred, &hope, began).await;
    let now = clock.now();
    let waited = now.since(began);
    record.wait(waited);
    record.took("queue", began);
    match result {
        Ok((placed, queued)) => {
            if queued {
                entry.meter().waited(waited.as_secs_f64(), now);
            }
            Ok(entry.admitted(placed, queued, waited))
        }
        Err(end) => {
            entry.refused(end.reason(), true, waited);
            Err(fault(asked, preferred, &end, waited, now))
        }
    }
}

/// The entry of a request, with what is reported of it.
struct Entry<'a> {
    asked: &'a PlacementRequest,
    record: &'a Record,
    /// Target in whose pool the request waits.
    preferred: usize,
}

impl Entry<'_> {
    fn meter(&self) -> &PoolMetrics {
        self.asked.serving.pool_meter(self.asked.pool(self.preferred).0)
    }

    /// Reports that the request was admitted.
    fn admitted(&self, placed: Reservation, queued: bool, waited: Duration) -> Reservation {
        let spilled = placed.target != self.preferred;
        if spilled && self.asked.is_new() {
            self.meter().spilled();
        }
        self.report(if spilled { "spilled" } else { "admitted" }, queued, waited);
        placed
    }

    fn refused(&self, reason: Shed, queued: bool, waited: Duration) {
        // A request that already has an answer is not refused.
        if !self.asked.escalates {
            self.meter().shed(reason);
        }
        self.report(reason.label(), queued, waited);
    }

    /// Reports the result of the admission. `queued`: true if the request is or was in the queue.
    fn report(&self, result: &'static str, queued: bool, waited: Duration) {
        // The wait of a further attempt must not overwrite the result of the request's admission.
        if self.asked.is_new() {
            let pool = self.asked.pool(self.preferred).1.spec.name.clone();
            let admission = Admission { pool, result, queued, waited_ms: millis(waited) };
            self.record.progress().admitted(admission);
        }
    }
}

/// Expectation for a request that may have to wait.
struct Expectation {
    /// Seconds that its prompt takes.
    prefill: f64,
    /// True if there is room for the request, but on an engine that has enough work for now.
    held: bool,
}

impl Expectation {
    fn of(chosen: Option<&PlacementChoice>) -> Self {
        let prefill = chosen.map_or(0.0, |chosen| chosen.forecast().work.prefill);
        Self { prefill, held: chosen.is_some_and(PlacementChoice::is_held) }
    }
}

/// Reason why a wait failed.
enum End {
    Full,
    Timeout,
    /// The route's bound on the first token has passed.
    Late,
}

impl End {
    const fn reason(&self) -> Shed {
        match self {
            Self::Full => Shed::Full,
            Self::Timeout => Shed::Timeout,
            Self::Late => Shed::Slo,
        }
    }
}

/// Caller that takes turns with others in a queue: the key, else the session. Requests with neither go by their arrival.
fn in_turn(asked: &PlacementRequest) -> Option<u64> {
    asked.caller.as_ref().map(|key| xxh3_64(key.as_bytes())).or(asked.session)
}

/// Waits in the queue of a target's pool for a reservation. The flag is true if the request had to wait: those before
/// it may wait for something else.
async fn wait(
    asked: &PlacementRequest,
    target: usize,
    expected: &Expectation,
    began: Moment,
) -> Result<(Reservation, bool), End> {
    let limits = asked.serving.snapshot.policy.limits;
    let (_, pool) = asked.pool(target);
    let left = asked.route.timeouts.total.map(|total| total.saturating_sub(began.since(asked.arrived)));
    let bound = asked.bound(began).filter(|_| asked.is_new());
    let usual = asked.route.queue.unwrap_or(limits.queue_wait);
    let WaitLimit { time, ends_late } = wait_limit(usual, left, bound, expected.held);
    let end = if ends_late { End::Late } else { End::Timeout };
    let (offer, mut offered) = oneshot::channel();
    let (offer, undelivered) = (Mutex::new(Some(offer)), Mutex::default());
    let waiter = QueuedRequest { asked: asked.clone(), held: expected.held, kind: asked.kind(), offer, undelivered };
    // A request without time to wait is tried once too: those that wait may wait for something else.
    let deadline = began.plus(time.max(Duration::from_nanos(1)));
    let waiting = Waiting {
        caller: in_turn(asked),
        work: expected.prefill,
        priority: asked.priority,
        due: due(began, expected.prefill),
        deadline: Some(deadline),
        late: late_from(pool.spec.overload, began, expected.prefill, asked.limits(target, began).0),
        item: Box::new(waiter) as Box<dyn Waiter>,
    };
    let until = Instant::now() + time;
    // Declared after `offered`, and so dropped before it: while the request is in the queue, a reservation sent to it
    // has a receiver.
    let Ok(stay) = asked.state.queues.join(&pool.spec.name, limits.queue_length, waiting, began) else {
        // There may be room that no waiting request can use. A request that would only have been held is not refused.
        let Full = Full;
        let elsewhere = asked.place(began);
        return elsewhere.map(|placed| (placed, false)).ok_or(End::Full);
    };
    if let Ok(placed) = offered.try_recv() {
        return Ok((placed, false));
    }
    let end = loop {
        match timeout_at(until.min(Instant::now() + RECHECK_INTERVAL), &mut offered).await {
            Ok(Ok(placed)) => return Ok((placed, true)),
            // A request with a higher priority displaced this one.
            Ok(Err(_)) => break End::Full,
            Err(_) if Instant::now() < until => asked.state.queues.scan_if_due(asked.state.clock.now()),
            Err(_) => break end,
        }
    };
    drop(stay);
    // A reservation may have been sent at this very moment. A request that was only held goes to an engine that has
    // enough work.
    let handed = offered.try_recv().ok();
    let anyway = || if matches!(end, End::Late) { None } else { asked.place(asked.state.clock.now()) };
    handed.or_else(anyway).map(|placed| (placed, true)).ok_or(end)
}

/// A request in a queue.
struct QueuedRequest {
    asked: PlacementRequest,
    held: bool,
    kind: u64,
    offer: Mutex<Option<oneshot::Sender<Reservation>>>,
    /// Reservation that could not be delivered. It is dropped with the request, since its drop scans the queues, which
    /// are locked during delivery.
    undelivered: Mutex<Option<Reservation>>,
}

impl Waiter for QueuedRequest {
    fn try_reserve(&self, now: Moment) -> Result<(), Wait> {
        let placed = self.asked.place_in_turn(now)?;
        let refused = match self.offer.lock().take() {
            Some(offer) => offer.send(placed).err(),
            None => Some(placed),
        };
        *self.undelivered.lock() = refused;
        Ok(())
    }

    fn is_held(&self) -> bool {
        self.held
    }

    fn kind(&self) -> u64 {
        self.kind
    }
}

/// Estimates the delay until the queue has room, or until its head is served.
pub(crate) fn come_back(asked: &PlacementRequest, target: usize, now: Moment) -> Duration {
    let (at, pool) = asked.pool(target);
    let standing = asked.state.queues.standing(&pool.spec.name, now);
    // The backlog is counted in requests here.
    let backlog = Backlog {
        tokens: standing.depth as u64,
        tokens_per_second: asked.serving.pool_meter(at).admitted_per_second(now),
    };
    retry_after(standing.oldest.as_secs_f64(), 0.0, backlog)
}

/// Builds the fault of a request that waited in vain in the queue of a target's pool.
fn fault(asked: &PlacementRequest, target: usize, end: &End, waited: Duration, now: Moment) -> Fault {
    let after = come_back(asked, target, now);
    let pool = &asked.pool(target).1.spec.name;
    let (kind, message) = match end {
        End::Late => return late(asked, after),
        End::Full => {
            let most = asked.serving.snapshot.policy.limits.queue_length;
            let what = "requests wait for room in the pool";
            ("overloaded", format!("{most} {what} '{pool}', the most that may (limits.queue.length)"))
        }
        End::Timeout => {
            let (seconds, keys) = (waited.as_secs_f64(), "queue in the route, or limits.queue.wait");
            ("queue_timeout", format!("no backend of the pool '{pool}' had room within {seconds:.1} s ({keys})"))
        }
    };
    Fault { retry_after: Some(after), ..Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, kind, message) }
}

fn late(asked: &PlacementRequest, after: Duration) -> Fault {
    let bound = asked.route.bound.unwrap_or_default().as_secs_f64();
    let message = format!(
        "no backend of the route '{}' would give a first token within {bound} s now (bound.ttft in the route)",
        asked.route.name
    );
    let fault = Fault::gateway(StatusCode::TOO_MANY_REQUESTS, "slo_unattainable", message);
    Fault { retry_after: Some(after), ..fault }
}

fn nowhere(asked: &PlacementRequest) -> Fault {
    let name = &asked.route.name;
    let is_empty = (0..asked.tries.len()).all(|at| asked.pool(at).1.backends.is_empty());
    let why = if is_empty { "its pools have none now" } else { "its pools have none that fits" };
    let message = format!("no backend serves the route '{name}' at present: {why}");
    // Backends that are discovered may appear any time.
    let retry_after = is_empty.then_some(Duration::from_secs(1));
    Fault { retry_after, ..Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, "no_backend", message) }
}
