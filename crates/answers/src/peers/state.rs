//! Handle on the answers of other gateways: lookup, publication and purges.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use arc_swap::ArcSwapOption;
use tokio::task::AbortHandle;

use super::{group::PeerGroup, purges::Stamp};
use signalbox_cache::{ExactCache, ExactKey, Kept, Purge, Record, Tags, codec};
use signalbox_policy::Exact;
use signalbox_protocol::LONG_BODY;
use signalbox_types::{Clock, wall_clock::now};

/// Answers shared with other gateways. They outlive policies.
#[derive(Debug, Default)]
pub struct Peers {
    pub(super) group: ArcSwapOption<PeerGroup>,
    /// The tasks of the group.
    pub(super) tasks: Mutex<Vec<AbortHandle>>,
}

impl Peers {
    /// True if the server is connected; `None` where answers are not shared.
    pub fn is_up(&self) -> Option<bool> {
        self.group.load().as_ref().map(|group| group.link.is_up())
    }

    /// The reason why the server is not used; `None` where it is, or answers are not shared.
    pub fn problem(&self) -> Option<String> {
        self.group.load().as_ref()?.link.problem()
    }

    /// Loads the answer to requests with `key` into memory, if the server has a valid one. Returns the result's label in metrics; `None` where
    /// answers are not shared.
    pub async fn fetch(
        &self,
        key: &ExactKey,
        (exact, into): (&Exact, &ExactCache),
        clock: Clock,
    ) -> Option<&'static str> {
        let group = self.group.load_full()?;
        if !group.link.is_up() {
            return Some("down");
        }
        let key_name = group.record_key(key);
        let mut command = ::redis::cmd("GET");
        command.arg(&key_name);
        let bytes: Vec<u8> = match group.link.query(&command, group.spec.timeout).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Some("miss"),
            Err(absent) => return Some(absent.label()),
        };
        let found = if bytes.len() <= LONG_BODY {
            read(&group, &key_name, &bytes)
        } else {
            // Parsing it would block a worker thread.
            let group = group.clone();
            tokio::task::spawn_blocking(move || read(&group, &key_name, &bytes)).await.ok().flatten()
        };
        let Some(SharedAnswer { record, age, left, tags, after }) = found else { return Some("refused") };
        let (now, left) = (clock.now(), left.min(exact.ttl.saturating_sub(age)));
        let stored = !left.is_zero() && into.restore(*key, Arc::new(record), Kept::aged(now, age), left, now);
        if stored && group.purges.match_entry(&tags, after) {
            // Purged meanwhile; it may have been stored after the purge removed the others.
            into.purge(&Purge { entry: Some(*key), ..Purge::default() });
            return Some("refused");
        }
        Some(if stored { "hit" } else { "old" })
    }

    /// Publishes a purge.
    pub(crate) fn purge(&self, purge: &Purge) {
        if let Some(group) = &*self.group.load() {
            group.purge(purge);
        }
    }

    /// Queues an answer that is kept here for `ttl`. The error is the metrics label of the reason.
    pub(crate) fn publish_record(&self, key: &ExactKey, record: &Record, ttl: Duration) -> Result<(), &'static str> {
        self.group.load().as_ref().map_or(Ok(()), |group| group.publish_record(key, record, ttl))
    }

    /// Queues a semantic entry likewise.
    pub(crate) fn publish_semantic(
        &self,
        entry: &codec::SemanticEntry,
        age: Duration,
        left: Duration,
    ) -> Result<(), &'static str> {
        self.group.load().as_ref().map_or(Ok(()), |group| group.publish_semantic(entry, age, left))
    }

    /// True if answers are shared.
    pub fn is_on(&self) -> bool {
        self.group.load().is_some()
    }

    pub(super) fn close(&self) {
        self.group.store(None);
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
    }
}

/// An answer of the server.
struct SharedAnswer {
    record: Record,
    age: Duration,
    /// Time to its expiry.
    left: Duration,
    tags: Tags,
    /// The newest purge that its writer knew.
    after: Stamp,
}

/// Opens and parses the value of the server's key `key_name`; `None` if it is not valid.
fn read(group: &PeerGroup, key_name: &str, bytes: &[u8]) -> Option<SharedAnswer> {
    let envelope = group.open(key_name, bytes)?;
    let record = codec::read_record(&group.keys, envelope.payload).ok()?;
    let now = now();
    let age = Duration::from_millis(now.saturating_sub(envelope.written));
    let left = Duration::from_millis(envelope.expires.saturating_sub(now));
    Some(SharedAnswer { record, age, left, tags: envelope.tags, after: envelope.after })
}
