//! Background requests: sent only if there is room at once, with their answers read whole.

use std::sync::{Arc, atomic::AtomicUsize};

use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::{BodyExt, Limited};

use crate::{
    Serving, Step,
    dispatch::Dispatch,
    estimator::Estimator,
    placement::{PlacementRequest, PlacementState, Tries},
    record::{InFlightPermit, Parsed, Record, Settlement},
    stages::{Admitted, Call, Routed},
};
use signalbox_policy::{Route, Target};
use signalbox_protocol::{Edits, PartialAnswer, RequestBody};
use signalbox_telemetry::Purpose;
use signalbox_types::{Endpoint, Outcome};

/// Longest answer that is read, in bytes of its body.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// Most concurrent background requests, whatever the budget.
const MAX_CONCURRENT: usize = 8;

/// The client request that a background request derives from.
pub(crate) struct Origin {
    pub(super) serving: Arc<Serving>,
    pub(super) endpoint: Endpoint,
    pub(super) key: Option<usize>,
    pub(super) path: String,
    pub(super) route: Arc<Route>,
}

impl Origin {
    pub(crate) fn of(Routed { call, route, .. }: &Routed) -> Self {
        Self {
            serving: call.serving.clone(),
            endpoint: call.endpoint,
            key: call.key,
            path: call.path.clone(),
            route: route.clone(),
        }
    }

    /// Converts `body` to a request for a whole answer. Returns `None` if the result cannot be parsed.
    pub(crate) fn whole(&self, body: &RequestBody) -> Option<RequestBody> {
        let drop = ["stream", "stream_options", "cache"].map(str::to_owned);
        let bytes = body.edited(&Edits { drop: &drop, ..Edits::default() });
        RequestBody::json(self.endpoint, bytes).ok()
    }
}

/// Sends background requests.
pub(crate) struct BackgroundRequests {
    dispatch: Dispatch,
    settlement: Arc<Settlement>,
    placement: Arc<PlacementState>,
    estimator: Arc<Estimator>,
    under_way: Arc<AtomicUsize>,
}

impl BackgroundRequests {
    pub(crate) fn new(
        dispatch: Dispatch,
        settlement: Arc<Settlement>,
        placement: Arc<PlacementState>,
        estimator: Arc<Estimator>,
    ) -> Self {
        Self { dispatch, settlement, placement, estimator, under_way: Arc::default() }
    }

    /// Sends `body` to the pool of `target` and returns the answer. Returns `None` if the pool has no room now or the
    /// request fails.
    pub(crate) async fn ask(
        &self,
        purpose: Purpose,
        origin: &Origin,
        target: &Target,
        body: RequestBody,
    ) -> Option<PartialAnswer> {
        // Waiting client requests come first.
        if !self.placement.queues.is_empty() {
            return None;
        }
        let place = InFlightPermit::take(&self.under_way, MAX_CONCURRENT)?;
        let id = format!("sb-bg-{:016x}", fastrand::u64(..));
        let record = Record::open(self.settlement.clone(), id.into(), origin.endpoint, Some(purpose), None);
        record.progress().holds(place);
        let estimate = self.estimator.estimate(&HeaderMap::new(), &body, origin.serving.counter(target.pool));
        let team = origin.serving.snapshot.policy.paying_team(origin.key).cloned();
        let target = &Target { team, ..target.clone() };
        let route = Arc::new(Route::new(origin.route.name.clone(), vec![target.clone()], origin.route.timeouts));
        let (model, stream, prompt_bytes) = (body.model.clone(), body.stream, body.prompt_bytes);
        record.progress().parsed(Parsed { model, stream, prompt_bytes });
        record.progress().estimated(estimate.tokens.expected);
        record.progress().routed(route.name.clone(), None, None);
        let asked = PlacementRequest {
            state: self.placement.clone(),
            serving: origin.serving.clone(),
            tries: vec![Tries::none(&origin.serving, target, &route.name)],
            route,
            blocks: estimate.blocks,
            session: None,
            conversation: None,
            priority: 0,
            max_tokens: body.max_tokens,
            whole: true,
            arrived: record.arrived(),
            caller: None,
            model: body.model.as_deref().map(Into::into),
            escalates: false,
        };
        let Some(first) = asked.place(self.settlement.clock.now()) else {
            record.settle(Outcome::Failed("no_room"));
            return None;
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let call = Call {
            read_at: record.arrived(),
            endpoint: origin.endpoint,
            serving: origin.serving.clone(),
            record: record.clone(),
            key: origin.key,
            method: Method::POST,
            path: origin.path.clone(),
            query: None,
            headers,
            body,
            original: None,
            keeps_usage: false,
            signed_thinking: false,
            carries_state: false,
            seeks_object: false,
            held: None,
        };
        match self.dispatch.call(Admitted { call, asked, explained: None, first }).await {
            Ok(reply) => {
                let answer = Limited::new(reply.into_body(), MAX_ANSWER_BYTES).collect().await.ok()?.to_bytes();
                PartialAnswer::whole(&answer)
            }
            Err(fault) => {
                record.fail(&fault);
                None
            }
        }
    }
}
