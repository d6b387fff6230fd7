//! Stores a relayed answer in the cache once it is complete. An answer that broke off, failed, or ended for any reason
//! but a normal stop is not stored; nor is one whose translation to the caller's API failed or was not read to its end.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt as _;

use crate::{
    Serving,
    record::{Record, Served},
    stages::Routed,
};
use signalbox_answers::{self as answers, Answers, EngineAnswer, PendingEntry};
use signalbox_cache::{self as cache, ExactKey, Origin, ScopeId};
use signalbox_fleet::Pool;
use signalbox_policy::{Exact, Replay};
use signalbox_protocol::{Event, LONG_BODY, Transcript, TranscriptBuilder, Uncacheable};
use signalbox_types::{Clock, Endpoint, Moment, Name, Price};

/// Most bytes of events that are buffered. Event framing takes many times the size of the text it carries.
const MOST_GATHERED: usize = 8 << 20;

/// The cache key of an answer and the limits on storing it.
#[derive(Clone)]
pub(crate) struct KeptAs {
    pub(crate) key: ExactKey,
    pub(crate) scope: ScopeId,
    /// The ID of the caller's key, if the gateway requires keys.
    pub(crate) caller: Option<Name>,
    /// Longest time for which the caller allows the answer to be stored.
    pub(crate) ttl: Option<Duration>,
}

/// Buffers an answer and stores it.
pub(crate) struct AnswerStore {
    answers: Arc<Answers>,
    clock: Clock,
    serving: Arc<Serving>,
    record: Arc<Record>,
    endpoint: Endpoint,
    route: Name,
    kept_as: KeptAs,
    /// Policy for exact matches. `None` if the answer is not stored there, or already was.
    exact: Option<Exact>,
    /// The semantic lookup that missed, if there was one. Taken when the answer is stored.
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
    /// Creates a keeper. The answer is stored for exact matches if there is a policy for them, and for semantic matches
    /// if a semantic lookup missed.
    pub(crate) fn new(
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

    /// Price of the tokens at the pool that answered, if known.
    pub(super) fn price(&self) -> Option<Price> {
        self.answered(&self.record.served()?)?.0.spec.price
    }

    /// Buffers an event.
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

    /// Buffers an answer that came in one piece. One that comes in several pieces is not stored.
    pub(super) fn whole(&mut self, bytes: &Bytes) {
        self.gathered = match self.gathered {
            Gathered::Nothing => Gathered::Whole(bytes.clone()),
            _ => Gathered::TooLarge,
        };
    }

    /// Stores the complete answer, if that is allowed. Later calls have no effect.
    pub(super) async fn keep(&mut self) {
        let (exact, meaning) = (self.exact.take(), self.meaning.take());
        if exact.is_none() && meaning.is_none() {
            return;
        }
        if !self.record.stores_later() {
            return self.store(exact, meaning).await;
        }
        // This task may be ahead of the reader that translates.
        let mut later = Self {
            answers: self.answers.clone(),
            serving: self.serving.clone(),
            record: self.record.clone(),
            route: self.route.clone(),
            kept_as: self.kept_as.clone(),
            gathered: std::mem::replace(&mut self.gathered, Gathered::Nothing),
            exact: None,
            meaning: None,
            ..*self
        };
        self.record.store_when_translated(Box::new(move || {
            let mut storing = Box::pin(async move { later.store(exact, meaning).await });
            // Only a long answer takes another thread.
            if storing.as_mut().now_or_never().is_none() {
                tokio::spawn(storing);
            }
        }));
    }

    async fn store(&mut self, exact: Option<Exact>, meaning: Option<Box<PendingEntry>>) {
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
            // Computing the embedding takes milliseconds; the client does not wait for it.
            tokio::spawn(answers::store_semantic(self.answers.clone(), *meaning, answered));
        }
        let Some(exact) = exact else { return Ok(true) };
        let ttl = ttl.map_or(exact.ttl, |ttl| ttl.min(exact.ttl));
        // The disk is written first. A purge clears memory first, so an answer purged in between is kept in neither.
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
        // Too long to parse on a worker thread.
        tokio::task::spawn_blocking(make).await.unwrap_or(Err(Uncacheable::Unreadable))
    }

    /// Returns the pool that answered and the identity of its backend.
    fn answered(&self, served: &Served) -> Option<(&Pool, Origin)> {
        let pools = &self.serving.snapshot.pools;
        let pool = pools.iter().position(|pool| pool.spec.name == served.pool)?;
        let backend = pools[pool].backends.iter().position(|backend| *backend.name() == served.backend)?;
        Some((&pools[pool], self.serving.origin(pool, backend)))
    }
}
