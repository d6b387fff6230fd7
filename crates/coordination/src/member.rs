//! This gateway as a member of a group.

use super::seal::Sealer;
use signalbox_policy::SharedPlacement;
use signalbox_redis::{Link, LinkError};

/// This gateway as a member of a group.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) spec: SharedPlacement,
    pub(super) link: Link,
    pub(super) sealer: Sealer,
    /// The server's key of the stream of computed prompts, which all members write to and read.
    pub(super) prompts_key: String,
    /// The key of the stream of loads.
    pub(super) loads_key: String,
    /// Number by which a member skips its own messages.
    pub(super) gateway: u64,
}

impl Member {
    pub(super) fn new(spec: &SharedPlacement) -> Result<Self, LinkError> {
        let sealer = Sealer::new(&spec.key.0);
        Ok(Self {
            link: Link::new(&spec.server)?,
            // The braces make a cluster keep both in one slot.
            prompts_key: format!("{}:{{{:016x}}}:placement:prompts", spec.server.prefix(), sealer.group()),
            loads_key: format!("{}:{{{:016x}}}:placement:loads", spec.server.prefix(), sealer.group()),
            gateway: fastrand::u64(..),
            sealer,
            spec: spec.clone(),
        })
    }
}
