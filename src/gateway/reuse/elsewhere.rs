//! An answer that another gateway may have kept, where none is in memory.

use super::{Reuse, sharing::Sharing};
use crate::{cache::Found, gateway::Step, policy::Exact, telemetry::LookupStage};

impl<S: Step<super::Missed>> Reuse<S> {
    /// Looks again when the other gateways have been asked.
    pub(super) async fn look_elsewhere(&self, exact: &Exact, sharing: &Sharing) -> Result<Found, &'static str> {
        let (clock, metrics) = (self.desk.clock, self.desk.metrics.cache());
        let began = clock.now();
        let into = (exact, &self.desk.answers.local.cache.exact);
        if let Some(result) = self.desk.answers.peers.fetch(&sharing.key, into, clock).await {
            metrics.shared("get", result);
            metrics.took(LookupStage::Shared, clock.now().seconds_since(began));
        }
        sharing.look(&self.desk.answers.local.cache.exact, clock.now())
    }
}
