//! Is there room for it: no more requests are under way at once than the policy allows, each with a place on an engine. What finds
//! no room waits in its pool's queue; what would be late anyway, or waits in vain, is told when to come back.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use http::StatusCode;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{
    Desk, Reply, Step,
    asked::{Asked, Chosen, Placed, Tries},
    hall::{Full, Guest},
    line::Admission,
    record::{Record, millis},
    route::priority,
    stages::{Admitted, Call, Covered, Place, Routed},
};
use crate::{
    measure::lock,
    schedule::admission::{Backlog, RECHECK_INTERVAL, Wait, WaitLimit, Waiting, due, retry_after, wait_limit},
    telemetry::Shed,
    types::{Fault, Moment},
};

pub(super) struct Admit<S> {
    inner: S,
    desk: Arc<Desk>,
    /// Requests under way, whichever policy let them in.
    taken: Arc<AtomicUsize>,
}

impl<S> Admit<S> {
    pub(super) fn new(inner: S, desk: Arc<Desk>) -> Self {
        Self { inner, desk, taken: Arc::default() }
    }
}

impl<S: Step<Admitted>> Step<Covered> for Admit<S> {
    async fn call(&self, Covered(routed): Covered) -> Result<Reply, Fault> {
        let most = routed.call.serving.snapshot.policy.limits.in_flight;
        let Some(place) = Place::take(&self.taken, most) else {
            let message = format!("{most} requests are under way, the most that this gateway takes (limits.in_flight)");
            return Err(Fault {
                retry_after: Some(Duration::from_secs(1)),
                ..Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message)
            });
        };
        let (call, asked) = self.asked(routed);
        let first = enter(&asked, &call.record).await?;
        self.inner.call(Admitted { call, asked, first, place }).await
    }
}

impl<S> Admit<S> {
    fn asked(&self, routed: Routed) -> (Call, Asked) {
        let Routed { call, blocks, session, route } = routed;
        let tries = route.targets.iter().map(|target| Tries::none(&call.serving, target, &route.name));
        let mut asked = Asked {
            desk: self.desk.clone(),
            serving: call.serving.clone(),
            tries: tries.collect(),
            caller: call.caller().cloned(),
            model: call.body.model.as_deref().map(Into::into),
            route,
            blocks,
            session,
            priority: priority(&call.serving.snapshot.policy, call.key, &call.headers),
            max_tokens: call.body.max_tokens,
            whole: !call.body.stream || call.body.asks_to_think(),
            arrived: call.record.arrived(),
            escalates: false,
        };
        asked.skip_lacking(call.endpoint, call.read_at);
        (call, asked)
    }
}

/// A place on an engine, for a first attempt or a further one: at once, or after a wait.
pub(super) async fn enter(asked: &Asked, record: &Record) -> Result<Placed, Fault> {
    let desk = &asked.desk;
    let began = desk.clock.now();
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
    let let_in = |placed: Placed, queued, waited| {
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
        if desk.hall.is_empty()
            && !hope.held
            && let Some(placed) = asked.take(chosen, began).or_else(|| asked.place_in_turn(began).ok())
        {
            return let_in(placed, false, Duration::ZERO);
        }
    }

    note("waiting", true, Duration::ZERO);
    let result = wait(asked, preferred, &hope, began).await;
    let now = desk.clock.now();
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
    fn of(chosen: Option<&Chosen>, now: Moment) -> Self {
        let prefill = chosen.map_or(0.0, |chosen| chosen.forecast().work.prefill);
        Self { due: due(now, prefill), held: chosen.is_some_and(Chosen::is_held) }
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
async fn wait(asked: &Asked, target: usize, hope: &Hope, began: Moment) -> Result<(Placed, bool), End> {
    let limits = asked.serving.snapshot.policy.limits;
    let (_, pool) = asked.pool(target);
    let left = asked.route.timeouts.total.map(|total| total.saturating_sub(began.since(asked.arrived)));
    let bound = asked.bound(began).filter(|_| asked.is_new());
    let usual = asked.route.queue.unwrap_or(limits.queue_wait);
    let WaitLimit { time, ends_late } = wait_limit(usual, left, bound, hope.held);
    let end = if ends_late { End::Late } else { End::Timeout };
    let (offer, mut offered) = oneshot::channel();
    let (offer, undelivered) = (Mutex::new(Some(offer)), Mutex::default());
    let guest = Waiter { asked: asked.clone(), kept: hope.held, kind: asked.kind(), offer, undelivered };
    // Even who has no time to wait is looked at once: those who wait may wait for something else.
    let deadline = began.plus(time.max(Duration::from_nanos(1)));
    let waiting = Waiting {
        priority: asked.priority,
        due: hope.due,
        deadline: Some(deadline),
        item: Box::new(guest) as Box<dyn Guest>,
    };
    let until = Instant::now() + time;
    // Declared after `offered`, and so dropped before it: while one stands in the queue, somebody takes what it is offered.
    let Ok(stay) = asked.desk.hall.join(&pool.spec.name, limits.queue_length, waiting, began) else {
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
            Err(_) if Instant::now() < until => asked.desk.hall.look(asked.desk.clock.now()),
            Err(_) => break end,
        }
    };
    drop(stay);
    // It may have been handed over in this very moment. And one that was only kept goes to an engine that has enough to do.
    let handed = offered.try_recv().ok();
    let anyway = || if matches!(end, End::Late) { None } else { asked.place(asked.desk.clock.now()) };
    handed.or_else(anyway).map(|placed| (placed, true)).ok_or(end)
}

/// A request in a queue.
struct Waiter {
    asked: Asked,
    kept: bool,
    kind: u64,
    offer: Mutex<Option<oneshot::Sender<Placed>>>,
    /// What nobody took.
    undelivered: Mutex<Option<Placed>>,
}

impl Guest for Waiter {
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
fn come_back(asked: &Asked, target: usize, now: Moment) -> Duration {
    let (at, pool) = asked.pool(target);
    let standing = asked.desk.hall.standing(&pool.spec.name, now);
    // The work is counted in requests here.
    let backlog = Backlog {
        tokens: standing.depth as u64,
        tokens_per_second: asked.serving.pool_meter(at).admitted_per_second(now),
    };
    retry_after(standing.oldest.as_secs_f64(), 0.0, backlog)
}

fn late(asked: &Asked, after: Duration) -> Fault {
    let bound = asked.route.bound.unwrap_or_default().as_secs_f64();
    let message = format!(
        "no backend of the route '{}' would give a first token within {bound} s now (bound.ttft in the route)",
        asked.route.name
    );
    let fault = Fault::gateway(StatusCode::TOO_MANY_REQUESTS, "slo_unattainable", message);
    Fault { retry_after: Some(after), ..fault }
}

fn nowhere(asked: &Asked) -> Fault {
    let name = &asked.route.name;
    let message = format!("no backend serves the route '{name}' at present: its pools have none that fits");
    Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, "no_backend", message)
}

impl Place {
    /// One more of `most`, if there is one left.
    pub(super) fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        taken.fetch_update(Relaxed, Relaxed, |count| (count < most).then_some(count + 1)).ok()?;
        Some(Self(taken.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
