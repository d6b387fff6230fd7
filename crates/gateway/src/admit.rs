//! The step `admit` of the walk: bounds the requests in flight of the gateway by the policy's limit, and takes the permit
//! for a request's first attempt, which [`placement`](super::placement) finds.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use xxhash_rust::xxh3::xxh3_64;

use super::{
    Reply, Step,
    descriptors::Descriptors,
    estimator,
    placement::{PlacementRequest, PlacementState, Tries, enter},
    record::InFlightPermit,
    route::priority,
    stages::{Admitted, Call, Covered, Routed},
};
use signalbox_types::{Endpoint, Fault};

pub(super) struct Admit<S> {
    inner: S,
    state: Arc<PlacementState>,
    /// Requests in flight, under all policies.
    taken: Arc<AtomicUsize>,
    descriptors: Arc<Descriptors>,
}

impl<S> Admit<S> {
    pub(super) fn new(inner: S, state: Arc<PlacementState>, descriptors: Arc<Descriptors>) -> Self {
        Self { inner, state, taken: Arc::default(), descriptors }
    }
}

impl<S: Step<Admitted>> Step<Covered> for Admit<S> {
    async fn call(&self, Covered(routed): Covered) -> Result<Reply, Fault> {
        let most = routed.call.serving.snapshot.policy.limits.in_flight;
        let Some(place) = InFlightPermit::take(&self.taken, most) else {
            let message = format!("{most} requests are under way, the most that this gateway takes (limits.in_flight)");
            return Err(Fault::overloaded(message));
        };
        if let Some(most) = self.descriptors.exceeded(self.taken.load(Relaxed)) {
            let message = format!(
                "{most} connections and requests are open, the most that this process has descriptors for (raise its limit, `ulimit -n`)"
            );
            return Err(Fault::overloaded(message));
        }
        routed.call.record.progress().holds(place);
        let explained = Some(routed.explained.clone());
        let (call, asked) = self.asked(routed);
        let first = enter(&asked, &call.record).await?;
        self.inner.boxed(Admitted { call, asked, explained, first }).await
    }
}

impl<S> Admit<S> {
    fn asked(&self, routed: Routed) -> (Call, PlacementRequest) {
        let Routed { call, blocks, session, route, .. } = routed;
        let tries = route.targets.iter().map(|target| Tries::none(&call.serving, target, &route.name));
        let escalation = route.cascade.iter().map(|cascade| cascade.to.pool);
        let mut pools = route.targets.iter().map(|target| target.pool).chain(escalation);
        let has_shares = pools.any(|pool| call.serving.snapshot.pools[pool].has_shares());
        let mut asked = PlacementRequest {
            state: self.state.clone(),
            serving: call.serving.clone(),
            tries: tries.collect(),
            caller: call.caller().cloned(),
            model: call.body.model.as_deref().map(Into::into),
            route,
            blocks,
            session,
            conversation: has_shares.then(|| conversation(&call)).flatten(),
            priority: priority(&call.serving.snapshot.policy, call.key, &call.headers),
            max_tokens: call.body.max_tokens,
            whole: !call.body.stream || call.body.asks_to_think(),
            arrived: call.record.arrived(),
            escalates: false,
        };
        asked.skip_lacking(call.endpoint, call.read_at);
        (call, asked)
    }
}

/// Hash of the conversation that a call belongs to, the same at each turn and each gateway: by its name, else by its
/// first question.
fn conversation(call: &Call) -> Option<u64> {
    let caller = call.caller().map_or(0, |id| xxh3_64(id.as_bytes()));
    let talks = matches!(call.endpoint, Endpoint::Chat | Endpoint::Messages | Endpoint::Responses);
    estimator::session(&call.headers, caller).or_else(|| call.body.first_question(caller).filter(|_| talks))
}
