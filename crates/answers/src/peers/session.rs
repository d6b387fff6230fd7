//! The connection to the group's server: sends pending purges, catches up with those of others, and reads the stream until it breaks.

use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

use ::redis::{Cmd, cmd};
use tokio::{runtime::Handle, sync::mpsc};

use super::group::{MAX_ANSWER_TTL, Outgoing, PeerGroup};
use crate::LocalAnswers;
use signalbox_cache::{Kept, codec::read_semantic, eligible};
use signalbox_policy::Semantic;
use signalbox_redis::{self as redis, ANSWER, Connection, Link, SessionError, Unavailable, query_within};
use signalbox_telemetry::Metrics;
use signalbox_types::{
    Clock,
    wall_clock::{millis, now},
};

/// Time that the server holds a read of the stream open.
const BLOCK: Duration = Duration::from_secs(2);
/// Entries of one read.
const BATCH: usize = 64;

/// The answer of `XREAD`: streams, their entries, the fields of those.
type Read = Option<Vec<(String, Vec<(String, HashMap<String, Vec<u8>>)>)>>;

/// Sends the queued writes.
pub(super) async fn send_queued(metrics: Metrics, group: Arc<PeerGroup>, mut outgoing: mpsc::Receiver<Outgoing>) {
    while let Some(next) = outgoing.recv().await {
        let what = next.what;
        let result = group.write(next).await.map_or_else(Unavailable::label, |()| "ok");
        metrics.cache().shared(what, result);
    }
}

/// The session of one gateway with the group's server.
pub(super) struct Session {
    local: Arc<LocalAnswers>,
    clock: Clock,
    metrics: Metrics,
    group: Arc<PeerGroup>,
    /// Id of the last entry read from the stream.
    last: String,
}

impl redis::Session for Session {
    const LOST_MESSAGE: &'static str =
        "shared answers: server unreachable; answers are not shared until it is back (cache.shared)";

    fn link(&self) -> &Link {
        &self.group.link
    }

    async fn run(&mut self) -> Result<Infallible, SessionError> {
        let group = self.group.clone();
        let mut connection = group.link.connect(ANSWER).await?;
        let mut stream = group.link.connect(BLOCK + ANSWER).await?;
        // Purges first: no shared answer is used before they are known.
        self.send_purges(&mut connection).await?;
        self.fetch_purges(&mut connection).await?;
        // From the start of the stream, since a restored server may reuse ids. Known entries are skipped.
        "0".clone_into(&mut self.last);
        group.link.set_connection(connection.clone());
        tracing::info!(server = %group.link.server(), "shared answers: connected");
        loop {
            let command = self.read_command();
            let read = tokio::select! {
                () = group.link.lost() => return Err(SessionError::Silent),
                () = group.purged.notified() => {
                    self.send_purges(&mut connection).await?;
                    continue;
                }
                read = query_within::<Read>(&command, &mut stream, BLOCK + ANSWER) => read?,
            };
            self.receive(read, &mut connection).await?;
        }
    }
}

impl Session {
    pub(super) fn new(local: Arc<LocalAnswers>, (clock, metrics): (Clock, Metrics), group: Arc<PeerGroup>) -> Self {
        Self { local, clock, metrics, group, last: String::new() }
    }

    fn read_command(&self) -> Cmd {
        let mut command = cmd("XREAD");
        command.arg("COUNT").arg(BATCH).arg("BLOCK").arg(millis(BLOCK));
        command.arg("STREAMS").arg(self.group.stream_key()).arg(&self.last);
        command
    }

    /// Sends the pending purges.
    async fn send_purges(&self, connection: &mut Connection) -> Result<(), SessionError> {
        while let Some((pattern, purge)) = self.group.purges.pending() {
            let command = self.group.purge_command(&pattern, &purge);
            let stamp: String = query_within(&command, connection, ANSWER).await?;
            self.group.purges.sent(pattern, stamp.parse().map_err(|_| SessionError::Silent)?);
            self.metrics.cache().shared("purge", "ok");
        }
        Ok(())
    }

