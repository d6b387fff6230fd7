//! Work estimate of a request: the tokens of its prompt, and the hashes of its blocks. The hashes identify prefixes seen before, and show whether a caller's prompts begin alike.

use std::sync::Arc;

use super::{
    Reply, Step,
    estimator::{Estimate, Estimator},
    route::counter,
    stages::{Call, Estimated},
};
use http::StatusCode;
use signalbox_accounting::Accounting;
use signalbox_protocol::LONG_BODY;
use signalbox_telemetry::NO_KEY;
use signalbox_types::{Clock, Fault};

pub(super) struct Estimation<S> {
    inner: S,
    clock: Clock,
    estimator: Arc<Estimator>,
    accounting: Arc<Accounting>,
}

impl<S> Estimation<S> {
    pub(super) fn new(inner: S, clock: Clock, estimator: Arc<Estimator>, accounting: Arc<Accounting>) -> Self {
        Self { inner, clock, estimator, accounting }
    }
}

impl<S: Step<Estimated>> Step<Call> for Estimation<S> {
    async fn call(&self, call: Call) -> Result<Reply, Fault> {
        let began = self.clock.now();
        let (call, estimate) = if call.body.prompt_bytes > LONG_BODY {
            let estimator = self.estimator.clone();
            let aside = tokio::task::spawn_blocking(move || {
                let estimate = estimated(&estimator, &call);
                (call, estimate)
            });
            aside
                .await
                .map_err(|_| Fault::gateway(StatusCode::INTERNAL_SERVER_ERROR, "internal", "estimating failed"))?
        } else {
            let estimate = estimated(&self.estimator, &call);
            (call, estimate)
        };
        call.record.progress().estimated(estimate.tokens.expected);
        compare(&self.accounting, &call, &estimate);
        call.record.took("estimate", began);
        self.inner.boxed(Estimated { call, estimate }).await
    }
}

fn estimated(estimator: &Estimator, call: &Call) -> Estimate {
    estimator.estimate(&call.headers, &call.body, counter(&call.serving, &call.body))
}

/// Compares the prompt with the caller's earlier ones, on endpoints that generate.
pub(super) fn compare(accounting: &Accounting, call: &Call, estimate: &Estimate) {
    if !call.endpoint.generates() {
        return;
    }
    let caller = call.key.map(|at| call.serving.caller(at));
    let nobody = || (NO_KEY, &**call.record.metrics().keyless());
    let caller = caller.map_or_else(nobody, |caller| (&*caller.id, &*caller.metrics));
    accounting.prefix_stability.observe(caller, &call.body, &estimate.blocks, estimate.session);
}
