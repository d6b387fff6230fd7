//! The server of shared limits, as one gateway uses it: questions of requests, and the queue of reports.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use ::redis::Cmd;
use tokio::{
    sync::{Notify, mpsc},
    task::AbortHandle,
};

use super::{
    leases::Leases,
    transaction::{Answer, Transaction},
};
use signalbox_policy::SharedLimits;
use signalbox_redis::{Link, LinkError, Unavailable};
use signalbox_telemetry::Metrics;
use signalbox_types::Name;

/// Maximum of queued reports of finished requests. A report that does not fit is dropped: its holds expire with their lease, and its unused
/// tokens count as used until the minute is over.
const QUEUED: usize = 4096;

/// The server of shared limits.
#[derive(Debug)]
pub(crate) struct LimitServer {
    pub(crate) spec: SharedLimits,
    pub(super) link: Link,
    pub(super) leases: Arc<Leases>,
    /// Id under which this gateway reports its spending.
    pub(super) gateway: Name,
    /// Hash of the script, for `EVALSHA`.
    pub(super) script: OnceLock<String>,
    /// Wakes the session to send a revocation at once.
    pub(super) changed: Notify,
    pub(super) metrics: Metrics,
    pub(crate) task: Mutex<Option<AbortHandle>>,
    outbox: mpsc::Sender<Cmd>,
}

impl LimitServer {
    /// Describes the server of `spec`. Returns the queue of reports for the session, which sends them.
    pub(crate) fn new(
        spec: SharedLimits,
        (leases, gateway): (Arc<Leases>, Name),
        metrics: Metrics,
    ) -> Result<(Self, mpsc::Receiver<Cmd>), LinkError> {
        let (outbox, outgoing) = mpsc::channel(QUEUED);
        let server = Self {
            link: Link::new(&spec.server)?,
            leases,
            gateway,
            script: OnceLock::new(),
            changed: Notify::new(),
            metrics,
            task: Mutex::new(None),
            outbox,
            spec,
        };
        Ok((server, outgoing))
    }

    /// True if the server is connected and takes writes.
    pub(crate) fn is_up(&self) -> bool {
        self.link.is_up()
    }

    /// The reason why it is not; `None` if it is.
    pub(crate) fn problem(&self) -> Option<String> {
        self.link.problem()
    }

    /// Wakes the session to send a revocation at once.
    pub(crate) fn notify_change(&self) {
        self.changed.notify_one();
    }

    /// Runs a transaction and waits for its answer, at most the policy's timeout; `what` labels it in metrics.
    pub(super) async fn ask(&self, what: &'static str, transaction: &Transaction) -> Result<Answer, Unavailable> {
        let answer = match self.script.get() {
            Some(script) => self.link.query::<Answer>(&transaction.command(Some(script)), self.spec.timeout).await,
            None => Err(Unavailable::Down),
        };
        let result = match &answer {
            Ok((0, _)) => "ok",
            Ok(_) => "refused",
            Err(absent) => absent.label(),
        };
        self.metrics.limits_shared(what, result);
        answer
    }

    /// Queues a report. Never waits.
    pub(super) fn report(&self, transaction: &Transaction) {
        let Some(script) = self.script.get().filter(|_| self.link.is_up()) else {
            return self.metrics.limits_shared("settle", Unavailable::Down.label());
        };
        if self.outbox.try_send(transaction.command(Some(script))).is_err() {
            self.metrics.limits_shared("settle", "queue");
        }
    }

    /// Disconnects and ends the session.
    pub(crate) fn close(&self) {
        self.link.clear_connection();
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }
}
