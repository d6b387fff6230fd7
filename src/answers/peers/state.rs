//! The gateways that share, as those who keep, look for and forget answers see them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use arc_swap::ArcSwapOption;
use tokio::task::AbortHandle;

use super::{circle::Circle, purges::Stamp};
use crate::{
    cache::{ExactCache, ExactKey, Kept, Purge, Record, Tags, codec},
    measure::lock,
    policy::Exact,
    protocol::LONG_BODY,
    types::{Clock, wall_clock::now},
};

/// What is shared with other gateways. It outlives policies.
#[derive(Debug, Default)]
pub struct Peers {
    pub(super) circle: ArcSwapOption<Circle>,
    /// What runs for it.
    pub(super) tasks: Mutex<Vec<AbortHandle>>,
}

impl Peers {
    /// Whether the server is there; `None` where the policy has none.
    pub fn is_up(&self) -> Option<bool> {
        self.circle.load().as_ref().map(|circle| circle.link.is_up())
    }

    /// Takes the answer to requests with `key` into memory, if the others have one that still counts. What came of it, in a word for
    /// metrics; `None` where there are no others.
    pub(crate) async fn find(
        &self,
        key: &ExactKey,
        (exact, into): (&Exact, &ExactCache),
        clock: Clock,
    ) -> Option<&'static str> {
        let circle = self.circle.load_full()?;
        if !circle.link.is_up() {
            return Some("down");
        }
        let place = circle.record_at(key);
        let mut question = ::redis::cmd("GET");
        question.arg(&place);
        let bytes: Vec<u8> = match circle.link.query(&question, circle.spec.timeout).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Some("miss"),
            Err(absent) => return Some(absent.label()),
        };
        let found = if bytes.len() <= LONG_BODY {
            read(&circle, &place, &bytes)
        } else {
            // It would hold up a worker.
            let circle = circle.clone();
            tokio::task::spawn_blocking(move || read(&circle, &place, &bytes)).await.ok().flatten()
        };
        let Some(Found { record, age, left, tags, after }) = found else { return Some("refused") };
        let (now, left) = (clock.now(), left.min(exact.ttl.saturating_sub(age)));
        let taken = !left.is_zero() && into.restore(*key, Arc::new(record), Kept::aged(now, age), left, now);
        if taken && circle.purges.mean(&tags, after) {
            // It was purged meanwhile, and may have come in behind that.
            into.purge(&Purge { entry: Some(*key), ..Purge::default() });
            return Some("refused");
        }
        Some(if taken { "hit" } else { "old" })
    }

    /// Purges that the server knows of, or is to be told of.
    pub(crate) fn purge(&self, purge: &Purge) {
        if let Some(circle) = &*self.circle.load() {
            circle.purge(purge);
        }
    }

    /// Gives an answer to the others that is kept here for `ttl`; why not, if not.
    pub(crate) fn record(&self, key: &ExactKey, record: &Record, ttl: Duration) -> Result<(), &'static str> {
        self.circle.load().as_ref().map_or(Ok(()), |circle| circle.record(key, record, ttl))
    }

    /// The same of one under a text.
    pub(crate) fn meaning(
        &self,
        meaning: &codec::SemanticEntry,
        age: Duration,
        left: Duration,
    ) -> Result<(), &'static str> {
        self.circle.load().as_ref().map_or(Ok(()), |circle| circle.meaning(meaning, age, left))
    }

    /// Whether there are others.
    pub(crate) fn is_on(&self) -> bool {
        self.circle.load().is_some()
    }

    pub(super) fn close(&self) {
        self.circle.store(None);
        for task in lock(&self.tasks).drain(..) {
            task.abort();
        }
    }
}

/// An answer that others had.
struct Found {
    record: Record,
    age: Duration,
    /// What is left of its time.
    left: Duration,
    tags: Tags,
    /// The last purge that its writer knew of.
    after: Stamp,
}

/// The answer at a place, if it is one that still counts.
fn read(circle: &Circle, place: &str, bytes: &[u8]) -> Option<Found> {
    let letter = circle.letter(place, bytes)?;
    let record = codec::read_record(&circle.keys, letter.payload).ok()?;
    let now = now();
    let age = Duration::from_millis(now.saturating_sub(letter.written));
    let left = Duration::from_millis(letter.expires.saturating_sub(now));
    Some(Found { record, age, left, tags: letter.tags, after: letter.after })
}
