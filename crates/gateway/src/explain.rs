//! Explanation of a request: the route it would take and the choice in each candidate pool, by the same steps as a real
//! request. Nothing is sent or learned.

use bytes::Bytes;
use http::HeaderMap;
use serde::Serialize;

use super::{
    Serving,
    estimator::{Counting, Estimate},
    parts::Parts,
    route::{Asking, RouteContext, counter, find},
};
use signalbox_fleet::{PlacementQuery, Scratch};
use signalbox_journal::{AttemptEntry, Explained, RoutingFacts};
use signalbox_policy::Labels;
use signalbox_protocol::RequestBody;
use signalbox_types::{Endpoint, Fault, Name};

/// Predicted handling of a request.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The model as the client names it.
    pub model: Option<String>,
    /// The route it would take.
    pub route: Name,
    /// Reason for the route.
    pub explained: Explained,
    /// Limit on the time to the first token, in milliseconds.
    pub bound_ms: Option<f64>,
    /// Choice in each of the route's pools, in the order of the attempts.
    pub pools: Vec<AttemptEntry>,
    /// Pools of the route in which no backend could take the request.
    pub without_backends: Vec<Name>,
}

impl Explanation {
    /// Replaces backend names by the labels that callers may see.
    pub(super) fn labelled(self, labels: &Labels) -> Self {
        Self { pools: self.pools.into_iter().map(|pool| pool.labelled(labels)).collect(), ..self }
    }
}

/// Explains a request with this body and these `headers`. `key`: the index of the caller's key in the policy.
pub fn explain(
    parts: &Parts,
    serving: &Serving,
    endpoint: Endpoint,
    headers: &HeaderMap,
    key: Option<usize>,
    body: Bytes,
) -> Result<Explanation, Fault> {
    let body = RequestBody::json(endpoint, body)?;
    let estimate = parts.estimator.estimate(headers, &body, counter(serving, &body));
    explain_read(&parts.routing, serving, (endpoint, headers, key), &body, &estimate)
        .map(|(explanation, _)| explanation)
}

/// Explains a request that was already parsed. Also returns the facts that routing rules may query, if a journal is
/// kept.
pub(super) fn explain_read(
    context: &RouteContext,
    serving: &Serving,
    (endpoint, headers, key): (Endpoint, &HeaderMap, Option<usize>),
    body: &RequestBody,
    estimate: &Estimate,
) -> Result<(Explanation, Option<RoutingFacts>), Fault> {
    let prompt = Counting::of(body, estimate.tokens, counter(serving, body));
    let asking = Asking {
        context,
        id: None,
        serving,
        endpoint,
        creates: true,
        query: None,
        headers,
        key,
        body,
        estimate,
        prompt: &prompt,
    };
    let (route, explained, routing_facts) = find(&asking)?;
    let mut scratch = Scratch::default();
    let (mut pools, mut without_backends) = (Vec::new(), Vec::new());
    for place in 0..route.targets.len() {
        let pool = &serving.snapshot.pools[route.targets[place].pool];
        let outputs = pool.learned.outputs.of(&route.targets[place], &route.name);
        let ask = PlacementQuery {
            target: &route.targets[place],
            tried: &[],
            prompt: estimate.blocks.prompt(),
            session: estimate.session,
            room_only: false,
            outputs: &outputs,
            max_tokens: body.max_tokens,
            whole: !body.stream || body.asks_to_think(),
            bounded: route.bound.is_some(),
            ttft_limit: [route.bound, pool.spec.objectives.ttft()].into_iter().flatten().min(),
            tpot_limit: pool.spec.objectives.tpot(),
        };
        match pool.peek(&ask, context.clock.now(), &mut scratch) {
            Some((placement, _)) => {
                pools.push(AttemptEntry::of(pool, &scratch, &placement, estimate.blocks.prompt().weight()));
            }
            None => without_backends.push(pool.spec.name.clone()),
        }
    }
    let bound_ms = route.bound.map(|bound| bound.as_secs_f64() * 1e3);
    let explanation = Explanation {
        model: body.model.clone(),
        route: route.name.clone(),
        explained,
        bound_ms,
        pools,
        without_backends,
    };
    Ok((explanation, routing_facts))
}
