//! Resumes a stream that broke off: a backend of the same model continues the text or repeats it from the beginning.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::{Instant, timeout_at};

use super::attempt::{Attempt, Job, Spot};
use crate::{
    placement::{PlacementRequest, Reservation, enter},
    relay::{Answer, Broken, Committed, Rest, ResumeStream},
    stages::Call,
};
use signalbox_fleet::Backend;
use signalbox_protocol::continuation::{self, Prefill};
use signalbox_schedule::retry::pause;
use signalbox_types::{EngineKind, Name};

/// Most attempts to resume one stream.
const MAX_RESUME_ATTEMPTS: usize = 3;

/// Resumes the stream of one request.
pub(super) struct StreamResumer {
    job: Arc<Job>,
    asked: PlacementRequest,
    /// The backend whose stream broke off.
    spot: Spot,
    left: usize,
}

impl StreamResumer {
    /// Creates a resumer for the answer in `committed`. Returns `None` for an answer that cannot be resumed: a whole
    /// one, one of a cascade, or a stream that is not plain text.
    pub(super) fn of(job: &Arc<Job>, asked: PlacementRequest, committed: &Committed) -> Option<Box<dyn ResumeStream>> {
        if !job.streams() || !matches!(committed.answer, Answer::Events { .. }) || committed.decision.cascade.is_some()
        {
            return None;
        }
        // An answer in the caller's own API passes through unchanged, so a rest in another API would not fit.
        if committed.endpoint != job.call.endpoint || !continuation::is_plain_text(job.call.endpoint, &job.call.body) {
            return None;
        }
        let (target, backend) = asked.spot_of(&committed.decision.pool, &committed.decision.backend)?;
        let spot = Spot { target, backend };
        let job = if job.call.original.is_none() {
            job.clone()
        } else {
            Arc::new(Job {
                client: job.client.clone(),
                // The rest of a chat stream is a chat stream, also from a backend that speaks the caller's API.
                call: Call { original: None, ..job.call.clone() },
            })
        };
        Some(Box::new(Self { job, asked, spot, left: MAX_RESUME_ATTEMPTS }))
    }

    async fn fetch(mut self, broken: Broken) -> Option<Rest> {
        let Broken { said, tokens, mut stalled, until } = broken;
        let model = self.model(self.spot);
        let mut goes_on = true;
        while self.left > 0 {
            self.left -= 1;
            let placed = timeout_at(until, self.place(model.as_ref(), stalled)).await.ok().flatten()?;
            stalled = false;
            self.asked.tries(&placed);
            if !self.asked.serving.snapshot.pools[placed.pool].speaks(self.job.call.endpoint) {
                continue;
            }
            self.spot = Spot { target: placed.target, backend: placed.backend };
            let continued = goes_on.then(|| self.continued(&said, tokens)).flatten();
            // If a backend does not continue the text, the next attempt starts from the beginning.
            goes_on &= continued.is_none();
            let (repeats, before) = if continued.is_some() { (String::new(), tokens) } else { (said.clone(), 0) };
            let job = continued.unwrap_or_else(|| self.job.clone());
            let attempt = Attempt::new(&job, &self.asked, placed.pool).run(placed);
            // An attempt may use half of the remaining time if another backend is left to try.
            let now = Instant::now();
            let share = if self.left > 0 && self.asked.has_untried() { 2 } else { 1 };
            let deadline = now + until.saturating_duration_since(now) / share;
            if let Ok((_, Ok(committed))) = timeout_at(deadline, attempt).await {
                let next = (self.left > 0).then(|| Box::new(self) as Box<dyn ResumeStream>);
                return Some(Rest { committed, repeats, before, next });
            }
        }
        None
    }

    /// Waits for room on another backend of the same model that has not failed lately.
    ///
    /// If there is none, charges the retry budget and reserves one that failed lately, or the failed backend itself
    /// after a pause. `stalled`: the failed backend stopped sending; it is then reused only if it is the only one.
    async fn place(&mut self, model: Option<&Name>, stalled: bool) -> Option<Reservation> {
        self.asked.keep_model(model, self.spot.target);
        let now = self.asked.state.clock.now();
        if self.asked.moves_free(now) {
            return enter(&self.asked, &self.job.call.record).await.ok();
        }
        if !self.asked.retries(self.spot.target).take(self.asked.caller.as_ref()) {
            return None;
        }
        let placed = match self.asked.place(now) {
            Some(placed) => Some(placed),
            None if stalled && self.asked.has_untried() => None,
            None => {
                // A stall was already a pause.
                let wait = if stalled { Duration::ZERO } else { pause(None, 1, false, fastrand::f64())? };
                tokio::time::sleep(wait).await;
                self.asked.place_again(self.spot.target, self.spot.backend, self.asked.state.clock.now())
            }
        };
        if placed.is_none() {
            self.asked.retries(self.spot.target).give_back(self.asked.caller.as_ref());
        }
        placed
    }

    fn backend(&self, spot: Spot) -> &Backend {
        &self.asked.pool(spot.target).1.backends[spot.backend]
    }

    /// Model identity. Backends that share it can continue each other's streams.
    fn model(&self, spot: Spot) -> Option<Name> {
        self.backend(spot).spec.identity().cloned()
    }

    /// Builds the request for the rest of the text, if the backend is known to accept a prefilled answer.
    fn continued(&self, said: &str, tokens: u64) -> Option<Arc<Job>> {
        let kind = self.backend(self.spot).engine.reading().map(|reading| reading.signals.kind);
        let prefill = match kind {
            Some(EngineKind::Vllm | EngineKind::Sglang) => Some(Prefill::Flagged),
            Some(EngineKind::LlamaCpp) => Some(Prefill::Plain),
            _ => None,
        };
        let Job { client, call } = &*self.job;
        let body = continuation::request(call.endpoint, &call.body, prefill, said, tokens)?;
        Some(Job { client: client.clone(), call: Call { body, ..call.clone() } }.into())
    }
}

impl ResumeStream for StreamResumer {
    fn has_other(&self) -> bool {
        let mut asked = self.asked.clone();
        asked.keep_model(self.model(self.spot).as_ref(), self.spot.target);
        asked.has_sound(asked.state.clock.now())
    }

    fn resume(self: Box<Self>, broken: Broken) -> BoxFuture<'static, Option<Rest>> {
        let meter = self.asked.serving.pool_meter(self.asked.pool(self.spot.target).0).clone();
        Box::pin(async move {
            let until = broken.until;
            let rest = timeout_at(until, self.fetch(broken)).await.ok().flatten();
            meter.count_resume(match &rest {
                None => "lost",
                Some(rest) if rest.repeats.is_empty() => "continued",
                Some(_) => "repeated",
            });
            rest
        })
    }
}
