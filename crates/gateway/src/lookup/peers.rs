//! Looks up answers stored by other gateways when none is in memory.

use super::{CacheLookup, sharing::Sharing};
use crate::{Step, record::Record};
use signalbox_cache::Found;
use signalbox_policy::Exact;
use signalbox_telemetry::LookupStage;

impl<S: Step<super::Missed>> CacheLookup<S> {
    /// Asks the other gateways, then repeats the lookup.
    pub(super) async fn look_elsewhere(
        &self,
        exact: &Exact,
        sharing: &Sharing,
        record: &Record,
    ) -> Result<Found, &'static str> {
        let (clock, metrics) = (record.clock(), record.metrics().cache());
        let began = clock.now();
        let into = (exact, &self.answers.local.cache.exact);
        if let Some(result) = self.answers.peers.fetch(&sharing.key, into, clock).await {
            metrics.shared("get", result);
            metrics.took(LookupStage::Shared, clock.now().seconds_since(began));
        }
        sharing.look(&self.answers.local.cache.exact, clock.now())
    }
}
