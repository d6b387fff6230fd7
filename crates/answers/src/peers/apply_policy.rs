//! Applies a policy's sharing of answers: opens, keeps or closes the group.

use std::sync::Arc;

use super::{
    group::PeerGroup,
    session::{Session, send_queued},
    state::Peers,
};
use crate::LocalAnswers;
use signalbox_cache::Purge;
use signalbox_policy::Policy;
use signalbox_redis::{LinkError, maintain};
use signalbox_telemetry::Metrics;
use signalbox_types::Clock;

/// Shares kept answers as `policy` says. Call it within a runtime.
///
/// # Errors
/// [`LinkError`] where the server's address is invalid; nothing changes then.
pub(crate) fn share(
    shared: &Peers,
    (local, clock, metrics): (&Arc<LocalAnswers>, Clock, &Metrics),
    policy: &Policy,
) -> Result<(), LinkError> {
    // Answers of simulated engines are not shared.
    let caching = policy.caching.as_ref().filter(|_| !policy.simulated);
    let spec = caching.and_then(|caching| caching.shared.as_ref());
    let Some((caching, spec)) = caching.zip(spec) else {
        shared.close();
        return Ok(());
    };
    if shared.group.load().as_ref().is_some_and(|group| group.is_of(spec, caching)) {
        return Ok(());
    }
    let (group, outgoing) = PeerGroup::new(spec.clone(), caching)?;
    shared.close();
    if local.cache.set_keys(group.keys.clone()) {
        // Semantic entries were stored under the old keys too.
        local.semantic.purge(&Purge::default());
    }
    let group = Arc::new(group);
    shared.group.store(Some(group.clone()));
    let sender = tokio::spawn(send_queued(metrics.clone(), group.clone(), outgoing));
    let session = tokio::spawn(maintain(Session::new(local.clone(), (clock, metrics.clone()), group)));
    shared.tasks.lock().extend([sender.abort_handle(), session.abort_handle()]);
    Ok(())
}
