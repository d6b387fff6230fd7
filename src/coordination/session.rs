//! The exchange with the group's server: a few times a second a gateway appends what was computed for it to a stream, and
//! reads what the others have appended.

use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

use ::redis::cmd;
use tokio::time::MissedTickBehavior;

use super::{member::Member, message};
use crate::{
    fleet::Registry,
    redis::{ANSWER, Connection, Link, Session, SessionError, query_within},
    telemetry::Metrics,
};

/// Time between two exchanges. Hints may be late: in simulations seconds cost little of what they gain (record 073).
const PERIOD: Duration = Duration::from_millis(250);
/// Messages that the server keeps, about: what a gateway learns first when it joins.
const KEPT: usize = 256;
/// Time without messages after which the server drops them all, in milliseconds.
const KEPT_FOR: u64 = 600_000;
/// Messages of one read.
const BATCH: usize = 64;

/// The answer of `XREAD`: streams, their entries, the fields of those.
type Read = Option<Vec<(String, Vec<(String, HashMap<String, Vec<u8>>)>)>>;

/// The session of one gateway with the group's server.
pub(super) struct Exchange {
    member: Arc<Member>,
    registry: Arc<Registry>,
    metrics: Metrics,
    /// Id of the last message read.
    last: String,
}

impl Session for Exchange {
    const LOST_MESSAGE: &'static str =
        "shared placement: server unreachable; gateways do not learn where others sent prompts (placement.shared)";

    fn link(&self) -> &Link {
        &self.member.link
    }

    async fn run(&mut self) -> Result<Infallible, SessionError> {
        let mut connection = self.member.link.connect(ANSWER).await?;
        // From the start of the stream, since a restored server may reuse ids. A prompt that is received twice changes nothing.
        "0".clone_into(&mut self.last);
        self.member.link.set_connection(connection.clone());
        self.registry.outbox().set_open(true);
        tracing::info!(server = %self.member.link.server(), "shared placement: connected");
        let Err(broken) = self.exchange(&mut connection).await;
        self.registry.outbox().set_open(false);
        Err(broken)
    }
}

impl Exchange {
    pub(super) fn new(member: Arc<Member>, registry: Arc<Registry>, metrics: Metrics) -> Self {
        Self { member, registry, metrics, last: String::new() }
    }

    async fn exchange(&mut self, connection: &mut Connection) -> Result<Infallible, SessionError> {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.publish(connection).await?;
            while self.receive(connection).await? == BATCH {}
        }
    }

    /// Appends what was computed since the last time.
    async fn publish(&self, connection: &mut Connection) -> Result<(), SessionError> {
        self.metrics.placement_shared("publish", "dropped", self.registry.outbox().take_dropped());
        let prompts = self.registry.outbox().take();
        if prompts.is_empty() {
            return Ok(());
        }
        let (member, count) = (self.member.clone(), prompts.len());
        // Half a megabyte may wait.
        let sealing = tokio::task::spawn_blocking(move || {
            message::write(member.gateway, prompts).into_iter().filter_map(|it| member.sealer.seal(it)).collect()
        });
        let sealed: Vec<Vec<u8>> = sealing.await.unwrap_or_default();
        let mut commands = ::redis::pipe();
        for sealed in sealed {
            let add = commands.cmd("XADD").arg(&self.member.stream_key).arg("MAXLEN").arg("~").arg(KEPT);
            add.arg("*").arg("m").arg(sealed).ignore();
        }
        commands.cmd("PEXPIRE").arg(&self.member.stream_key).arg(KEPT_FOR).ignore();
        tokio::time::timeout(ANSWER, commands.query_async::<()>(connection))
            .await
            .map_err(|_| SessionError::Silent)??;
        self.metrics.placement_shared("publish", "ok", count as u64);
        Ok(())
    }

    /// Reads the next messages and applies those of others. Returns their number.
    async fn receive(&mut self, connection: &mut Connection) -> Result<usize, SessionError> {
        let mut command = cmd("XREAD");
        command.arg("COUNT").arg(BATCH).arg("STREAMS").arg(&self.member.stream_key).arg(&self.last);
        let read: Read = query_within(&command, connection, ANSWER).await?;
        let entries: Vec<_> = read.into_iter().flatten().flat_map(|(_, entries)| entries).collect();
        let Some((last, _)) = entries.last() else { return Ok(0) };
        self.last.clone_from(last);
        let count = entries.len();
        let (member, registry, metrics) = (self.member.clone(), self.registry.clone(), self.metrics.clone());
        // Each takes up to a millisecond.
        let applying = tokio::task::spawn_blocking(move || {
            for (_, mut fields) in entries {
                apply(&member, &registry, &metrics, fields.remove("m").unwrap_or_default());
            }
        });
        let _ = applying.await;
        Ok(count)
    }
}

fn apply(member: &Member, registry: &Registry, metrics: &Metrics, sealed: Vec<u8>) {
    let Some(message) = member.sealer.open(sealed).and_then(|message| message::read(&message)) else {
        return metrics.placement_shared("receive", "refused", 1);
    };
    if message.gateway != member.gateway {
        let unknown = registry.computed_elsewhere(&message.prompts);
        metrics.placement_shared("receive", "ok", (message.prompts.len() - unknown) as u64);
        metrics.placement_shared("receive", "unknown", unknown as u64);
    }
}
