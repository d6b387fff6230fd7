//! Keeps an answer that passes through, once it is complete: never one that broke off, failed, or ended for another reason than that the
//! model was done.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use crate::{
    answers::{self, Answers, EngineAnswer, PendingEntry},
    cache::{self, ExactKey, Origin, ScopeId},
    fleet::Pool,
    gateway::{
        Serving,
        record::{Record, Served},
        stages::Routed,
    },
    policy::{Exact, Replay},
    protocol::{Event, LONG_BODY, Transcript, TranscriptBuilder, Uncacheable},
    types::{Clock, Endpoint, Moment, Name, Price},
};

/// Most bytes of events that are gathered: what they frame takes many times the bytes of the answer.
const MOST_GATHERED: usize = 8 << 20;

/// Under what an answer is kept.
pub(in crate::gateway) struct KeptAs {
    pub(in crate::gateway) key: ExactKey,
    pub(in crate::gateway) scope: ScopeId,
    /// Name of the caller's key, where keys are asked for.
    pub(in crate::gateway) caller: Option<Name>,
    /// For how long the caller lets it be kept.
    pub(in crate::gateway) ttl: Option<Duration>,
}

/// Gathers an answer, and keeps it.
pub(in crate::gateway) struct AnswerStore {
    answers: Arc<Answers>,
    clock: Clock,
    serving: Arc<Serving>,
    record: Arc<Record>,
    endpoint: Endpoint,
    route: Name,
    kept_as: KeptAs,
    /// How it is kept for equal requests; `None` where it is not, or was already.
    exact: Option<Exact>,
    /// The lookup by meaning that it is the answer to, if there was one, until it is kept.
    meaning: Option<Box<PendingEntry>>,
    gathered: Gathered,
    last: Moment,
}

enum Gathered {
    Nothing,
    Events { events: Vec<(Event, Duration)>, bytes: usize },
    Whole(Bytes),
    TooLarge,
}

impl AnswerStore {
    /// `exact`: how it is kept for equal requests, where it is; `meaning`: the lookup by meaning that found none, where there was one.
    pub(in crate::gateway) fn new(
        answers: &Arc<Answers>,
        routed: &Routed,
        kept_as: KeptAs,
        exact: Option<Exact>,
        meaning: Option<Box<PendingEntry>>,
    ) -> Self {
        Self {
            answers: answers.clone(),
            clock: routed.call.record.clock(),
            serving: routed.call.serving.clone(),
            record: routed.call.record.clone(),
            endpoint: routed.call.endpoint,
            route: routed.route.name.clone(),
            kept_as,
            exact,
            meaning,
            gathered: Gathered::Nothing,
            last: routed.call.record.clock().now(),
        }
    }

    pub(super) fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// What the tokens of the pool that answered cost, where known.
    pub(super) fn price(&self) -> Option<Price> {
        self.answered(&self.record.served()?)?.0.spec.price
    }

    /// An event came.
    pub(super) fn push(&mut self, event: &Event) {
        if self.exact.is_none() && self.meaning.is_none() {
            return;
        }
        let now = self.clock.now();
        let pause = now.since(std::mem::replace(&mut self.last, now));
        if matches!(self.gathered, Gathered::Nothing) {
            self.gathered = Gathered::Events { events: Vec::new(), bytes: 0 };
        }
        let Gathered::Events { events, bytes } = &mut self.gathered else { return };
        *bytes += event.raw.len();
        if *bytes > MOST_GATHERED {
            self.gathered = Gathered::TooLarge;
            return;
        }
        events.push((event.clone(), pause));
    }

    /// The answer came whole. One that comes in parts after all is not kept.
    pub(super) fn whole(&mut self, bytes: &Bytes) {
        self.gathered = match self.gathered {
            Gathered::Nothing => Gathered::Whole(bytes.clone()),
            _ => Gathered::TooLarge,
        };
    }

