//! The rest of an answer that broke off in the middle: from a backend of the same model, which goes on from what was said, or says it all
//! again.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::{
    attempt::Attempt,
    job::{Job, Spot},
};
use crate::{
    fleet::Backend,
    gateway::{
        asked::{Asked, Placed},
        relay::{Answer, Committed, Rescue, Rest},
        stages::Call,
    },
    protocol::rest::{self, Prefill},
    schedule::retry::pause,
    types::{EngineKind, Name},
};

/// How often the rest of one answer is fetched.
const MOST: usize = 2;
/// How long may pass until the rest has begun: the caller has half an answer, and waits.
const LONGEST: Duration = Duration::from_secs(30);

/// Who gets the rest of a request's answer.
pub(super) struct Rescuer {
    job: Arc<Job>,
    asked: Asked,
    /// Where it broke off.
    spot: Spot,
    left: usize,
}

impl Rescuer {
    /// For an answer that `committed` has begun, where the rest of such a one can be told from the beginning of another.
    pub(super) fn of(job: &Arc<Job>, asked: Asked, committed: &Committed) -> Option<Box<dyn Rescue>> {
        if !job.streams() || !matches!(committed.answer, Answer::Events { .. }) || committed.decision.cascade.is_some()
        {
            return None;
        }
        if !rest::is_plain_text(job.call.endpoint, &job.call.body) {
            return None;
        }
        let (target, backend) = asked.spot_of(&committed.decision.pool, &committed.decision.backend)?;
        let spot = Spot { target, backend };
        Some(Box::new(Self { job: job.clone(), asked, spot, left: MOST }))
    }

    async fn fetch(mut self, said: String, tokens: u64) -> Option<Rest> {
        let model = self.model(self.spot);
        let learned = self.asked.pool(self.spot.target).1.learned.clone();
        let mut goes_on = true;
        while self.left > 0 && learned.retries.take() {
            self.left -= 1;
            let Some(placed) = self.place(model.as_ref()).await else {
                learned.retries.give_back();
                return None;
            };
            self.asked.tries(&placed);
            self.spot = Spot { target: placed.target, backend: placed.backend };
            let continued = goes_on.then(|| self.continued(&said, tokens)).flatten();
            // Where a backend does not go on, the next try begins anew.
            goes_on &= continued.is_none();
            let (repeats, before) = if continued.is_some() { (String::new(), tokens) } else { (said.clone(), 0) };
            let job = continued.unwrap_or_else(|| self.job.clone());
            let attempt =
                Attempt { job: &job, desk: self.asked.desk.clone(), prompt_bytes: self.asked.blocks.prompt().bytes };
            if let (_, Ok(committed)) = attempt.run(placed).await {
                let next = (self.left > 0).then(|| Box::new(self) as Box<dyn Rescue>);
                return Some(Rest { committed, repeats, before, next });
            }
        }
        None
    }

    /// Another backend of the same model with room now, or else the same one after a pause.
    async fn place(&mut self, model: Option<&Name>) -> Option<Placed> {
        self.asked.keep_model(model, self.spot.target);
        let now = self.asked.desk.clock.now();
        if let Some(placed) = self.asked.place(now) {
            return Some(placed);
        }
        tokio::time::sleep(pause(None, 1, false, fastrand::f64())?).await;
        self.asked.place_again(self.spot.target, self.spot.backend, self.asked.desk.clock.now())
    }

    fn backend(&self, spot: Spot) -> &Backend {
        &self.asked.pool(spot.target).1.backends[spot.backend]
    }

    /// The model's name upstream.
    fn model(&self, spot: Spot) -> Option<Name> {
        self.backend(spot).spec.model.clone()
    }

    /// The request for what follows, where the backend is known to take such a one.
    fn continued(&self, said: &str, tokens: u64) -> Option<Arc<Job>> {
        let kind = self.backend(self.spot).engine.reading().map(|reading| reading.signals.kind);
        let prefill = match kind {
            Some(EngineKind::Vllm | EngineKind::Sglang) => Some(Prefill::Flagged),
            Some(EngineKind::LlamaCpp) => Some(Prefill::Plain),
            _ => None,
        };
        let Job { client, call, headers } = &*self.job;
        let body = rest::request(call.endpoint, &call.body, prefill, said, tokens)?;
        Some(Job { client: client.clone(), call: Call { body, ..call.clone() }, headers: headers.clone() }.into())
    }
}

impl Rescue for Rescuer {
    fn rescue(self: Box<Self>, said: String, tokens: u64) -> BoxFuture<'static, Option<Rest>> {
        let meter = self.asked.serving.pool_meter(self.asked.pool(self.spot.target).0).clone();
        Box::pin(async move {
            let rest = timeout(LONGEST, self.fetch(said, tokens)).await.ok().flatten();
            meter.rescue(match &rest {
                None => "lost",
                Some(rest) if rest.repeats.is_empty() => "continued",
                Some(_) => "repeated",
            });
            rest
        })
    }
}
