//! The group of gateways that place requests together, as a policy describes it.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::{member::Member, seal::Sealer, session::Exchange};
use signalbox_fleet::Registry;
use signalbox_policy::Policy;
use signalbox_redis::{LinkError, maintain};
use signalbox_telemetry::Metrics;
use signalbox_types::Clock;

/// The group that this gateway belongs to, if any. Outlives policies.
#[derive(Debug, Default)]
pub struct PlacementGroup {
    member: ArcSwapOption<Member>,
    task: Mutex<Option<AbortHandle>>,
}

impl PlacementGroup {
    /// Joins, leaves or changes the group, as `policy` says. Call it within a runtime. Returns the salt of the group's
    /// prompt hashes; `None` without a group.
    ///
    /// # Errors
    /// [`LinkError`] where the server's address cannot be used; nothing changes then.
    pub fn apply_policy(
        &self,
        policy: &Policy,
        registry: &Arc<Registry>,
        (clock, metrics): (Clock, &Metrics),
    ) -> Result<Option<u64>, LinkError> {
        // Simulated engines are each gateway's own.
        let Some(spec) = policy.shared_placement.as_ref().filter(|_| !policy.simulated) else {
            self.leave(registry);
            return Ok(None);
        };
        let salt = Some(Sealer::salt(&spec.key.0));
        if self.member.load().as_ref().is_some_and(|member| member.spec == *spec) {
            return Ok(salt);
        }
        let member = Arc::new(Member::new(spec)?);
        self.leave(registry);
        self.member.store(Some(member.clone()));
        let exchange = Exchange::new(member, registry.clone(), (clock, metrics.clone()));
        *self.task.lock() = Some(tokio::spawn(maintain(exchange)).abort_handle());
        Ok(salt)
    }

    /// True if the server is connected; `None` without a group.
    pub fn is_up(&self) -> Option<bool> {
        self.member.load().as_ref().map(|member| member.link.is_up())
    }

    /// The reason why the server is not used; `None` where it is, or without a group.
    pub fn problem(&self) -> Option<String> {
        self.member.load().as_ref()?.link.problem()
    }

    fn leave(&self, registry: &Registry) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
            registry.outbox().set_open(false);
        }
        self.member.store(None);
    }
}
