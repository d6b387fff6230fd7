//! Is there room for it: no more requests are under way at once than the policy allows, and one that is refused is told so.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use http::StatusCode;

use super::{
    Reply, Step,
    stages::{Admitted, Place, Routed},
};
use crate::types::Fault;

pub(super) struct Admit<S> {
    inner: S,
    /// Requests under way, whichever policy let them in.
    taken: Arc<AtomicUsize>,
}

impl<S> Admit<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, taken: Arc::default() }
    }
}

impl<S: Step<Admitted>> Step<Routed> for Admit<S> {
    async fn call(&self, Routed { call, blocks, route }: Routed) -> Result<Reply, Fault> {
        let most = call.serving.snapshot.policy.limits.in_flight;
        let Some(place) = Place::take(&self.taken, most) else {
            let message = format!("{most} requests are under way, the most that this gateway takes (limits.in_flight)");
            return Err(Fault {
                retry_after: Some(Duration::from_secs(1)),
                ..Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message)
            });
        };
        self.inner.call(Admitted { call, blocks, route, place }).await
    }
}

impl Place {
    /// One more of `most`, if there is one left.
    fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        taken.fetch_update(Relaxed, Relaxed, |count| (count < most).then_some(count + 1)).ok()?;
        Some(Self(taken.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
