//! Pairs: sends a prompt to the other end of a route's tiers too. The comparison of both answers shows how hard the
//! prompt was.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;

use super::{
    agreement::agree,
    copy::Copying,
    judge::{self, Judgement},
    request::{BackgroundRequests, Origin},
};
use crate::{
    Reply, Step,
    reply::is_events,
    stages::{Covered, Routed},
};
use signalbox_accounting::{BackgroundBudget, BackgroundPermit};
use signalbox_learning::TierLearning;
use signalbox_policy::{Background, RouteChoice, Target, Tiers};
use signalbox_protocol::{PartialAnswer, RequestBody, Splitter};
use signalbox_telemetry::{Metrics, PairResult, Purpose};
use signalbox_types::{Endpoint, Fault};

/// Longest event of an answer that is compared, in bytes.
const LONGEST_EVENT: usize = 1 << 20;

pub(crate) struct Pairs<S> {
    inner: S,
    learning: Arc<TierLearning>,
    background: Arc<BackgroundBudget>,
    background_requests: Arc<BackgroundRequests>,
}

impl<S> Pairs<S> {
    pub(crate) fn new(
        inner: S,
        learning: Arc<TierLearning>,
        background: Arc<BackgroundBudget>,
        background_requests: Arc<BackgroundRequests>,
    ) -> Self {
        Self { inner, learning, background, background_requests }
    }
}

impl<S: Step<Covered>> Step<Covered> for Pairs<S> {
    async fn call(&self, Covered(routed): Covered) -> Result<Reply, Fault> {
        let Some(pair) = self.begin(&routed) else { return self.inner.boxed(Covered(routed)).await };
        // Boxed, so that the futures of other requests stay small.
        Box::pin(self.with(pair, routed)).await
    }
}

/// A request to be paired.
struct Pair {
    learning: Arc<TierLearning>,
    metrics: Metrics,
    background_requests: Arc<BackgroundRequests>,
    origin: Origin,
    body: RequestBody,
    id: Arc<str>,
    /// Pool whose answer the caller gets.
    expected: Target,
    /// Pool that is asked in addition, and whether it is the larger one.
    other: Target,
    other_is_larger: bool,
    judge: Option<Target>,
    _claim: BackgroundPermit,
}

impl<S: Step<Covered>> Pairs<S> {
    async fn with(&self, pair: Pair, routed: Routed) -> Result<Reply, Fault> {
        let reply = self.inner.boxed(Covered(routed)).await?;
        let pools = &pair.origin.serving.snapshot.policy.pools;
        let answered = reply.headers().get("x-signalbox-pool").map(http::HeaderValue::as_bytes);
        if !reply.status().is_success() || answered != Some(pools[pair.expected.pool].name.as_bytes()) {
            return Ok(reply);
        }
        let streamed = is_events(reply.headers());
        let (head, body) = reply.into_parts();
        let compare = move |answer: Bytes| {
            tokio::spawn(pair.compare(answer, streamed));
        };
        Ok(Reply::from_parts(head, Body::new(Copying::new(body, compare))))
    }

    /// Returns a pair if the request's route has tiers, the request goes to the lowest or the highest, and there is
    /// budget.
    fn begin(&self, routed: &Routed) -> Option<Pair> {
        let Routed { call, route, .. } = routed;
        let policy = &call.serving.snapshot.policy;
        let background = policy.background.as_ref()?;
        if !matches!(call.endpoint, Endpoint::Chat | Endpoint::Completions) {
            return None;
        }
        let model = policy.models.get(call.body.model.as_deref()?)?;
        let rule = model.rules.iter().find(|rule| rule.name == route.name)?;
        let RouteChoice::Tiers(tiers) = &rule.way else { return None };
        let (expected, other, other_is_larger) = ends(tiers, routed.explained.tier.as_ref()?.tier)?;
        if !background.allows(other.pool) || !call.serving.snapshot.pools[other.pool].speaks(call.endpoint) {
            return None;
        }
        let claim = self.background.try_acquire()?;
        Some(Pair {
            learning: self.learning.clone(),
            metrics: call.record.metrics().clone(),
            background_requests: self.background_requests.clone(),
            origin: Origin::of(routed),
            body: call.body.clone(),
            id: call.record.id(),
            expected: expected.clone(),
            other: other.clone(),
            other_is_larger,
            judge: judge_of(background),
            _claim: claim,
        })
    }
}

