//! The server, and what is on its way there.

use std::sync::{Arc, Mutex, OnceLock};

use ::redis::Cmd;
use tokio::{
    sync::{Notify, mpsc},
    task::AbortHandle,
};

use super::{
    leases::Leases,
    transaction::{Answer, Transaction},
};
use crate::{
    measure::lock,
    policy::SharedLimits,
    redis::{Link, LinkError, Unavailable},
    telemetry::Metrics,
    types::Name,
};

/// Most ends of requests that may be on their way. What finds no room is not told: what it held lapses with its lease, and what it did not
/// use is taken for used until the minute is over.
const QUEUED: usize = 4096;

/// The gateways that count together, as one of them sees it.
#[derive(Debug)]
pub(crate) struct Joint {
    pub(crate) spec: SharedLimits,
    pub(super) link: Link,
    pub(super) roll: Arc<Leases>,
    /// Who tells what was spent here.
    pub(super) gateway: Name,
    /// What the server calls the script.
    pub(super) script: OnceLock<String>,
    /// There are changes to tell at once.
    pub(super) changed: Notify,
    pub(super) metrics: Metrics,
    pub(crate) task: Mutex<Option<AbortHandle>>,
    outbox: mpsc::Sender<Cmd>,
}

impl Joint {
    /// Through the server of `spec`; what is on its way is given to whoever sends it.
    pub(crate) fn new(
        spec: SharedLimits,
        (roll, gateway): (Arc<Leases>, Name),
        metrics: Metrics,
    ) -> Result<(Self, mpsc::Receiver<Cmd>), LinkError> {
        let (outbox, outgoing) = mpsc::channel(QUEUED);
        let joint = Self {
            link: Link::new(&spec.url.0)?,
            roll,
            gateway,
            script: OnceLock::new(),
            changed: Notify::new(),
            metrics,
            task: Mutex::new(None),
            outbox,
            spec,
        };
        Ok((joint, outgoing))
    }

    /// Whether the server is there.
    pub(crate) fn is_up(&self) -> bool {
        self.link.is_up()
    }

    /// There are changes to tell at once.
    pub(crate) fn hurry(&self) {
        self.changed.notify_one();
    }

    /// Asks whether there is room for a request; `what` it is asked for, in metrics.
    pub(super) async fn ask(&self, what: &'static str, deal: &Transaction) -> Result<Answer, Unavailable> {
        let answer = match self.script.get() {
            Some(script) => self.link.query::<Answer>(&deal.command(Some(script)), self.spec.timeout).await,
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

    /// Tells it something when there is time. Waits for nobody.
    pub(super) fn tell(&self, deal: &Transaction) {
        let Some(script) = self.script.get().filter(|_| self.link.is_up()) else {
            return self.metrics.limits_shared("settle", Unavailable::Down.label());
        };
        if self.outbox.try_send(deal.command(Some(script))).is_err() {
            self.metrics.limits_shared("settle", "queue");
        }
    }

    /// Nobody is asked or told any more.
    pub(crate) fn close(&self) {
        self.link.clear_connection();
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}
