//! Being there: the connection is made, what happened meanwhile is caught up with, and what the others tell is read until it breaks.

use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

use ::redis::{Cmd, aio::MultiplexedConnection, cmd};
use tokio::{runtime::Handle, sync::mpsc};

use super::circle::{Circle, LONGEST, Outgoing};
use crate::{
    answers::LocalAnswers,
    cache::{Kept, codec::read_semantic, eligible},
    policy::Semantic,
    redis::{self, ANSWER, Link, SessionError, Unavailable, query_within},
    telemetry::Metrics,
    types::{
        Clock,
        wall_clock::{millis, now},
    },
};

/// How long it holds a question for what is new.
const BLOCK: Duration = Duration::from_secs(2);
/// Entries that are read at once.
const BATCH: usize = 64;

/// What `XREAD` gives: streams, their entries, the fields of those.
type Read = Option<Vec<(String, Vec<(String, HashMap<String, Vec<u8>>)>)>>;

/// Gives the server what is on its way there.
pub(super) async fn deliver(metrics: Metrics, circle: Arc<Circle>, mut outgoing: mpsc::Receiver<Outgoing>) {
    while let Some(next) = outgoing.recv().await {
        let what = next.what;
        let result = circle.deliver(next).await.map_or_else(Unavailable::label, |()| "ok");
        metrics.cache().shared(what, result);
    }
}

/// What one gateway does while the server is there.
pub(super) struct Session {
    local: Arc<LocalAnswers>,
    clock: Clock,
    metrics: Metrics,
    circle: Arc<Circle>,
    /// The last entry of the stream that was read.
    last: String,
}

impl redis::Session for Session {
    const LOST: &'static str = "kept answers are not shared until the server is there again (cache.shared)";

    fn link(&self) -> &Link {
        &self.circle.link
    }

    async fn run(&mut self) -> Result<Infallible, SessionError> {
        let circle = self.circle.clone();
        let mut asks = circle.link.connect(Some(ANSWER)).await?;
        let mut reads = circle.link.connect(None).await?;
        // First what was purged: until that is known, nothing is taken from there.
        self.tell(&mut asks).await?;
        self.catch_up(&mut asks).await?;
        // From the beginning: a server that was set back counts on from an earlier entry. What is known is passed over.
        "0".clone_into(&mut self.last);
        circle.link.set_connection(asks.clone());
        tracing::info!("kept answers are shared");
        loop {
            let question = self.question();
            let read = tokio::select! {
                () = circle.link.lost() => return Err(SessionError::Silent),
                () = circle.purged.notified() => {
                    self.tell(&mut asks).await?;
                    continue;
                }
                read = query_within::<Read>(&question, &mut reads, BLOCK + ANSWER) => read?,
            };
            self.take(read, &mut asks).await?;
        }
    }
}

impl Session {
    pub(super) fn new(local: Arc<LocalAnswers>, (clock, metrics): (Clock, Metrics), circle: Arc<Circle>) -> Self {
        Self { local, clock, metrics, circle, last: String::new() }
    }

    fn question(&self) -> Cmd {
        let mut question = cmd("XREAD");
        question.arg("COUNT").arg(BATCH).arg("BLOCK").arg(millis(BLOCK));
        question.arg("STREAMS").arg(self.circle.stream()).arg(&self.last);
        question
    }

    /// Tells the server of what was purged here.
    async fn tell(&self, asks: &mut MultiplexedConnection) -> Result<(), SessionError> {
        while let Some((pattern, purge)) = self.circle.purges.pending() {
            let stamp: String = query_within(&self.circle.telling(&pattern, &purge), asks, ANSWER).await?;
            self.circle.purges.told(pattern, stamp.parse().map_err(|_| SessionError::Silent)?);
            self.metrics.cache().shared("purge", "ok");
        }
        Ok(())
    }