    /// The answer is over: keeps it, if it may be. Only the first call counts.
    pub(super) async fn keep(&mut self) {
        let (exact, meaning) = (self.exact.take(), self.meaning.take());
        if exact.is_none() && meaning.is_none() {
            return;
        }
        let result = match self.kept(exact, meaning).await {
            Ok(true) => "kept",
            Ok(false) => "no_room",
            Err(unkept) => unkept.label(),
        };
        self.record.metrics().cache().stored(result);
    }

    async fn kept(&mut self, exact: Option<Exact>, meaning: Option<Box<PendingEntry>>) -> Result<bool, Uncacheable> {
        let served = self.record.served().filter(|served| served.passed).ok_or(Uncacheable::Unfinished)?;
        let (pool, origin) = self.answered(&served).ok_or(Uncacheable::Unfinished)?;
        let (price, pool) = (pool.spec.price, pool.spec.name.clone());
        let transcript = self.transcript(exact.unwrap_or_default()).await?;
        let now = self.clock.now();
        let KeptAs { key, scope, caller, ttl } = &self.kept_as;
        let record = Arc::new(cache::Record {
            cost_usd: transcript.usage().and_then(|usage| Some(price?.cost(&usage))),
            transcript,
            scope: *scope,
            caller: caller.clone(),
            route: self.route.clone(),
            pool,
            origin,
            seconds: now.seconds_since(self.record.arrived()),
        });
        if let Some(meaning) = meaning {
            let answered = EngineAnswer { record: record.clone(), exact: *key };
            // Vectors take milliseconds, for which nobody has to wait.
            tokio::spawn(answers::store_semantic(self.answers.clone(), *meaning, answered));
        }
        let Some(exact) = exact else { return Ok(true) };
        let ttl = ttl.map_or(exact.ttl, |ttl| ttl.min(exact.ttl));
        // First the disk: what is forgotten meanwhile is forgotten in memory first, and so stays on neither.
        self.answers.local.disk.record(key, &record, ttl);
        self.answers.publish_record(key, &record, ttl);
        Ok(self.answers.local.cache.exact.insert(*key, record, ttl, now))
    }

    async fn transcript(&mut self, exact: Exact) -> Result<Transcript, Uncacheable> {
        let (endpoint, largest) = (self.endpoint, exact.largest);
        let timed = exact.replay == Replay::Paced;
        let (length, gathered) = match std::mem::replace(&mut self.gathered, Gathered::Nothing) {
            Gathered::Nothing => return Err(Uncacheable::Unreadable),
            Gathered::TooLarge => return Err(Uncacheable::TooLarge),
            Gathered::Whole(bytes) => (bytes.len(), Gathered::Whole(bytes)),
            Gathered::Events { events, bytes } => (bytes, Gathered::Events { events, bytes }),
        };
        let make = move || match gathered {
            Gathered::Whole(bytes) => Transcript::of_whole(endpoint, &bytes, largest),
            Gathered::Events { events, .. } => {
                let mut gathering = TranscriptBuilder::new(endpoint, timed);
                for (event, pause) in &events {
                    gathering.push(event, *pause);
                }
                gathering.finish(largest)
            }
            Gathered::Nothing | Gathered::TooLarge => Err(Uncacheable::Unreadable),
        };
        if length <= LONG_BODY {
            return make();
        }
        // It would hold up a worker.
        tokio::task::spawn_blocking(make).await.unwrap_or(Err(Uncacheable::Unreadable))
    }

    /// The pool that answered, and its backend as the policy describes it.
    fn answered(&self, served: &Served) -> Option<(&Pool, Origin)> {
        let pools = &self.serving.snapshot.pools;
        let pool = pools.iter().position(|pool| pool.spec.name == served.pool)?;
        let backend = pools[pool].backends.iter().position(|backend| *backend.name() == served.backend)?;
        Some((&pools[pool], self.serving.origin(pool, backend)))
    }
}
