//! Counterfactual for an observed request: the route and the first backend that this gateway would have chosen.

use std::sync::Arc;

use crate::{
    estimator::Estimate,
    explain::{Explanation, explain_read},
    route::{RouteContext, takes_long},
    stages::Call,
};
use signalbox_journal::Counterfactual;
use signalbox_types::Fault;

/// Adds the counterfactual to the request's record. `unreadable` is the reason why the gateway could not have read the
/// request, if any.
pub(super) async fn note(
    context: &Arc<RouteContext>,
    call: &Call,
    estimate: &Estimate,
    unreadable: Option<&'static str>,
) {
    if call.serving.snapshot.policy.models.rules().next().is_none() {
        // Without routing rules there is nothing to compare with.
        return;
    }
    if let Some(kind) = unreadable {
        return call.record.progress().observed(Counterfactual::refused(kind));
    }
    let explained = if takes_long(&call.serving, &call.body) {
        let (context, call, estimate) = (context.clone(), call.clone(), estimate.clone());
        let aside =
            move || explain_read(&context, &call.serving, (call.endpoint, &call.headers, None), &call.body, &estimate);
        let internal = || Fault::gateway(http::StatusCode::INTERNAL_SERVER_ERROR, "internal", "routing failed");
        tokio::task::spawn_blocking(aside).await.unwrap_or_else(|_| Err(internal()))
    } else {
        explain_read(context, &call.serving, (call.endpoint, &call.headers, None), &call.body, estimate)
    };
    let mut progress = call.record.progress();
    match explained {
        Ok((Explanation { route, explained, pools, .. }, facts)) => {
            progress.routed(route, Some(explained.into()), facts);
            progress.observed(Counterfactual::starting_with(pools.into_iter().next()));
        }
        Err(fault) => progress.observed(Counterfactual::refused(fault.kind)),
    }
}
