//! This gateway as a member of a group.

use super::seal::Sealer;
use crate::{
    policy::SharedPlacement,
    redis::{Link, LinkError},
};

/// This gateway as a member of a group.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) spec: SharedPlacement,
    pub(super) link: Link,
    pub(super) sealer: Sealer,
    /// The server's key of the stream that all members write to and read.
    pub(super) stream_key: String,
    /// Number by which a member skips its own messages.
    pub(super) gateway: u64,
}

impl Member {
    pub(super) fn new(spec: &SharedPlacement) -> Result<Self, LinkError> {
        let sealer = Sealer::new(&spec.key.0);
        Ok(Self {
            link: Link::new(&spec.server)?,
            stream_key: format!("signalbox:{{{:016x}}}:placement", sealer.group()),
            gateway: fastrand::u64(..),
            sealer,
            spec: spec.clone(),
        })
    }
}
