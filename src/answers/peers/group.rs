//! Gateways that share: the server, what they call and seal things by, and what is on its way there.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use ::redis::{Cmd, cmd};
use tokio::sync::{Notify, mpsc};

use super::{
    purges::Purges,
    seal::{Letter, Seal},
};
use crate::{
    answers::peer_keys::keys,
    cache::{
        ExactKey, Keys, Purge, Record, Tags,
        codec::{self, Meaning},
    },
    policy,
    redis::{Absent, Link, LinkError},
    types::wall_clock::{millis, now},
};

/// Most bytes that may be on their way.
const QUEUED: usize = 16 << 20;
/// The longest answer under a text that all others are given, in bytes: the server keeps each for as long as there is room for it.
const LARGEST: usize = 64 << 10;
/// Answers under texts that the server keeps, about: what a gateway that is new reads first.
const ENTRIES: usize = 10_000;
/// The longest that an answer stays with the server.
pub(super) const LONGEST: Duration = Duration::from_hours(7 * 24);
/// How long the server may take to take something.
const PATIENCE: Duration = Duration::from_secs(1);

/// The gateways that share, as one of them sees it.
#[derive(Debug)]
pub(super) struct Circle {
    pub(super) spec: policy::Shared,
    /// How answers under texts are kept here, where they are.
    pub(super) semantic: Option<policy::Semantic>,
    /// The longest that any answer is kept here.
    pub(super) ttl: Duration,
    pub(super) link: Link,
    pub(super) keys: Keys,
    pub(super) seal: Seal,
    pub(super) purges: Purges,
    /// There are purges to tell the server of.
    pub(super) purged: Notify,
    /// What all names in the server begin with.
    root: String,
    outbox: mpsc::Sender<Outgoing>,
    queued: AtomicUsize,
}

/// Something on its way to the server.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// What it is, in metrics.
    pub(super) what: &'static str,
    command: Cmd,
    bytes: usize,
}

/// The longest that any answer is kept.
fn longest(caching: &policy::Caching) -> Duration {
    let exact = caching.exact.map_or(Duration::ZERO, |exact| exact.ttl);
    caching.semantic.map_or(exact, |semantic| semantic.ttl.max(exact))
}

impl Circle {
    /// Through the server of `spec`; what is on its way is given to whoever sends it.
    pub(super) fn new(
        spec: policy::Shared,
        caching: &policy::Caching,
    ) -> Result<(Self, mpsc::Receiver<Outgoing>), LinkError> {
        let (outbox, outgoing) = mpsc::channel(4096);
        let keys = keys(&spec);
        let name = u64::from_le_bytes(keys.fingerprint());
        let circle = Self {
            link: Link::new(&spec.url.0)?,
            seal: Seal::new(&spec.key.0),
            purges: Purges::default(),
            purged: Notify::new(),
            // In braces, so that a cluster has all of it in one place.
            root: format!("signalbox:{{{name:016x}}}:"),
            outbox,
            queued: AtomicUsize::new(0),
            keys,
            spec,
            semantic: caching.semantic,
            ttl: longest(caching),
        };
        Ok((circle, outgoing))
    }

    /// Whether it is what a policy describes.
    pub(super) fn is_of(&self, spec: &policy::Shared, caching: &policy::Caching) -> bool {
        self.spec == *spec && self.semantic == caching.semantic && self.ttl == longest(caching)
    }

    /// Where the server has the answer to requests with this key.
    pub(super) fn record_at(&self, key: &ExactKey) -> String {
        format!("{}x:{key}", self.root)
    }

    /// Where it has the stream of what is new.
    pub(super) fn stream(&self) -> String {
        format!("{}s", self.root)
    }

    /// Where it has what was purged.
    pub(super) fn purges_at(&self) -> String {
        format!("{}p", self.root)
    }

    /// Sends an answer to the server; what came of it so far.
    pub(super) fn record(&self, key: &ExactKey, record: &Record, left: Duration) -> Result<(), &'static str> {
        let (place, left) = (self.record_at(key), left.min(LONGEST));
        let payload = codec::write_record(&self.keys, record);
        let sealed = self.sealed(&place, Tags::of(&self.keys, key, record), Duration::ZERO, left, &payload);
        let bytes = sealed.len();
        let mut command = cmd("SET");
        command.arg(place).arg(sealed).arg("PX").arg(millis(left).max(1));
        self.send(Outgoing { what: "set", command, bytes })
    }

    /// Tells all others of an answer under a text.
    pub(super) fn meaning(&self, meaning: &Meaning, age: Duration, left: Duration) -> Result<(), &'static str> {
        let payload = codec::write_meaning(&self.keys, meaning);
        if payload.len() > LARGEST {
            return Err("too_large");
        }
        let (place, tags) = (self.stream(), Tags::of(&self.keys, &meaning.exact, &meaning.record));
        let sealed = self.sealed(&place, tags, age, left.min(LONGEST), &payload);
        let bytes = sealed.len();
        let mut command = cmd("XADD");
        command.arg(place).arg("MAXLEN").arg("~").arg(ENTRIES).arg("*").arg("e").arg(sealed);
        self.send(Outgoing { what: "tell", command, bytes })
    }

    fn sealed(&self, place: &str, tags: Tags, age: Duration, left: Duration, payload: &[u8]) -> Vec<u8> {
        let now = now();
        let (written, expires) = (now.saturating_sub(millis(age)), now.saturating_add(millis(left)));
        self.seal.close(place, &Letter { written, expires, after: self.purges.newest(), tags, payload })
    }

    fn send(&self, outgoing: Outgoing) -> Result<(), &'static str> {
        if !self.link.is_up() {
            return Err(Absent::Down.label());
        }
        let bytes = outgoing.bytes;
        if self.queued.fetch_add(bytes, Relaxed) + bytes > QUEUED || self.outbox.try_send(outgoing).is_err() {
            self.queued.fetch_sub(bytes, Relaxed);
            return Err("queue");
        }
        Ok(())
    }

    /// Gives the server something that was on its way.
    pub(super) async fn deliver(&self, outgoing: Outgoing) -> Result<(), Absent> {
        let sent = self.link.ask(&outgoing.command, PATIENCE).await;
        self.queued.fetch_sub(outgoing.bytes, Relaxed);
        sent
    }

    /// The letter at a place, if it is one that still counts.
    pub(super) fn letter<'a>(&self, place: &str, bytes: &'a [u8]) -> Option<Letter<'a>> {
        let letter = self.seal.open(place, bytes)?;
        (letter.expires > now() && !self.purges.mean(&letter.tags, letter.after)).then_some(letter)
    }

    /// Something is purged here.
    pub(super) fn purge(&self, purge: &Purge) {
        self.purges.ask(Tags::meant(&self.keys, purge), purge.clone());
        self.purged.notify_one();
    }
}
