//! State of pools and their backends in `/admin/state`.
#![expect(missing_docs, reason = "fields without a comment are named as what they hold")]

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    LeavingState,
    missing_endpoints::{MissingEndpoint, missing},
};
use crate::{app::App, pool_health::hidden_queue};
use signalbox_fleet::{Backend, Pool};
use signalbox_gateway::Serving;
use signalbox_journal::JournalEntry;
use signalbox_measure::{Span, Summary, Window, merged};
use signalbox_telemetry::{self as telemetry, BackendMetrics, Diagnosis, Latencies, SloLive, Spending};
use signalbox_types::{Endpoint, Moment, Name};

/// Cost over the last minute, by tokens or by the hours of the engines.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CostState {
    pub usd_per_hour: f64,
    /// `None` without output tokens.
    pub usd_per_million_output: Option<f64>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolState {
    pub name: Name,
    /// The resource that limits the pool.
    pub diagnosis: Option<Diagnosis>,
    /// Used share of the engines' capacity, 0 to 1.
    pub saturation: Option<f64>,
    /// Signs of trouble to come, in words.
    pub signs: Vec<String>,
    /// Largest difference between observed TTFT and TTFT as an engine reports it.
    pub hidden_queue_ms: Option<f64>,
    /// Standing of its objectives.
    pub slo: Vec<SloLive>,
    pub balance: Cow<'static, str>,
    /// Endpoints that it serves natively.
    pub speaks: Vec<Cow<'static, str>>,
    /// The pool's share of all requests since the start.
    pub share: Option<f64>,
    /// The pool's share of the answers of the last minute.
    pub recent_share: Option<f64>,
    pub queue: QueueState,
    pub ttft: Option<Quantiles>,
    pub tpot: Option<Quantiles>,
    pub foreseen: Option<Foreseen>,
    pub cost: Option<CostState>,
    pub backends: Vec<BackendState>,
    /// Backends that get no new requests.
    pub leaving: Vec<LeavingState>,
}

/// Requests that wait in the gateway for room in a pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueState {
    pub depth: u64,
    /// Requests of these that are held although there is room, because prompts wait for each other on the engines.
    pub held: u64,
    pub oldest_s: f64,
}

/// Accuracy of predicted TTFT, upstream and without queueing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Foreseen {
    /// Medians over the last decisions, in seconds.
    pub predicted_s: f64,
    pub seen_s: f64,
    /// Mean of |predicted ÷ seen − 1|; `None` until there are observations.
    pub error: Option<f64>,
    /// Share of observations at or below their predicted 90th percentile: 0.9 if predictions are calibrated.
    pub coverage: Option<f64>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendState {
    pub name: Name,
    /// `policy`, `dns NAME`, `file PATH` or `admin`.
    pub origin: String,
    pub engine: Name,
    pub model: Option<Name>,
    /// Paths that its engine was found to serve; `None` while nothing is known.
    pub endpoints: Option<Vec<Cow<'static, str>>>,
    /// Endpoints that are missing there.
    pub missing: Vec<MissingEndpoint>,
    pub state: Cow<'static, str>,
    /// Keys that the provider refuses; `None` if it refuses none.
    pub credential: Option<CredentialState>,
    /// State of the engine's breaker.
    pub breaker: Cow<'static, str>,
    pub in_flight: u32,
    pub queued_tokens: u64,
    pub decoding: u32,
    pub weight: Option<f64>,
    /// Share of prompt tokens reported as cached, since the start.
    pub prefix_hits: Option<f64>,
    /// Observed restarts of the engine.
    pub restarts: u32,
    /// The backend's share of the pool's requests since the start.
    pub share: Option<f64>,
    pub signals: Option<SignalState>,
    /// `None` without a GPU exporter.
    pub gpus: Option<GpuState>,
    /// Network round trip to the engine.
    pub round_trip_ms: Option<f64>,
    pub ttft: Option<Quantiles>,
    pub tpot: Option<Quantiles>,
    pub e2e: Option<Quantiles>,
    pub requests: u64,
    pub errors: u64,
    pub tokens_per_s: f64,
}

