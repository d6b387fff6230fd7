//! What this gateway would have done with a request that it only observes: its route, and the backend it would have begun with.

use std::sync::Arc;

use crate::{
    gateway::{Desk, explain::explain_read, route::takes_long, stages::Call, work::Estimate},
    journal::Counterfactual,
    types::Fault,
};

/// Notes it in the request's record. `unreadable`: why it could not have been read.
pub(super) async fn note(desk: &Arc<Desk>, call: &Call, estimate: &Estimate, unreadable: Option<&'static str>) {
    if call.serving.snapshot.policy.models.rules().next().is_none() {
        // Without a policy there is nothing to set beside it.
        return;
    }
    if let Some(kind) = unreadable {
        return call.record.note(|line| line.counterfactual = Some(Counterfactual::refused(kind)));
    }
    let explained = if takes_long(&call.serving, &call.body) {
        let (desk, call, estimate) = (desk.clone(), call.clone(), estimate.clone());
        let aside =
            move || explain_read(&desk, &call.serving, (call.endpoint, &call.headers, None), &call.body, &estimate);
        let internal = || Fault::gateway(http::StatusCode::INTERNAL_SERVER_ERROR, "internal", "routing failed");
        tokio::task::spawn_blocking(aside).await.unwrap_or_else(|_| Err(internal()))
    } else {
        explain_read(desk, &call.serving, (call.endpoint, &call.headers, None), &call.body, estimate)
    };
    call.record.note(|line| match explained {
        Ok((explanation, particulars)) => {
            line.routing_facts = particulars;
            line.counterfactual = Some(Counterfactual::starting_with(explanation.pools.into_iter().next()));
            line.route = Some(explanation.route);
            line.explained = Some(explanation.explained);
        }
        Err(fault) => line.counterfactual = Some(Counterfactual::refused(fault.kind)),
    });
}
