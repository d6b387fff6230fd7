//! Sharing as policies say, from one to the next.

use std::sync::Arc;

use super::{
    circle::Circle,
    session::{Session, deliver},
};
use crate::{
    answers::{LocalAnswers, Peers},
    cache::Purge,
    measure::lock,
    policy::Policy,
    redis::{LinkError, attend},
    telemetry::Metrics,
    types::Clock,
};

/// Shares kept answers as `policy` says, from now on. Within a runtime.
///
/// # Errors
/// [`LinkError`] where the server's address is none; all stays as it was then.
pub(crate) fn share(
    shared: &Peers,
    (local, clock, metrics): (&Arc<LocalAnswers>, Clock, &Metrics),
    policy: &Policy,
) -> Result<(), LinkError> {
    // What simulated engines say is nobody else's affair.
    let caching = policy.caching.as_ref().filter(|_| !policy.simulated);
    let spec = caching.and_then(|caching| caching.shared.as_ref());
    let Some((caching, spec)) = caching.zip(spec) else {
        shared.close();
        return Ok(());
    };
    if shared.circle.load().as_ref().is_some_and(|circle| circle.is_of(spec, caching)) {
        return Ok(());
    }
    let (circle, outgoing) = Circle::new(spec.clone(), caching)?;
    shared.close();
    if local.cache.adopt(circle.keys.clone()) {
        // They were found by keys of the same kind.
        local.semantic.purge(&Purge::default());
    }
    let circle = Arc::new(circle);
    shared.circle.store(Some(circle.clone()));
    let sends = tokio::spawn(deliver(metrics.clone(), circle.clone(), outgoing));
    let attends = tokio::spawn(attend(Session::new(local.clone(), (clock, metrics.clone()), circle)));
    lock(&shared.tasks).extend([sends.abort_handle(), attends.abort_handle()]);
    Ok(())
}
