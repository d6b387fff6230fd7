//! The connection to the limit server: reports leases and spending when it opens and every few seconds, sends the reports of finished
//! requests, and exchanges revocations.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use ::redis::{Cmd, cmd};
use futures_util::future::join_all;
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use super::{
    revocations::{self, PendingRevocations, Revocations},
    server::LimitServer,
    server_keys::{key_prefix, spending_key},
    transaction::{Answer, SCRIPT, Transaction},
};
use signalbox_quota::{BudgetAccount, BudgetOwner};
use signalbox_redis::{self as redis, ANSWER, Connection, Link, SessionError, Unavailable, query_within};
use signalbox_types::{Name, wall_clock};

/// The longest that the server may take for a probe, and the shortest time between two that refused commands cause.
const PROBE: Duration = Duration::from_millis(750);
const BETWEEN_PROBES: Duration = Duration::from_millis(250);
/// Rate of probes that is never reached, per minute.
const PROBES: u64 = 1 << 20;
/// Interval of fetching revocations, and of probes.
const TICK: Duration = Duration::from_secs(1);
/// Ticks between renewals: a third of the lease that the script grants.
const RENEWAL: u32 = 5;
/// Reports of finished requests that are sent concurrently.
const BATCH: usize = 64;
/// Budgets reported in one transaction.
const BUDGETS: usize = 64;

/// The local state that the session reports and updates.
pub(crate) trait LocalCounts: Send + Sync {
    /// Revocations that the server does not have yet.
    fn pending_revocations(&self) -> &PendingRevocations;

    /// Applies the server's list of changes. Returns the keys that are revoked here and not listed.
    fn apply_revocations(&self, listed: &Revocations) -> Vec<([u8; 32], Name)>;

    /// All budgets.
    fn budgets(&self) -> Vec<(BudgetOwner, Arc<BudgetAccount>)>;
}

/// The session of one gateway with the limit server.
pub(crate) struct Session {
    counts: Arc<dyn LocalCounts>,
    server: Arc<LimitServer>,
    outgoing: mpsc::Receiver<Cmd>,
}

impl Session {
    pub(crate) fn new(counts: Arc<dyn LocalCounts>, server: Arc<LimitServer>, outgoing: mpsc::Receiver<Cmd>) -> Self {
        Self { counts, server, outgoing }
    }
}

impl redis::Session for Session {
    const LOST_MESSAGE: &'static str =
        "shared limits: server unreachable or refusing; each gateway counts alone until it is back (limits.shared)";

    fn link(&self) -> &Link {
        &self.server.link
    }

    async fn run(&mut self) -> Result<Infallible, SessionError> {
        let server = self.server.clone();
        let mut connection = server.link.connect(ANSWER).await?;
        let script = query_within(cmd("SCRIPT").arg("LOAD").arg(SCRIPT), &mut connection, ANSWER).await?;
        // The hash of the script, so the same for every connection.
        let _ = server.script.set(script);
        self.probe(&mut connection).await?;
        self.renew(&mut connection).await?;
        self.exchange_revocations(&mut connection).await?;
        server.link.set_connection(connection.clone());
        tracing::info!(server = %server.link.server(), "shared limits: connected");
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut tick, mut reports, mut probed) = (0_u32, Vec::with_capacity(BATCH), Instant::now());
        loop {
            tokio::select! {
                () = server.link.lost() => return Err(SessionError::Silent),
                () = server.link.doubted(), if probed.elapsed() >= BETWEEN_PROBES => {
                    probed = Instant::now();
                    self.probe(&mut connection).await?;
                }
                () = server.changed.notified() => self.exchange_revocations(&mut connection).await?,
                _ = ticks.tick() => {
                    probed = Instant::now();
                    self.probe(&mut connection).await?;
                    self.exchange_revocations(&mut connection).await?;
                    // At the first tick too, for leases created while the connection was opened.
                    if tick.is_multiple_of(RENEWAL) {
                        self.renew(&mut connection).await?;
                    }
                    tick = tick.wrapping_add(1);
                }
                _ = self.outgoing.recv_many(&mut reports, BATCH) => self.send_reports(&mut reports).await,
            }
        }
    }
}

impl Session {
    async fn exchange_revocations(&self, connection: &mut Connection) -> Result<(), SessionError> {
        let counts = &self.counts;
        let apply = |listed: &Revocations| counts.apply_revocations(listed);
        let key = revocations::key(&key_prefix(self.server.link.server()));
        revocations::exchange(&key, counts.pending_revocations(), apply, connection).await
    }

    /// Finds out if the server takes writes: one that is full, a replica, or a user without the right still answers.
    async fn probe(&self, connection: &mut Connection) -> Result<(), SessionError> {
        let mut transaction = Transaction::default();
        let key = format!("{}probe:{}", key_prefix(self.server.link.server()), self.server.gateway);
        transaction.take(&key.into(), PROBES, 1);
        let _: Answer = query_within(&transaction.command(None), connection, PROBE).await?;
        Ok(())
    }

    /// Renews the leases, reports the spending and learns the spending of other gateways. Sends the script's text, so that a server whose
    /// scripts were flushed has it again.
    async fn renew(&self, connection: &mut Connection) -> Result<(), SessionError> {
        for transaction in self.server.leases.renewals() {
            let _: Answer = query_within(&transaction.command(None), connection, ANSWER).await?;
        }
        let unix = wall_clock::seconds();
        let budgets = self.counts.budgets();
        let mut transaction = Transaction::default();
        for budgets in budgets.chunks(BUDGETS) {
            transaction = Transaction::default();
            let statements: Vec<_> = budgets.iter().map(|(_, account)| account.statement(unix)).collect();
            let prefix = key_prefix(self.server.link.server());
            for ((owner, _), statement) in budgets.iter().zip(&statements) {
                transaction.spend(&spending_key(&prefix, owner, statement), statement, &self.server.gateway);
            }
            let (_, figures): Answer = query_within(&transaction.command(None), connection, ANSWER).await?;
            for (((_, account), statement), figures) in budgets.iter().zip(&statements).zip(figures) {
                if let [all, here] = figures[..] {
                    account.learn(statement, here, all);
                }
            }
        }
        if transaction.is_empty() {
            let _: Answer = query_within(&transaction.command(None), connection, ANSWER).await?;
        }
        Ok(())
    }

    /// Sends the reports of finished requests, pipelined in their order.
    async fn send_reports(&self, reports: &mut Vec<Cmd>) {
        let answers = join_all(reports.iter().map(|report| self.server.link.query::<Answer>(report, ANSWER))).await;
        for answer in answers {
            self.server.metrics.limits_shared("settle", answer.map_or_else(Unavailable::label, |_| "ok"));
        }
        reports.clear();
    }
}
