//! Is there room for it: no more requests are under way at once than the policy allows, and one that is refused is told so.

use std::time::Duration;

use http::StatusCode;

use super::{
    Reply, Step,
    stages::{Admitted, Routed},
};
use crate::types::Fault;

pub(super) struct Admit<S>(pub S);

impl<S: Step<Admitted>> Step<Routed> for Admit<S> {
    async fn call(&self, Routed { call, route }: Routed) -> Result<Reply, Fault> {
        let Ok(permit) = call.serving.places.clone().try_acquire_owned() else {
            let most = call.serving.snapshot.policy.limits.in_flight;
            let message = format!("{most} requests are under way, the most that this gateway takes (limits.in_flight)");
            return Err(Fault {
                retry_after: Some(Duration::from_secs(1)),
                ..Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message)
            });
        };
        self.0.call(Admitted { call, route, permit }).await
    }
}