/// Returns the pool of the chosen tier, the pool at the other end, and true if that is the larger one. Tiers in between
/// return `None`: comparing them teaches nothing.
fn ends(tiers: &Tiers, chosen: usize) -> Option<(&Target, &Target, bool)> {
    let pool = |tier: usize| tiers.routes.get(tier)?.targets.first();
    let top = tiers.routes.len().checked_sub(1)?;
    match chosen {
        0 => Some((pool(0)?, pool(top)?, true)),
        chosen if chosen == top => Some((pool(top)?, pool(0)?, false)),
        _ => None,
    }
}

fn judge_of(background: &Background) -> Option<Target> {
    background.judge.clone().filter(|judge| background.allows(judge.pool))
}

impl Pair {
    async fn compare(self, answer: Bytes, streamed: bool) {
        let result = self.result(&answer, streamed).await;
        if let Some((small, large)) = qualities(result) {
            let Origin { serving, key, .. } = &self.origin;
            let caller = key.map(|key| &serving.snapshot.policy.keys[key].id);
            self.learning.record_pair(&self.id, caller, small, large);
        }
        self.metrics.pair(result);
    }

    async fn result(&self, answer: &Bytes, streamed: bool) -> PairResult {
        let Some(first) = read(answer, streamed) else { return PairResult::Unread };
        let Some(body) = self.origin.whole(&self.body) else { return PairResult::Unread };
        let Some(second) = self.background_requests.ask(Purpose::Pair, &self.origin, &self.other, body).await else {
            return PairResult::Failed;
        };
        let (small, large) = if self.other_is_larger { (&first, &second) } else { (&second, &first) };
        let (Some(small), Some(large)) = (small.said(), large.said()) else { return PairResult::Unread };
        match agree(&small, &large) {
            Some(true) => return PairResult::Agreed,
            Some(false) => return PairResult::Disagreed,
            None => {}
        }
        let Some(judge) = &self.judge else { return PairResult::Undecided };
        let swapped = fastrand::bool();
        let model = self.origin.serving.snapshot.policy.pools[judge.pool].name.clone();
        let Some(question) = judge::question(&model, &self.body, [&small, &large], swapped) else {
            return PairResult::Undecided;
        };
        let path = "/v1/chat/completions".to_owned();
        let origin = Origin {
            serving: self.origin.serving.clone(),
            endpoint: Endpoint::Chat,
            key: self.origin.key,
            path,
            route: self.origin.route.clone(),
        };
        let said = self.background_requests.ask(Purpose::Judge, &origin, judge, question).await;
        match said.and_then(|said| judge::read(&said, swapped)) {
            Some(Judgement::First) => PairResult::Smaller,
            Some(Judgement::Second) => PairResult::Larger,
            Some(Judgement::Same) => PairResult::Same,
            None => PairResult::Undecided,
        }
    }
}

/// Qualities of the small and the large model's answers that a comparison implies. If they disagree and no judge
/// decided, the larger model is taken to be right.
fn qualities(result: PairResult) -> Option<(f32, f32)> {
    match result {
        PairResult::Agreed | PairResult::Same => Some((1.0, 1.0)),
        PairResult::Disagreed | PairResult::Larger => Some((0.0, 1.0)),
        PairResult::Smaller => Some((1.0, 0.0)),
        PairResult::Undecided | PairResult::Unread | PairResult::Failed => None,
    }
}

/// Parses the copied answer.
fn read(answer: &Bytes, streamed: bool) -> Option<PartialAnswer> {
    if !streamed {
        return PartialAnswer::whole(answer);
    }
    let mut splitter = Splitter::new(LONGEST_EVENT);
    splitter.feed(answer.clone());
    let mut draft = PartialAnswer::default();
    while let Ok(Some(event)) = splitter.next_event() {
        if let Some(data) = event.data() {
            draft.push(&data);
        }
    }
    draft.is_over().then_some(draft)
}
