//! Counting together as policies say, from one to the next.

use std::sync::Arc;

use super::{server::Joint, session::Session};
use crate::{
    gateway::Desk,
    measure::lock,
    policy::Policy,
    redis::{LinkError, maintain},
};

/// Counts what callers use together with other gateways as `policy` says, from now on. Within a runtime, and before the policy is served.
///
/// # Errors
/// [`LinkError`] where the server's address is none; all stays as it was then.
pub fn share_limits(desk: &Arc<Desk>, policy: &Policy) -> Result<(), LinkError> {
    // What simulated engines answer costs nobody anything.
    let spec = policy.shared_limits.as_ref().filter(|_| !policy.simulated);
    let joint = &desk.callers.joint;
    let before = joint.load_full();
    if before.as_ref().map(|before| &before.spec) == spec {
        return Ok(());
    }
    let own = || (desk.callers.roll.clone(), desk.callers.ledger());
    let new = match spec {
        Some(spec) => Some(Joint::new(spec.clone(), own(), desk.metrics.clone())?),
        None => None,
    };
    if let Some(before) = before {
        before.close();
    }
    let Some((new, outgoing)) = new else {
        joint.store(None);
        return Ok(());
    };
    let new = Arc::new(new);
    joint.store(Some(new.clone()));
    let attends = tokio::spawn(maintain(Session::new(desk.clone(), new.clone(), outgoing)));
    *lock(&new.task) = Some(attends.abort_handle());
    Ok(())
}
