//! The wait for room: at once where a backend has some, else in the queue of a pool, for as long as the request may wait.

use std::{sync::Mutex, time::Duration};

use http::StatusCode;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::request::{PlacementChoice, PlacementRequest, Reservation};
use crate::{
    gateway::{
        record::{Record, millis},
        wait_queue::{Full, Waiter},
    },
    journal::Admission,
    measure::lock,
    schedule::admission::{Backlog, RECHECK_INTERVAL, Wait, WaitLimit, Waiting, due, retry_after, wait_limit},
    telemetry::Shed,
    types::{Fault, Moment},
};

/// A place on an engine, for a first attempt or a further one: at once, or after a wait.
pub(in crate::gateway) async fn enter(asked: &PlacementRequest, record: &Record) -> Result<Reservation, Fault> {
    let (clock, queues) = (asked.state.clock, &asked.state.queues);
    let began = clock.now();
    let Some(preferred) = asked.preferred() else { return Err(nowhere(asked)) };
    let (pool_at, pool) = asked.pool(preferred);
    let meter = asked.serving.pool_meter(pool_at);
    let note = |result, queued, waited: Duration| {
        let waited_ms = millis(waited);
        let admission = Admission { pool: pool.spec.name.clone(), result, queued, waited_ms };
        record.note(|line| {
            // What a further attempt waited for does not hide how the request was let in.
            if asked.is_new() {
                line.admission = Some(admission);
            }
        });
    };
    let let_in = |placed: Reservation, queued, waited| {
        let spilled = placed.target != preferred;
        if spilled && asked.is_new() {
            meter.spilled();
        }
        note(if spilled { "spilled" } else { "admitted" }, queued, waited);
        Ok(placed)
    };

    let chosen = asked.choose(began);
    let hope = Hope::of(chosen.as_ref(), began);
    if let Some(chosen) = chosen {
        if let Some(after) = asked.shed(&chosen, fastrand::f64(), began).filter(|_| asked.is_new()) {
            meter.shed(Shed::Slo);
            note(Shed::Slo.label(), false, Duration::ZERO);
            return Err(late(asked, after));
        }
        // Who comes now does not pass those who wait.
        if queues.is_empty()
            && !hope.held
            && let Some(placed) = asked.take(chosen, began).or_else(|| asked.place_in_turn(began).ok())
        {
            return let_in(placed, false, Duration::ZERO);
        }
    }

    note("waiting", true, Duration::ZERO);
    let result = wait(asked, preferred, &hope, began).await;
    let now = clock.now();
    let waited = now.since(began);
    record.wait(waited);
    record.took("queue", began);
    let after = || come_back(asked, preferred, now);
    let (reason, fault) = match result {
        Ok((placed, queued)) => {
            if queued {
                meter.waited(waited.as_secs_f64(), now);
            }
            return let_in(placed, queued, waited);
        }
        Err(End::Full) => {
            let message = format!(
                "{} requests wait for room in the pool '{}', the most that may (limits.queue.length)",
                asked.serving.snapshot.policy.limits.queue_length, pool.spec.name
            );
            let fault = Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message);
            (Shed::Full, Fault { retry_after: Some(after()), ..fault })
        }
        Err(End::Late) => (Shed::Slo, late(asked, after())),
        Err(End::Timeout) => {
            let message = format!(
                "no backend of the pool '{}' had room within {:.1} s (queue in the route, or limits.queue.wait)",
                pool.spec.name,
                waited.as_secs_f64()
            );
            let fault = Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, "queue_timeout", message);
            (Shed::Timeout, Fault { retry_after: Some(after()), ..fault })
        }
    };
    // Who has an answer already is not refused.
    if !asked.escalates {
        meter.shed(reason);
    }
    note(reason.label(), true, waited);
    Err(fault)
}

/// What a request can expect that may have to wait.
struct Hope {
    /// When it should go.
    due: Moment,
    /// Whether there is room for it, at an engine that has enough to do for now.
    held: bool,
}

