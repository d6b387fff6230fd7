//! Cached answers, limits and placement that a policy shares with other gateways.

use std::sync::Arc;

use signalbox_fleet::Registry;
use signalbox_gateway::Parts;
use signalbox_policy::Policy;
use signalbox_redis::{Link, LinkError};
use signalbox_types::RedisServer;

/// The address of a server that gateways share is invalid.
#[derive(Debug, thiserror::Error)]
pub enum SharingError {
    /// That of cached answers.
    #[error("shared cached answers: {0} (cache.shared.url in the policy)")]
    Answers(LinkError),
    /// That of limits.
    #[error("limits: {0} (limits.shared.url in the policy)")]
    Limits(LinkError),
    /// That of placement.
    #[error("shared placement: {0} (placement.shared.url in the policy)")]
    Placement(LinkError),
}

/// Validates the addresses of the servers that the policy names. Does not connect.
pub(super) fn check_servers(policy: &Policy) -> Result<(), SharingError> {
    // Simulated traffic is never shared.
    if policy.simulated {
        return Ok(());
    }
    let check = |server: &RedisServer| Link::new(server).map(drop);
    if let Some(shared) = policy.caching.as_ref().and_then(|caching| caching.shared.as_ref()) {
        check(&shared.server).map_err(SharingError::Answers)?;
    }
    if let Some(shared) = &policy.shared_limits {
        check(&shared.server).map_err(SharingError::Limits)?;
    }
    if let Some(shared) = &policy.shared_placement {
        check(&shared.server).map_err(SharingError::Placement)?;
    }
    Ok(())
}

/// Joins, leaves or changes the groups of gateways, as `policy` says. Call it within a runtime.
pub(super) fn apply_policy(policy: &Policy, parts: &Parts, registry: &Arc<Registry>) -> Result<(), SharingError> {
    parts.answers.share(policy).map_err(SharingError::Answers)?;
    parts.accounting.callers.share_limits(&parts.metrics, policy).map_err(SharingError::Limits)?;
    parts.share_placement(policy, registry).map_err(SharingError::Placement)
}