/// Keys that a provider refuses.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CredentialState {
    /// The account; `None` for a key of the engine's own.
    pub account: Option<Name>,
    /// Refused keys, and all keys.
    pub refused: usize,
    pub of: usize,
    /// HTTP status of the refusal.
    pub status: u16,
    /// Seconds since the first refusal.
    pub for_s: f64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SignalState {
    pub kind: Cow<'static, str>,
    pub running: Option<f64>,
    pub waiting: Option<f64>,
    pub kv_usage: Option<f64>,
    /// Prefix cache hit ratio by the engine's own counters.
    pub prefix_hits: Option<f64>,
    pub preemptions: Option<f64>,
    pub queued_tokens: Option<f64>,
    /// `None` without speculative decoding.
    pub drafting: Option<DraftingState>,
    pub age_s: f64,
}

/// Speculative decoding over the last minute.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DraftingState {
    pub accept_ratio: f64,
    pub accept_length: Option<f64>,
    /// True if drafting costs about as much as it gains, or more.
    pub is_poor: bool,
}

/// GPUs as an engine's exporter reports them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuState {
    pub count: u32,
    /// Mean over the GPUs, 0 to 1.
    pub utilisation: Option<f64>,
    /// Of the fullest GPU, 0 to 1.
    pub memory: Option<f64>,
    pub age_s: f64,
}

/// Quantiles over the last minute, in seconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Quantiles {
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub count: u64,
}

/// A route with its objectives.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteState {
    pub name: Name,
    /// Standing of its objectives.
    pub slo: Vec<SloLive>,
}

/// Figures of all pools, gathered once.
pub(super) struct Pools<'a> {
    serving: &'a Serving,
    /// Meters of the backends, by pool.
    meters: Vec<Vec<&'a Arc<BackendMetrics>>>,
    /// Requests since the start, by pool.
    totals: Vec<u64>,
    /// Answers in the last minute, by pool.
    answered: Vec<u64>,
    /// Queues and prediction accuracy.
    live: Vec<telemetry::PoolLive>,
    recent: &'a [Arc<JournalEntry>],
    now: Moment,
}

impl<'a> Pools<'a> {
    pub(super) fn new(app: &App, serving: &'a Serving, recent: &'a [Arc<JournalEntry>], now: Moment) -> Self {
        let pools = &serving.snapshot.pools;
        let meters: Vec<Vec<_>> = pools
            .iter()
            .enumerate()
            .map(|(at, pool)| (0..pool.backends.len()).map(|backend| serving.meter(at, backend)).collect())
            .collect();
        let answers = |meters: &Vec<&Arc<BackendMetrics>>| {
            let each = meters.iter().filter_map(|meter| meter.latencies().e2e.summary(Span::Minute, now));
            each.map(|summary| summary.count).sum()
        };
        Self {
            totals: meters.iter().map(|own| own.iter().map(|meter| meter.requests_total()).sum()).collect(),
            answered: meters.iter().map(answers).collect(),
            live: app.pools(serving, now),
            serving,
            meters,
            recent,
            now,
        }
    }

    /// Cost of all pools together.
    pub(super) fn cost(&self) -> Option<CostState> {
        cost(self.live.iter().map(|pool| pool.spending).sum())
    }

    /// State of the pool at index `at`.
    pub(super) fn state(&self, at: usize, pool: &Pool, slo: Vec<SloLive>) -> PoolState {
        let Self { now, ref meters, ref live, .. } = *self;
        let (meters, live) = (&meters[at], &live[at]);
        let over_all = |window: fn(&Latencies) -> &Window| {
            merged(meters.iter().map(|meter| window(meter.latencies())), Span::Minute, now).map(quantiles)
        };
        let total = self.totals[at];
        let backends = pool.backends.iter().zip(meters);
        let hidden = pool.backends.iter().filter_map(|it| hidden_queue(self.serving, &it.engine, now));
        PoolState {
            name: pool.spec.name.clone(),
            diagnosis: Some(live.health.diagnose()),
            saturation: Some(live.health.saturation()),
            signs: live.health.signs(),
            hidden_queue_ms: hidden.reduce(f64::max).map(|seconds| seconds * 1e3),
            slo,
            balance: pool.spec.balance.name().into(),
            speaks: Endpoint::ALL.into_iter().filter(|it| pool.speaks(*it)).map(|it| it.name().into()).collect(),
            share: share(total, &self.totals),
            recent_share: share(self.answered[at], &self.answered),
            queue: QueueState { depth: live.queue_depth, held: live.health.queue_held, oldest_s: live.queue_oldest },
            ttft: over_all(|latencies| &latencies.ttft),
            tpot: over_all(|latencies| &latencies.tpot),
            foreseen: foreseen(self.recent, live),
            cost: cost(live.spending),
            backends: backends.map(|(backend, meter)| self.backend(backend, meter, total)).collect(),
            leaving: Vec::new(),
        }
    }

