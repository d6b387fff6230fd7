//! Being there: what goes on here is told before anything is asked, and again and again; and what has ended, as it comes.

use std::{convert::Infallible, sync::Arc, time::Duration};

use ::redis::{Cmd, aio::MultiplexedConnection, cmd};
use futures_util::future::join_all;
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use super::{
    names::spent,
    revocations::{self, Changes, Words},
    server::Joint,
    transaction::{Answer, SCRIPT, Transaction},
};
use crate::{
    quota::BudgetAccount,
    redis::{self, ANSWER, Link, SessionError, Unavailable, query_within},
    types::{Name, wall_clock},
};

/// The time between two questions for what was revoked elsewhere.
const BEAT: Duration = Duration::from_secs(1);
/// Beats until what is held here is told again: a third of the lease that the script gives it.
const RENEWED: u32 = 5;
/// Ends of requests that are on their way at once.
const BATCH: usize = 64;
/// Teams that are told of in one step.
const TEAMS: usize = 64;

/// The counts of this gateway, as the server gets to know them.
pub(crate) trait LocalCounts: Send + Sync {
    /// Revocations that the server does not know yet.
    fn changes(&self) -> &Changes;

    /// Applies revocations made on other gateways, by the keys' hashes. Returns those that are revoked here and unknown there.
    fn apply_revocations(&self, words: &Words) -> Vec<([u8; 32], Name)>;

    /// The funds of every team with a budget.
    fn funds(&self) -> Vec<(Name, Arc<BudgetAccount>)>;
}

/// What one gateway does while the server is there.
pub(crate) struct Session {
    counts: Arc<dyn LocalCounts>,
    joint: Arc<Joint>,
    outgoing: mpsc::Receiver<Cmd>,
}

impl Session {
    pub(crate) fn new(counts: Arc<dyn LocalCounts>, joint: Arc<Joint>, outgoing: mpsc::Receiver<Cmd>) -> Self {
        Self { counts, joint, outgoing }
    }
}

impl redis::Session for Session {
    const LOST: &'static str = "limits are kept by each gateway alone until the server is there again (limits.shared)";

    fn link(&self) -> &Link {
        &self.joint.link
    }

    async fn run(&mut self) -> Result<Infallible, SessionError> {
        let joint = self.joint.clone();
        let mut own = joint.link.connect(Some(ANSWER)).await?;
        let script = query_within(cmd("SCRIPT").arg("LOAD").arg(SCRIPT), &mut own, ANSWER).await?;
        // It is named by what it says.
        let _ = joint.script.set(script);
        self.renew(&mut own).await?;
        self.revocations(&mut own).await?;
        joint.link.set_connection(own.clone());
        tracing::info!("limits are shared");
        let mut beats = interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut beat, mut ends) = (0_u32, Vec::with_capacity(BATCH));
        loop {
            tokio::select! {
                () = joint.link.lost() => return Err(SessionError::Silent),
                () = joint.changed.notified() => self.revocations(&mut own).await?,
                _ = beats.tick() => {
                    self.revocations(&mut own).await?;
                    // The first time at once, for what began before the connection was there.
                    if beat.is_multiple_of(RENEWED) {
                        self.renew(&mut own).await?;
                    }
                    beat = beat.wrapping_add(1);
                }
                _ = self.outgoing.recv_many(&mut ends, BATCH) => self.settle(&mut ends).await,
            }
        }
    }
}

impl Session {
    async fn revocations(&self, own: &mut MultiplexedConnection) -> Result<(), SessionError> {
        let counts = &self.counts;
        revocations::tell_and_hear(counts.changes(), |words| counts.apply_revocations(words), own).await
    }

    /// Tells what requests under way hold, and what was spent; learns what others have spent. By the script's text, lest a server that was
    /// told to forget it did not know it any more.
    async fn renew(&self, own: &mut MultiplexedConnection) -> Result<(), SessionError> {
        for deal in self.joint.roll.renewals() {
            let _: Answer = query_within(&deal.command(None), own, ANSWER).await?;
        }
        let unix = wall_clock::seconds();
        let funds = self.counts.funds();
        let mut deal = Transaction::default();
        for funds in funds.chunks(TEAMS) {
            deal = Transaction::default();
            let statements: Vec<_> = funds.iter().map(|(_, fund)| fund.statement(unix)).collect();
            for ((team, _), statement) in funds.iter().zip(&statements) {
                deal.spend(&spent(team, statement), statement, &self.joint.gateway);
            }
            let (_, told): Answer = query_within(&deal.command(None), own, ANSWER).await?;
            for (((_, fund), statement), told) in funds.iter().zip(&statements).zip(told) {
                if let [all, here] = told[..] {
                    fund.learn(statement, here, all);
                }
            }
        }
        if deal.is_empty() {
            let _: Answer = query_within(&deal.command(None), own, ANSWER).await?;
        }
        Ok(())
    }

    /// Tells what has ended, all of it at once and in its order.
    async fn settle(&self, ends: &mut Vec<Cmd>) {
        let told = join_all(ends.iter().map(|end| self.joint.link.query::<Answer>(end, ANSWER))).await;
        for told in told {
            self.joint.metrics.limits_shared("settle", told.map_or_else(Unavailable::label, |_| "ok"));
        }
        ends.clear();
    }
}