impl Hope {
    fn of(chosen: Option<&PlacementChoice>, now: Moment) -> Self {
        let prefill = chosen.map_or(0.0, |chosen| chosen.forecast().work.prefill);
        Self { due: due(now, prefill), held: chosen.is_some_and(PlacementChoice::is_held) }
    }
}

/// Why a wait was in vain.
enum End {
    Full,
    Timeout,
    /// The request's bound is over.
    Late,
}

/// Waits in the queue of a target's pool until a place is handed over. Also tells whether it had to: those before it may wait for
/// something else.
async fn wait(asked: &PlacementRequest, target: usize, hope: &Hope, began: Moment) -> Result<(Reservation, bool), End> {
    let limits = asked.serving.snapshot.policy.limits;
    let (_, pool) = asked.pool(target);
    let left = asked.route.timeouts.total.map(|total| total.saturating_sub(began.since(asked.arrived)));
    let bound = asked.bound(began).filter(|_| asked.is_new());
    let usual = asked.route.queue.unwrap_or(limits.queue_wait);
    let WaitLimit { time, ends_late } = wait_limit(usual, left, bound, hope.held);
    let end = if ends_late { End::Late } else { End::Timeout };
    let (offer, mut offered) = oneshot::channel();
    let (offer, undelivered) = (Mutex::new(Some(offer)), Mutex::default());
    let guest = QueuedRequest { asked: asked.clone(), kept: hope.held, kind: asked.kind(), offer, undelivered };
    // Even who has no time to wait is looked at once: those who wait may wait for something else.
    let deadline = began.plus(time.max(Duration::from_nanos(1)));
    let waiting = Waiting {
        priority: asked.priority,
        due: hope.due,
        deadline: Some(deadline),
        item: Box::new(guest) as Box<dyn Waiter>,
    };
    let until = Instant::now() + time;
    // Declared after `offered`, and so dropped before it: while one stands in the queue, somebody takes what it is offered.
    let Ok(stay) = asked.state.queues.join(&pool.spec.name, limits.queue_length, waiting, began) else {
        // There may be room that nobody who waits can use, and nobody is refused who was only to be kept for a while.
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
            // One with a higher priority came.
            Ok(Err(_)) => break End::Full,
            Err(_) if Instant::now() < until => asked.state.queues.look(asked.state.clock.now()),
            Err(_) => break end,
        }
    };
    drop(stay);
    // It may have been handed over in this very moment. And one that was only kept goes to an engine that has enough to do.
    let handed = offered.try_recv().ok();
    let anyway = || if matches!(end, End::Late) { None } else { asked.place(asked.state.clock.now()) };
    handed.or_else(anyway).map(|placed| (placed, true)).ok_or(end)
}

/// A request in a queue.
struct QueuedRequest {
    asked: PlacementRequest,
    kept: bool,
    kind: u64,
    offer: Mutex<Option<oneshot::Sender<Reservation>>>,
    /// What nobody took.
    undelivered: Mutex<Option<Reservation>>,
}

impl Waiter for QueuedRequest {
    fn sit(&self, now: Moment) -> Result<(), Wait> {
        let placed = self.asked.place_in_turn(now)?;
        let refused = match lock(&self.offer).take() {
            Some(offer) => offer.send(placed).err(),
            None => Some(placed),
        };
        *lock(&self.undelivered) = refused;
        Ok(())
    }

    fn is_kept(&self) -> bool {
        self.kept
    }

    fn kind(&self) -> u64 {
        self.kind
    }
}

/// When there will probably be a place in the queue, or at its head.
fn come_back(asked: &PlacementRequest, target: usize, now: Moment) -> Duration {
    let (at, pool) = asked.pool(target);
    let standing = asked.state.queues.standing(&pool.spec.name, now);
    // The work is counted in requests here.
    let backlog = Backlog {
        tokens: standing.depth as u64,
        tokens_per_second: asked.serving.pool_meter(at).admitted_per_second(now),
    };
    retry_after(standing.oldest.as_secs_f64(), 0.0, backlog)
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
    let message = format!("no backend serves the route '{name}' at present: its pools have none that fits");
    Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, "no_backend", message)
}
