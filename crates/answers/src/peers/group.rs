//! The group of gateways that share answers: their server, its keys, the authentication of its values, and the queue of this gateway.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use ::redis::{Cmd, cmd};
use tokio::sync::{Notify, mpsc};

use super::{
    envelope::{Envelope, Sealer},
    purges::Purges,
};
use crate::exact::shared_keys;
use signalbox_cache::{
    ExactKey, Keys, Purge, Record, Tags,
    codec::{self, SemanticEntry},
};
use signalbox_policy as policy;
use signalbox_redis::{Link, LinkError, Unavailable};
use signalbox_types::wall_clock::{millis, now};

/// Maximum of queued bytes.
const QUEUED: usize = 16 << 20;
/// Maximum size of a published semantic entry, in bytes. All of them are kept in one stream, which the server bounds by number only.
const MAX_ENTRY_BYTES: usize = 64 << 10;
/// Approximate number of semantic entries in the stream, which a new gateway reads first.
const ENTRIES: usize = 10_000;
/// Maximum time that the server keeps an answer.
pub(super) const MAX_ANSWER_TTL: Duration = Duration::from_hours(7 * 24);
/// Timeout of a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// The group of gateways that share answers, as one of them uses it.
#[derive(Debug)]
pub(super) struct PeerGroup {
    pub(super) spec: policy::Shared,
    /// The policy for semantic entries, if this gateway keeps them.
    pub(super) semantic: Option<policy::Semantic>,
    /// The longest TTL of answers on this gateway.
    pub(super) ttl: Duration,
    pub(super) link: Link,
    pub(super) keys: Keys,
    pub(super) sealer: Sealer,
    pub(super) purges: Purges,
    /// Wakes the session to send a purge at once.
    pub(super) purged: Notify,
    /// Prefix of all the server's keys.
    prefix: String,
    outbox: mpsc::Sender<Outgoing>,
    queued: AtomicUsize,
}

/// A queued write.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// Its label in metrics.
    pub(super) what: &'static str,
    command: Cmd,
    bytes: usize,
}

/// The longest TTL of answers.
fn longest(caching: &policy::Caching) -> Duration {
    let exact = caching.exact.map_or(Duration::ZERO, |exact| exact.ttl);
    caching.semantic.map_or(exact, |semantic| semantic.ttl.max(exact))
}

impl PeerGroup {
    /// Describes the group of `spec`. Returns the queue for the task that sends it.
    pub(super) fn new(
        spec: policy::Shared,
        caching: &policy::Caching,
    ) -> Result<(Self, mpsc::Receiver<Outgoing>), LinkError> {
        let (outbox, outgoing) = mpsc::channel(4096);
        let keys = shared_keys(&spec);
        let name = u64::from_le_bytes(keys.fingerprint());
        let group = Self {
            link: Link::new(&spec.server)?,
            sealer: Sealer::new(&spec.key.0),
            purges: Purges::default(),
            purged: Notify::new(),
            // The braces make a cluster keep all keys in one slot.
            prefix: format!("{}:{{{name:016x}}}:", spec.server.prefix()),
            outbox,
            queued: AtomicUsize::new(0),
            keys,
            spec,
            semantic: caching.semantic,
            ttl: longest(caching),
        };
        Ok((group, outgoing))
    }

    /// True if a policy describes this group.
    pub(super) fn is_of(&self, spec: &policy::Shared, caching: &policy::Caching) -> bool {
        self.spec == *spec && self.semantic == caching.semantic && self.ttl == longest(caching)
    }

    /// The server's key of the answer to requests with `key`.
    pub(super) fn record_key(&self, key: &ExactKey) -> String {
        format!("{}x:{key}", self.prefix)
    }

    /// The server's key of the stream of new semantic entries and purges.
    pub(super) fn stream_key(&self) -> String {
        format!("{}s", self.prefix)
    }

    /// The server's key of the hash of purges.
    pub(super) fn purges_key(&self) -> String {
        format!("{}p", self.prefix)
    }

    /// Queues an answer for the server. The error is the metrics label of the reason.
    pub(super) fn publish_record(&self, key: &ExactKey, record: &Record, left: Duration) -> Result<(), &'static str> {
        let (key_name, left) = (self.record_key(key), left.min(MAX_ANSWER_TTL));
        let payload = codec::write_record(&self.keys, record);
        let sealed = self.sealed(&key_name, Tags::of(&self.keys, key, record), Duration::ZERO, left, &payload);
        let bytes = sealed.len();
        let mut command = cmd("SET");
        command.arg(key_name).arg(sealed).arg("PX").arg(millis(left).max(1));
        self.send(Outgoing { what: "set", command, bytes })
    }

    /// Queues a semantic entry for the stream that all gateways read.
    pub(super) fn publish_semantic(
        &self,
        entry: &SemanticEntry,
        age: Duration,
        left: Duration,
    ) -> Result<(), &'static str> {
        let payload = codec::write_semantic(&self.keys, entry);
        if payload.len() > MAX_ENTRY_BYTES {
            return Err("too_large");
        }
        let (key_name, tags) = (self.stream_key(), Tags::of(&self.keys, &entry.exact, &entry.record));
        let sealed = self.sealed(&key_name, tags, age, left.min(MAX_ANSWER_TTL), &payload);
        let bytes = sealed.len();
        let mut command = cmd("XADD");
        command.arg(key_name).arg("MAXLEN").arg("~").arg(ENTRIES).arg("*").arg("e").arg(sealed);
        self.send(Outgoing { what: "tell", command, bytes })
    }

    fn sealed(&self, key_name: &str, tags: Tags, age: Duration, left: Duration, payload: &[u8]) -> Vec<u8> {
        let now = now();
        let (written, expires) = (now.saturating_sub(millis(age)), now.saturating_add(millis(left)));
        self.sealer.seal(key_name, &Envelope { written, expires, after: self.purges.newest(), tags, payload })
    }

    fn send(&self, outgoing: Outgoing) -> Result<(), &'static str> {
        if !self.link.is_up() {
            return Err(Unavailable::Down.label());
        }
        let bytes = outgoing.bytes;
        if self.queued.fetch_add(bytes, Relaxed) + bytes > QUEUED || self.outbox.try_send(outgoing).is_err() {
            self.queued.fetch_sub(bytes, Relaxed);
            return Err("queue");
        }
        Ok(())
    }

    /// Sends a queued write.
    pub(super) async fn write(&self, outgoing: Outgoing) -> Result<(), Unavailable> {
        let sent = self.link.query(&outgoing.command, WRITE_TIMEOUT).await;
        self.queued.fetch_sub(outgoing.bytes, Relaxed);
        sent
    }

    /// Opens the value of the server's key `key_name`. `None` if it is not authentic, expired or purged.
    pub(super) fn open<'a>(&self, key_name: &str, bytes: &'a [u8]) -> Option<Envelope<'a>> {
        let envelope = self.sealer.open(key_name, bytes)?;
        (envelope.expires > now() && !self.purges.match_entry(&envelope.tags, envelope.after)).then_some(envelope)
    }

    /// Purges on this gateway and queues the purge for the server.
    pub(super) fn purge(&self, purge: &Purge) {
        self.purges.add_pending(Tags::meant(&self.keys, purge), purge.clone());
        self.purged.notify_one();
    }
}