    /// Fetches the server's purges and applies the new ones here.
    async fn fetch_purges(&self, connection: &mut Connection) -> Result<(), SessionError> {
        let mut command = cmd("HGETALL");
        command.arg(self.group.purges_key());
        let all: HashMap<Vec<u8>, Vec<u8>> = query_within(&command, connection, ANSWER).await?;
        // All answers that were written before older purges have expired on the server.
        let old = now().saturating_sub(millis(MAX_ANSWER_TTL)) * 1000;
        let mut listed = Vec::with_capacity(all.len());
        for (pattern, value) in &all {
            match self.group.read_purge(pattern, value) {
                Some(purge) if purge.1 >= old => listed.push(purge),
                _ => {
                    let mut deletion = cmd("HDEL");
                    deletion.arg(self.group.purges_key()).arg(pattern);
                    let _: u64 = query_within(&deletion, connection, ANSWER).await?;
                }
            }
        }
        // Answers written before older purges have expired here; the minute is for clocks that differ.
        let oldest = now().saturating_sub(millis(self.group.ttl) + 60_000) * 1000;
        for (_, purge) in self.group.purges.learn(listed).into_iter().filter(|(stamp, _)| *stamp >= oldest) {
            let is_authentic = purge.is_some();
            if let Some(purge) = purge {
                let local = self.local.clone();
                // Scans all entries.
                let _ = tokio::task::spawn_blocking(move || local.purge(&purge)).await;
            }
            self.metrics.cache().shared("purge", if is_authentic { "heard" } else { "refused" });
        }
        Ok(())
    }

    /// Applies new entries of the stream.
    async fn receive(&mut self, read: Read, connection: &mut Connection) -> Result<(), SessionError> {
        let entries: Vec<_> = read.into_iter().flatten().flat_map(|(_, entries)| entries).collect();
        let Some((last, _)) = entries.last() else { return Ok(()) };
        self.last.clone_from(last);
        if entries.iter().any(|(_, fields)| fields.contains_key("p")) {
            self.fetch_purges(connection).await?;
        }
        let Some(semantic) = self.group.semantic else { return Ok(()) };
        let values: Vec<_> = entries.into_iter().filter_map(|(_, mut fields)| fields.remove("e")).collect();
        if !values.is_empty() {
            let (local, clock, metrics) = (self.local.clone(), self.clock, self.metrics.clone());
            let (group, runtime) = (self.group.clone(), Handle::current());
            // Each takes a fraction of a millisecond, and the first read may return thousands.
            let stored = tokio::task::spawn_blocking(move || {
                for value in values {
                    let result = store((&local, clock), &group, &semantic, &value, &runtime);
                    metrics.cache().shared("hear", result);
                }
            });
            let _ = stored.await;
        }
        Ok(())
    }
}

/// Stores a semantic entry of another gateway. Returns the result's label in metrics.
fn store(
    (local, clock): (&LocalAnswers, Clock),
    group: &PeerGroup,
    semantic: &Semantic,
    bytes: &[u8],
    runtime: &Handle,
) -> &'static str {
    let Some(envelope) = group.open(&group.stream_key(), bytes) else { return "refused" };
    let Ok(shared) = read_semantic(&group.keys, envelope.payload) else { return "refused" };
    let age = Duration::from_millis(now().saturating_sub(envelope.written));
    let ttl = semantic.ttl_of(eligible::is_volatile(&shared.text));
    let left = Duration::from_millis(envelope.expires.saturating_sub(now())).min(ttl.saturating_sub(age));
    let moment = clock.now();
    if left.is_zero() {
        return "old";
    }
    let Some((compat, new)) = runtime.block_on(local.semantic.rebuild(shared, Kept::aged(moment, age))) else {
        return "embedder";
    };
    let Some(entry) = local.semantic.entries.restore(compat, new, left, moment) else { return "known" };
    if group.purges.match_entry(&envelope.tags, envelope.after) {
        // Purged meanwhile; it may have been stored after the purge removed the others.
        local.semantic.entries.remove(&compat, entry.number);
        return "refused";
    }
    "kept"
}