    fn backend(&self, backend: &Backend, meter: &BackendMetrics, total: u64) -> BackendState {
        let origin = self.serving.snapshot.policy.origin_of(backend.name()).label();
        BackendState { origin, ..backend_state(backend, meter, total, self.now) }
    }
}

fn share(part: u64, all: &[u64]) -> Option<f64> {
    let all: u64 = all.iter().sum();
    (all > 0).then(|| part as f64 / all as f64)
}

fn cost(of: Spending) -> Option<CostState> {
    Some(CostState { usd_per_hour: of.per_hour()?, usd_per_million_output: of.per_million_output() })
}

fn foreseen(recent: &[Arc<JournalEntry>], pool: &telemetry::PoolLive) -> Option<Foreseen> {
    let own = recent.iter().filter_map(|line| line.last()).filter(|attempt| attempt.pool == pool.pool);
    let (predicted, seen): (Vec<_>, Vec<_>) =
        own.filter_map(|attempt| Some((attempt.predicted.ttft_ms, attempt.ttft_ms?))).unzip();
    Some(Foreseen {
        predicted_s: median(predicted)? / 1e3,
        seen_s: median(seen)? / 1e3,
        error: pool.ttft.map(|of| of.relative_error),
        coverage: pool.ttft.map(|of| of.coverage),
    })
}

/// The median (the upper one of an even number); `None` for an empty list.
fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len() / 2;
    (middle < values.len()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

fn backend_state(backend: &Backend, meter: &BackendMetrics, total: u64, now: Moment) -> BackendState {
    let [ttft, tpot, e2e] = meter.latencies().summaries(Span::Minute, now).map(|summary| summary.map(quantiles));
    let engine = &backend.engine;
    let requests = meter.requests_total();
    BackendState {
        name: backend.name().clone(),
        origin: String::new(),
        engine: engine.name.clone(),
        model: backend.spec.model.clone(),
        endpoints: engine.apis.served().map(|served| served.into_iter().map(|api| api.name().into()).collect()),
        missing: missing(backend, now),
        breaker: backend.worst_own_breaker(now).max(engine.breaker.state(now)).label().into(),
        state: match backend.is_up(now) {
            None => "unknown".into(),
            Some(true) => "up".into(),
            Some(false) => "down".into(),
        },
        credential: backend.credential.refused().map(|refused| CredentialState {
            account: backend.account.as_ref().map(|account| account.name.clone()),
            refused: refused.keys,
            of: refused.of,
            status: refused.status,
            for_s: now.seconds_since(refused.since),
        }),
        in_flight: backend.load.in_flight(),
        queued_tokens: backend.load.queued_tokens(),
        decoding: backend.load.decoding(),
        weight: backend.spec.weight,
        prefix_hits: meter.prefix_hit_ratio(),
        restarts: engine.restarts(),
        share: (total > 0).then(|| requests as f64 / total as f64),
        signals: engine.reading().map(|reading| SignalState {
            kind: reading.signals.kind.name().into(),
            running: reading.signals.running,
            waiting: reading.signals.waiting,
            kv_usage: reading.signals.kv_usage,
            prefix_hits: reading.prefix_hit_ratio,
            preemptions: reading.signals.preemptions,
            queued_tokens: reading.signals.queued_tokens,
            drafting: engine.drafting(now).map(|it| DraftingState {
                accept_ratio: it.ratio,
                accept_length: it.length,
                is_poor: it.is_poor(),
            }),
            age_s: now.seconds_since(reading.at),
        }),
        gpus: engine.gpus(now).map(|(gpus, at)| GpuState {
            count: gpus.count,
            utilisation: gpus.utilisation,
            memory: gpus.memory,
            age_s: now.seconds_since(at),
        }),
        round_trip_ms: engine.round_trip.get(now).map(|seconds| seconds * 1e3),
        ttft,
        tpot,
        e2e,
        requests,
        errors: meter.errors_total(),
        tokens_per_s: meter.tokens_per_second(now),
    }
}

pub(super) fn quantiles(summary: Summary) -> Quantiles {
    let Summary { p50, p90, p95, p99, count, .. } = summary;
    Quantiles { p50, p90, p95, p99, count }
}