    /// Learns what was purged elsewhere, and forgets it here.
    async fn catch_up(&self, asks: &mut MultiplexedConnection) -> Result<(), SessionError> {
        let mut question = cmd("HGETALL");
        question.arg(self.circle.purges_at());
        let all: HashMap<Vec<u8>, Vec<u8>> = query_within(&question, asks, ANSWER).await?;
        // What was written before these is gone by itself.
        let old = now().saturating_sub(millis(LONGEST)) * 1000;
        let mut listed = Vec::with_capacity(all.len());
        for (pattern, value) in &all {
            match self.circle.listed(pattern, value) {
                Some(purge) if purge.1 >= old => listed.push(purge),
                _ => {
                    let mut deletion = cmd("HDEL");
                    deletion.arg(self.circle.purges_at()).arg(pattern);
                    let _: u64 = query_within(&deletion, asks, ANSWER).await?;
                }
            }
        }
        // Answers that are older than this are gone here too; the minute is for clocks that differ.
        let gone = now().saturating_sub(millis(self.circle.ttl) + 60_000) * 1000;
        for (_, purge) in self.circle.purges.learn(listed).into_iter().filter(|(stamp, _)| *stamp >= gone) {
            let heard = purge.is_some();
            if let Some(purge) = purge {
                let local = self.local.clone();
                // It looks at every entry.
                let _ = tokio::task::spawn_blocking(move || local.forget(&purge)).await;
            }
            self.metrics.cache().shared("purge", if heard { "heard" } else { "refused" });
        }
        Ok(())
    }

    /// Takes in what others tell.
    async fn take(&mut self, read: Read, asks: &mut MultiplexedConnection) -> Result<(), SessionError> {
        let entries: Vec<_> = read.into_iter().flatten().flat_map(|(_, entries)| entries).collect();
        let Some((last, _)) = entries.last() else { return Ok(()) };
        self.last.clone_from(last);
        if entries.iter().any(|(_, fields)| fields.contains_key("p")) {
            self.catch_up(asks).await?;
        }
        let Some(semantic) = self.circle.semantic else { return Ok(()) };
        let letters: Vec<_> = entries.into_iter().filter_map(|(_, mut fields)| fields.remove("e")).collect();
        if !letters.is_empty() {
            let (local, clock, metrics) = (self.local.clone(), self.clock, self.metrics.clone());
            let (circle, runtime) = (self.circle.clone(), Handle::current());
            // Each takes a fraction of a millisecond, and the first time there may be thousands.
            let taken = tokio::task::spawn_blocking(move || {
                for letter in letters {
                    let result = take_in((&local, clock), &circle, &semantic, &letter, &runtime);
                    metrics.cache().shared("hear", result);
                }
            });
            let _ = taken.await;
        }
        Ok(())
    }
}

/// Keeps what another gateway tells; what came of it.
fn take_in(
    (local, clock): (&LocalAnswers, Clock),
    circle: &Circle,
    semantic: &Semantic,
    bytes: &[u8],
    runtime: &Handle,
) -> &'static str {
    let Some(letter) = circle.letter(&circle.stream(), bytes) else { return "refused" };
    let Ok(meaning) = read_semantic(&circle.keys, letter.payload) else { return "refused" };
    let age = Duration::from_millis(now().saturating_sub(letter.written));
    let ttl = semantic.ttl_of(eligible::is_volatile(&meaning.text));
    let left = Duration::from_millis(letter.expires.saturating_sub(now())).min(ttl.saturating_sub(age));
    let moment = clock.now();
    if left.is_zero() {
        return "old";
    }
    let Some((compat, new)) = runtime.block_on(local.semantic.remade(meaning, Kept::aged(moment, age))) else {
        return "embedder";
    };
    let Some(entry) = local.semantic.entries.restore(compat, new, left, moment) else { return "known" };
    if circle.purges.mean(&letter.tags, letter.after) {
        // It was purged meanwhile, and may have come in behind that.
        local.semantic.entries.remove(&compat, entry.number);
        return "refused";
    }
    "kept"
}
