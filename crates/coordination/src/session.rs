//! The exchange with the group's server: ten times a second a gateway appends its load on engines, and what was computed
//! for it, to two streams, and reads what the others have appended.

use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

use ::redis::cmd;
use tokio::time::{MissedTickBehavior, timeout};

use super::{
    member::Member,
    message::{self, Content, Message},
};
use signalbox_fleet::{EngineKey, EngineLoad, Registry};
use signalbox_redis::{ANSWER, Connection, Link, Session, SessionError, query_within};
use signalbox_telemetry::Metrics;
use signalbox_types::Clock;

/// Time between two exchanges: load that is older loses what it gains (record 073).
const PERIOD: Duration = Duration::from_millis(100);
/// Messages with prompts that the server keeps, about: what a gateway learns first when it joins.
const KEPT_PROMPTS: usize = 256;
/// Messages with loads that the server keeps, about.
const KEPT_LOADS: usize = 64;
/// Time without messages after which the server drops them all, in milliseconds.
const KEPT_FOR: u64 = 600_000;
/// Messages of one read, from each stream.
const BATCH: usize = 64;

/// The answer of `XREAD`: streams, their entries, the fields of those.
type Read = Option<Vec<(String, Vec<(String, HashMap<String, Vec<u8>>)>)>>;

/// The session of one gateway with the group's server.
pub(super) struct Exchange {
    member: Arc<Member>,
    registry: Arc<Registry>,
    clock: Clock,
    metrics: Metrics,
    /// Ids of the last messages read, with prompts and with loads.
    last: [String; 2],
    /// Loads that were published last.
    published: HashMap<EngineKey, EngineLoad>,
}

impl Session for Exchange {
    const LOST_MESSAGE: &'static str =
        "shared placement: server unreachable; gateways do not know of each other's requests (placement.shared)";

    fn link(&self) -> &Link {
        &self.member.link
    }

    async fn run(&mut self) -> Result<Infallible, SessionError> {
        let mut connection = self.member.link.connect(ANSWER).await?;
        // From the start of the streams, since a restored server may reuse ids. A prompt that is received twice changes
        // nothing, and old loads count for a moment.
        self.last = ["0".to_owned(), "0".to_owned()];
        self.member.link.set_connection(connection.clone());
        self.registry.outbox().set_open(true);
        tracing::info!(server = %self.member.link.server(), "shared placement: connected");
        let Err(broken) = self.exchange(&mut connection).await;
        self.registry.outbox().set_open(false);
        Err(broken)
    }
}

impl Exchange {
    pub(super) fn new(member: Arc<Member>, registry: Arc<Registry>, (clock, metrics): (Clock, Metrics)) -> Self {
        Self { member, registry, clock, metrics, last: Default::default(), published: HashMap::new() }
    }

    async fn exchange(&mut self, connection: &mut Connection) -> Result<Infallible, SessionError> {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.publish(connection).await?;
            while self.receive(connection).await? {}
        }
    }

    /// Appends the loads that are not zero or have changed, and the prompts computed since the last time.
    async fn publish(&mut self, connection: &mut Connection) -> Result<(), SessionError> {
        self.metrics.placement_shared("publish", "dropped", self.registry.outbox().take_dropped());
        let (loads, prompts) = (self.loads(), self.registry.outbox().take());
        if loads.is_empty() && prompts.is_empty() {
            return Ok(());
        }
        let (member, count) = (self.member.clone(), prompts.len() as u64);
        // Half a megabyte may wait.
        let sealing = tokio::task::spawn_blocking(move || {
            let seal = |messages: Vec<Vec<u8>>| messages.into_iter().filter_map(|it| member.sealer.seal(it)).collect();
            [message::write_prompts(member.gateway, prompts), message::write_loads(member.gateway, &loads)].map(seal)
        });
        let [prompts, loads]: [Vec<Vec<u8>>; 2] = sealing.await.unwrap_or_default();
        let mut commands = ::redis::pipe();
        let Member { prompts_key, loads_key, .. } = &*self.member;
        for (key, kept, messages) in [(prompts_key, KEPT_PROMPTS, prompts), (loads_key, KEPT_LOADS, loads)] {
            if messages.is_empty() {
                continue;
            }
            for sealed in messages {
                let add = commands.cmd("XADD").arg(key).arg("MAXLEN").arg("~").arg(kept);
                add.arg("*").arg("m").arg(sealed).ignore();
            }
            commands.cmd("PEXPIRE").arg(key).arg(KEPT_FOR).ignore();
        }
        let sent = timeout(ANSWER, commands.query_async::<()>(connection));
        sent.await.map_err(|_| SessionError::Silent)??;
        self.metrics.placement_shared("publish", "ok", count);
        Ok(())
    }

    /// Loads of engines with requests of ours, or that had any when they were published last. The others are known.
    fn loads(&mut self) -> Vec<(EngineKey, EngineLoad)> {
        let is_known = |key: &EngineKey, load: &EngineLoad| {
            let before = self.published.get(key).copied().unwrap_or_default();
            load.in_flight == 0 && before.in_flight == 0 && before.sent_tokens == load.sent_tokens
        };
        let all = self.registry.engine_loads(self.clock.now());
        let loads: Vec<_> = all.iter().filter(|(key, load)| !is_known(key, load)).copied().collect();
        self.published = all.into_iter().collect();
        loads
    }

    /// Reads the next messages and applies those of others. Returns true if there may be more.
    async fn receive(&mut self, connection: &mut Connection) -> Result<bool, SessionError> {
        let mut command = cmd("XREAD");
        command.arg("COUNT").arg(BATCH).arg("STREAMS").arg(&self.member.prompts_key).arg(&self.member.loads_key);
        command.arg(&self.last);
        let read: Read = query_within(&command, connection, ANSWER).await?;
        let mut sealed = Vec::new();
        let mut more = false;
        for (key, entries) in read.into_iter().flatten() {
            let last = &mut self.last[usize::from(key == self.member.loads_key)];
            if let Some((id, _)) = entries.last() {
                last.clone_from(id);
            }
            more |= entries.len() == BATCH;
            sealed.extend(entries.into_iter().map(|(_, mut fields)| fields.remove("m").unwrap_or_default()));
        }
        if !sealed.is_empty() {
            let (member, registry, metrics) = (self.member.clone(), self.registry.clone(), self.metrics.clone());
            let clock = self.clock;
            // A message with prompts takes up to a millisecond.
            let applying = tokio::task::spawn_blocking(move || apply(sealed, &member, (&registry, clock), &metrics));
            let _ = applying.await;
        }
        Ok(more)
    }
}

/// Applies the messages of other gateways.
fn apply(sealed: Vec<Vec<u8>>, member: &Member, (registry, clock): (&Registry, Clock), metrics: &Metrics) {
    let mut loads = Vec::new();
    for sealed in sealed {
        let opened = member.sealer.open(sealed).and_then(|message| message::read(&message));
        let Some(Message { gateway, content }) = opened else {
            metrics.placement_shared("receive", "refused", 1);
            continue;
        };
        if gateway == member.gateway {
            continue;
        }
        match content {
            Content::Loads(of_gateway) => loads.push((gateway, of_gateway)),
            Content::Prompts(prompts) => {
                let unknown = registry.computed_elsewhere(&prompts);
                metrics.placement_shared("receive", "ok", (prompts.len() - unknown) as u64);
                metrics.placement_shared("receive", "unknown", unknown as u64);
            }
        }
    }
    if !loads.is_empty() {
        registry.record_engine_loads(loads.iter().map(|(gateway, loads)| (*gateway, &**loads)), clock.now());
    }
}
