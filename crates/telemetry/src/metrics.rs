//! Handles for counting, shared by all parts of the gateway.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

use super::{
    backend::PrefixHits,
    backend::{BackendMetrics, Latencies, count},
    background::{PairResult, Purpose},
    cache::CacheMetrics,
    caller::{CallerMetrics, CallerTimes, Source},
    cascade::CascadeMetrics,
    encode,
    journal::JournalCounters,
    key::{KeyMetrics, NO_KEY},
    live::Live,
    pool::PoolMetrics,
    shared::Shared,
    stores::{Store, StoreWrites},
};
use signalbox_types::{Blame, Endpoint, Fault, Moment, Name, Outcome};

/// Largest pool whose backends have series of times of their own.
const MOST_TIMED: usize = 64;

/// Stands for a label value when there are too many, or for an unknown one.
const OTHER: &str = "other";

/// Stage of a request whose client left.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Waiting for a backend.
    #[default]
    Queued,
    /// Waiting for the first token.
    Prefill,
    /// Receiving the answer.
    Answer,
}

impl Stage {
    /// Label for metrics and the journal.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Prefill => "prefill",
            Self::Answer => "answer",
        }
    }
}

/// All metrics of the process. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(super) shared: Arc<Shared>,
}

impl Metrics {
    /// Creates empty metrics.
    pub fn new() -> Self {
        Self { shared: Arc::new(Shared::new()) }
    }

    /// Metrics of `model` at a backend: keep the handle. All three names must come from the policy (or be a fixed
    /// string where it leaves the model to the client), since client-supplied text would create unlimited series.
    pub fn backend(&self, pool: &Name, backend: &Name, model: &Name) -> Arc<BackendMetrics> {
        self.backend_of(1, pool, backend, model)
    }

    /// The same in a pool of `size` backends: those of a large pool share one series of times, labelled `all`.
    pub fn backend_of(&self, size: usize, pool: &Name, backend: &Name, model: &Name) -> Arc<BackendMetrics> {
        let shared = &self.shared;
        let key = (pool.clone(), backend.clone(), model.clone());
        shared.backends.get(
            key,
            |(pool, backend, _)| (pool, backend, OTHER.into()),
            |(pool, backend, model)| {
                let timings = (size > MOST_TIMED).then(|| shared.pool_timings(pool, model));
                Arc::new(BackendMetrics::new(shared.latencies(pool, backend), timings))
            },
        )
    }

    /// Metrics of a pool, by its name in the policy: keep the handle.
    pub fn pool(&self, name: &Name) -> Arc<PoolMetrics> {
        self.shared.pools.get(name.clone(), |_| OTHER.into(), |_| Arc::new(PoolMetrics::new()))
    }

    /// Metrics of the named pool, if the policy has it.
    pub fn known_pool(&self, name: &str) -> Option<Arc<PoolMetrics>> {
        self.shared.pools.read().get(name).cloned()
    }

    /// Metrics of a caller, by its key's id in the policy: keep the handle.
    pub fn key(&self, id: &Name) -> Arc<KeyMetrics> {
        self.shared.keys.get(id.clone(), |_| OTHER.into(), |_| Arc::new(KeyMetrics::new()))
    }

    /// Metrics of callers without a key.
    pub fn keyless(&self) -> &Arc<KeyMetrics> {
        &self.shared.keyless
    }

    /// Metrics of all callers, by the id of their key.
    pub fn keys(&self) -> Vec<(Name, Arc<KeyMetrics>)> {
        let mut all = self.shared.keys.list();
        // A key may have that id, and two series of one name are invalid.
        if self.shared.keyless.is_used() && all.iter().all(|(id, _)| **id != *NO_KEY) {
            all.push((NO_KEY.into(), self.shared.keyless.clone()));
        }
        all
    }

    /// Drops the keys that a new policy no longer has.
    pub fn retain_keys(&self, mut key: impl FnMut(&str) -> bool) {
        self.shared.keys.retain(|id| **id == *OTHER || key(id));
    }

    /// Metrics of a route's cascade, by the route's name in the policy.
    pub fn cascade(&self, route: &Name) -> Arc<CascadeMetrics> {
        self.shared.cascades.get(route.clone(), |_| OTHER.into(), |_| Arc::new(CascadeMetrics::new()))
    }

    /// Times of the callers of a route whose answers have this source. `route` must be a name from the policy.
    pub fn caller(&self, route: Option<&Name>, source: Source) -> Arc<CallerMetrics> {
        let key = (route.cloned().unwrap_or_else(|| OTHER.into()), source);
        self.shared.callers.get(key, |(_, source)| (OTHER.into(), source), |_| Arc::new(CallerMetrics::new()))
    }

    /// Times of all callers, by route and source.
    pub fn callers(&self) -> Vec<CallerTimes> {
        let all = self.shared.callers.list().into_iter();
        all.map(|((route, source), times)| (route, source, times)).collect()
    }

    /// Metrics of the cache.
    pub fn cache(&self) -> &CacheMetrics {
        &self.shared.cache
    }

    /// Counts an operation on the server for shared limits and its result.
    pub fn limits_shared(&self, what: &'static str, result: &'static str) {
        let other = |(what, _)| (what, OTHER);
        self.shared.joint.get((what, result), other, |_| Counter::default()).inc();
    }

    /// Counts prompts sent to and received from other gateways.
    pub fn placement_shared(&self, what: &'static str, result: &'static str, count: u64) {
        if count > 0 {
            let other = |(what, _)| (what, OTHER);
            self.shared.placement.get((what, result), other, |_| Counter::default()).inc_by(count);
        }
    }

    /// Predicted and reported cached prompt tokens over all backends.
    pub fn prefix_hits(&self) -> PrefixHits {
        self.shared.prefix_hits()
    }

    /// Drops the pools that a new policy no longer has.
    pub fn retain_pools(&self, mut pool: impl FnMut(&str) -> bool) {
        self.shared.pools.retain(|name| pool(name));
    }

    /// Recent latencies of a backend, if it has any metrics.
    pub fn latencies(&self, pool: &str, backend: &str) -> Option<Arc<Latencies>> {
        let known = self.shared.latencies.read();
        known.iter().find(|((p, b), _)| **p == *pool && **b == *backend).map(|(_, latencies)| Arc::clone(latencies))
    }

    /// Drops the backends and routes that a new policy no longer has. Calls `backend` with (pool, backend, model) and
    /// `route` with the route's name. Remaining handles still count, but are not exported.
    pub fn retain(&self, mut backend: impl FnMut(&str, &str, &str) -> bool, mut route: impl FnMut(&str) -> bool) {
        let shared = &self.shared;
        shared.backends.retain(|(p, b, m)| backend(p, b, m));
        // Locked, so that a backend created at this moment does not lose its latencies.
        let kept = shared.backends.read();
        let names: HashSet<_> = kept.keys().map(|(pool, name, _)| (pool, name)).collect();
        shared.latencies.retain(|(pool, name)| names.contains(&(pool, name)));
        let models: HashSet<_> = kept.keys().map(|(pool, _, model)| (pool, model)).collect();
        shared.pool_timings.retain(|(pool, model)| models.contains(&(pool, model)));
        drop((names, models));
        drop(kept);
        shared.requests.retain(|(_, name, _, _)| **name == *OTHER || route(name));
        shared.callers.retain(|(name, _)| **name == *OTHER || route(name));
        shared.cascades.retain(|name| **name == *OTHER || route(name));
        shared.cache.lookups.retain(|(.., name)| **name == *OTHER || route(name));
        shared.cache.coalesced.retain(|name| **name == *OTHER || route(name));
    }

    /// Counts a request as under way until the guard is dropped.
    pub fn start_request(&self) -> InFlight {
        self.shared.in_flight.inc();
        InFlight(self.shared.in_flight.clone())
    }

    /// Requests under way.
    pub fn in_flight(&self) -> u64 {
        u64::try_from(self.shared.in_flight.get()).unwrap_or(0)
    }

    /// Counts a request that ended. `None` stands for an unknown endpoint or route; `route` must be a name from the
    /// policy.
    pub fn request(
        &self,
        endpoint: Option<Endpoint>,
        route: Option<&Name>,
        status: http::StatusCode,
        outcome: Outcome,
    ) {
        let endpoint = endpoint.map_or(OTHER, Endpoint::name);
        let route = route.cloned().unwrap_or_else(|| OTHER.into());
        let key = (endpoint, route, status.as_u16(), outcome.label());
        let other = |(endpoint, _, status, outcome)| (endpoint, OTHER.into(), status / 100 * 100, outcome);
        self.shared.requests.get(key, other, |_| Counter::default()).inc();
    }

    /// Counts a background request that ended.
    pub fn background(&self, purpose: Purpose, outcome: Outcome, tokens: u64, usd: f64) {
        self.shared.background.request(purpose, outcome.label(), tokens, usd);
    }

    /// Counts the result of comparing two tiers' answers.
    pub fn pair(&self, result: PairResult) {
        self.shared.background.pair(result);
    }

    /// Requests that ended so far.
    pub fn requests_total(&self) -> u64 {
        self.shared.requests.list().iter().map(|(_, counter)| counter.get()).sum()
    }

    /// Requests that failed so far without being answered by a status of the 4xx class.
    pub fn failed_total(&self) -> u64 {
        let fine = [Outcome::Complete, Outcome::ClientGone].map(Outcome::label);
        let requests = self.shared.requests.read();
        let failed = requests.iter().filter(|((.., status, outcome), _)| !fine.contains(outcome) && status / 100 != 4);
        failed.map(|(_, counter)| counter.get()).sum()
    }

    /// Counts a fault that ended a request.
    pub fn fault(&self, fault: &Fault) {
        let blame = match fault.blame {
            Blame::Client => "client",
            Blame::Upstream => "upstream",
            Blame::Gateway => "gateway",
        };
        self.shared.faults.get((fault.kind, blame), |(_, blame)| (OTHER, blame), |_| Counter::default()).inc();
    }

    /// Counts a client that left before its answer was complete.
    pub fn client_gone(&self, stage: Stage) {
        count(&self.shared.client_gone, stage.label());
    }

    /// Sets the hash of the policy in force.
    pub fn set_config(&self, hash: &str) {
        *self.shared.config.write() = Some(hash.into());
    }

    /// Counts an attempt to load a changed policy.
    pub fn config_reload(&self, ok: bool) {
        if ok { &self.shared.reloaded } else { &self.shared.reload_failed }.inc();
        self.shared.is_reloaded.store(ok, Relaxed);
    }

    /// Outcome of the writes to `store`.
    pub fn store(&self, store: Store) -> StoreWrites {
        self.shared.stores.of(store).clone()
    }

    /// Counts a notification: `sent`, `failed` or `dropped`.
    pub fn notification(&self, result: &'static str) {
        self.shared.notifications.get(result, |key| key, |_| Counter::default()).inc();
    }

    /// Counters for [`Journal::open`](super::Journal::open).
    pub fn journal(&self) -> JournalCounters {
        self.shared.journal.clone()
    }

    /// Counters for [`Journal::access`](super::Journal::access).
    pub fn access_log(&self) -> JournalCounters {
        self.shared.access_log.clone()
    }

    /// Counters of the audit log, for [`Journal::open`](super::Journal::open).
    pub fn audit(&self) -> JournalCounters {
        self.shared.audit.clone()
    }

    /// Encodes all metrics as OpenMetrics text, for [`MetricsFormat`](super::MetricsFormat).
    pub fn encode(&self, now: Moment, live: &Live) -> String {
        encode::text(Arc::clone(&self.shared), now, live.clone())
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Guard of a request under way.
#[derive(Debug)]
pub struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{super::shared::MOST_BACKENDS, *};
    use crate::{
        AccountLive, AccuracyLive, BackendLive, BudgetLive, CacheLive, CacheLogLive, EngineLive, FalseHitsLive, Lookup,
        LookupStage, OutputLive, PoolHealth, PoolLive, SchedulerLive, Shed, SloLive, SourceLive, Spending, TieredLive,
        Use,
    };
    use signalbox_measure::{BudgetStanding, BudgetState};
    use signalbox_types::{Drafting, Usage};

    fn name(text: &str) -> Name {
        text.into()
    }

    fn at(seconds: u64) -> Moment {
        Moment::default().plus(Duration::from_secs(seconds))
    }

    fn observed() -> Metrics {
        let metrics = Metrics::new();
        metrics.set_config("3f2a9c51b07e");
        metrics.config_reload(true);
        metrics.store(Store::Usage).failed(&"full");
        metrics.journal().writes().wrote();
        metrics.notification("sent");
        metrics.request(Some(Endpoint::Chat), Some(&name("chat")), http::StatusCode::OK, Outcome::Complete);
        metrics.request(None, None, http::StatusCode::NOT_FOUND, Outcome::Failed("not_found"));
        metrics.fault(&Fault::client(http::StatusCode::NOT_FOUND, "not_found", "no such path"));
        metrics.client_gone(Stage::Prefill);
        let backend = metrics.backend(&name("large"), &name("gpu-1"), &name("llama \"70b\""));
        backend.request(Outcome::Complete);
        backend.attempt(Outcome::Failed("connect"));
        backend.attempt(Outcome::Complete);
        backend.fresh_connection_retry();
        backend.bad_event();
        for (ttft, tpot) in [(0.12, 0.021), (0.18, 0.024), (2.5, 0.06)] {
            backend.ttft(ttft, None, at(100));
            backend.upstream_ttft(ttft - 0.01, at(100));
            backend.tpot(tpot, at(100));
            backend.gap(tpot);
            backend.e2e(ttft + 100.0 * tpot, None, at(100));
            backend.overhead(0.000_4);
            backend.settle(0.000_02);
        }
        backend.usage(
            &Usage {
                prompt_tokens: 1200,
                cached_tokens: Some(1024),
                completion_tokens: 100,
                reasoning_tokens: None,
                ..Usage::default()
            },
            at(0),
        );
        backend.prefix(1200, 1100, 1024);
        let pool = metrics.pool(&name("large"));
        pool.waited(0.75, at(100));
        pool.shed(Shed::Timeout);
        pool.spilled();
        pool.further("hedge");
        pool.count_resume("continued");
        pool.decision(0.000_007);
        pool.gpu_cost(1.5);
        pool.gpu_cost(f64::NAN);
        let cascade = metrics.cascade(&name("chat"));
        cascade.result("kept");
        cascade.result("escalated");
        cascade.discarded(&Usage { prompt_tokens: 40, completion_tokens: 8, ..Usage::default() }, Some(0.0001));
        backend.cost(0.0025, at(100));
        backend.cost(f64::NAN, at(100));
        metrics.background(Purpose::Pair, Outcome::Complete, 120, 0.000_2);
        metrics.pair(PairResult::Agreed);
        let cache = metrics.cache();
        cache.embedded("built-in", "done");
        cache.guarded("numbers");
        cache.labelled(true, false, "feedback");
        for (result, reason) in [("hit", ""), ("miss", "absent"), ("coalesced", "absent"), ("bypass", "temperature")] {
            cache.lookup(Lookup { tier: "exact", result, reason }, &name("chat"));
        }
        cache.took(LookupStage::Key, 0.000_02);
        cache.took(LookupStage::Exact, 0.000_002);
        cache.stored("kept");
        cache.shared("get", "hit");
        cache.coalesced(&name("chat"));
        let usage = Usage { prompt_tokens: 50, completion_tokens: 9, ..Usage::default() };
        cache.save("exact", &name("large"), Some(&usage), Some(0.0002), 1.5);
        cache.save("semantic", &name("large"), Some(&usage), None, 0.5);
        cache.price_saved("large", 0.000_001);
        cache.price_saved("large", 1.0);
        let caller = metrics.caller(Some(&name("chat")), Source::Exact);
        caller.first_token(0.002, at(100));
        caller.whole(0.003, at(100));
        metrics.limits_shared("enter", "ok");
        metrics.placement_shared("receive", "ok", 3);
        pool.work(1200, 100, Use::Good, at(100));
        pool.work(300, 20, Use::Wasted, at(100));
        let web = metrics.key(&name("web"));
        web.request(Outcome::Complete);
        web.usage(&Usage {
            prompt_tokens: 1200,
            cached_tokens: Some(1024),
            completion_tokens: 100,
            ..Usage::default()
        });
        web.cost(0.0025);
        web.prefix(1200, 1300, 1024);
        web.prefix_change("system");
        metrics.keyless().request(Outcome::Failed("unauthorized"));
        metrics
    }

    fn slo(objective: &str) -> SloLive {
        let burn = std::iter::zip(signalbox_measure::BurnRules::default().published(), [4.0, 2.0, 1.0, 0.2]);
        let burn = std::array::from_fn(|at| burn.clone().nth(at).expect("four windows"));
        let standing = BudgetStanding { good: 990, total: 1000, burn, budget_left: 0.8, state: BudgetState::Burning };
        SloLive::new(name(objective), 0.95, standing)
    }

    /// An engine that reports every gauge.
    fn full() -> EngineLive {
        EngineLive {
            engine: name("gpu-1"),
            up: Some(true),
            scrape_age: Some(0.5),
            running: Some(2.0),
            waiting: Some(0.0),
            kv_usage: Some(0.25),
            prefix_hits: Some(0.8),
            hidden_queue: Some(0.12),
            preemptions: Some(7.0),
            queued_tokens: Some(1500.0),
            drafting: Some(Drafting { ratio: 0.4, length: Some(1.2) }),
            gpu_utilisation: Some(0.9),
            gpu_memory: Some(0.75),
            round_trip: Some(0.0004),
            restarts: 1,
            breaker: "half_open",
            breaker_opened: 3,
        }
    }

    fn key_budgets() -> Vec<BudgetLive> {
        [("web", Some(2.0), None), ("nightly", None, Some(500))]
            .map(|(key, budget_usd, budget_tokens)| BudgetLive {
                owner: name(key),
                per: "day",
                spent_usd: 0.5,
                spent_tokens: 300,
                budget_usd,
                budget_tokens,
            })
            .to_vec()
    }

    fn account() -> AccountLive {
        let remaining = vec![("requests", 4990)];
        AccountLive { account: name("openai"), ready: 1, left_out: 1, ejected: 3, remaining }
    }

    #[expect(clippy::too_many_lines, reason = "a sample of every measurement")]
    fn live(metrics: &Metrics) -> Live {
        let backend = BackendLive {
            pool: name("large"),
            backend: name("gpu-1"),
            in_flight: 3,
            queued_prompt_tokens: 900,
            decoding: 2,
            context_tokens: 2400,
            breaker: "half_open",
        };
        let silent = EngineLive { engine: name("gpu-2"), up: Some(false), ..EngineLive::default() };
        let accuracy = AccuracyLive { coverage: 0.9, relative_error: 0.1, pinball: 0.02, baseline_pinball: 0.05 };
        let pool = PoolLive {
            pool: name("large"),
            queue_depth: 2,
            queue_oldest: 1.5,
            health: PoolHealth {
                latencies: Some((0.5, 2.0)),
                queue_depth: 2,
                queue_oldest: 1.5,
                ..PoolHealth::default()
            },
            spending: Spending { usd_per_s: 0.002, gpu_usd_per_s: 0.001, output_per_s: 400.0, is_known: true },
            ttft: Some(accuracy),
            tpot: Some(accuracy),
            output: Some(OutputLive { coverage: 0.92, relative_error: 0.4 }),
        };
        let scheduler = SchedulerLive { prefix_bytes: 4096, prefix_blocks: 60, sessions: 3 };
        Live {
            backends: vec![backend.clone(), backend],
            engines: vec![full(), silent],
            sources: vec![SourceLive {
                source: "dns engines.test".into(),
                endpoints: 2,
                answered: Some(1.7e9),
                errors: 1,
            }],
            leaving: vec![("small".into(), "draining")],
            pools: vec![pool],
            tiered: vec![TieredLive {
                route: "r".into(),
                requests: vec![[3, 3, 2], [1, 1, 2]],
                shares: vec![[0.75, 0.75, 0.5], [0.25, 0.25, 0.5]],
                bars: vec![0.7],
                quality: 0.8,
                flips: 1,
            }],
            boundaries: vec![("r".into(), 8192.0)],
            pool_slos: vec![(name("large"), vec![slo("ttft_p95")]), (name("small"), vec![])],
            route_slos: vec![(name("chat"), vec![slo("availability")])],
            scheduler: Some(scheduler),
            caches: vec![CacheLive {
                tier: "exact",
                entries: 2,
                bytes: 5000,
                evictions: vec![("space", 1), ("purged", 0)],
            }],
            responses: Some(CacheLive {
                tier: "responses",
                entries: 4,
                bytes: 7000,
                evictions: vec![("space", 0), ("expired", 2), ("deleted", 1)],
            }),
            log: Some(CacheLogLive {
                up: true,
                records: 3,
                bytes: 9000,
                lost: [("queue", 1), ("doubtful", 0), ("space", 2), ("unreadable", 0)],
                damaged: 40,
                compactions: 1,
                loaded: [("exact", 2), ("semantic", 1)],
                load_seconds: 0.25,
            }),
            shared: Some(true),
            shared_limits: Some(true),
            shared_placement: Some(true),
            spans_dropped: vec![("queue", 0), ("rejected", 3), ("unreachable", 0)],
            limited: vec![(name("web"), "tokens", 2)],
            keys: metrics.keys(),
            accounts: vec![account()],
            teams: vec![
                BudgetLive {
                    owner: name("search"),
                    per: "month",
                    spent_usd: 1.25,
                    spent_tokens: 900,
                    budget_usd: Some(500.0),
                    budget_tokens: None,
                },
                BudgetLive {
                    owner: name("tools"),
                    per: "day",
                    spent_usd: 0.0,
                    spent_tokens: 70,
                    budget_usd: None,
                    budget_tokens: Some(1000),
                },
            ],
            key_budgets: key_budgets(),
            key_expiries: vec![(name("web"), 1_800_000_000)],
            false_hits: Some(FalseHitsLive { rate: 0.01, lower: 0.002, upper: 0.03, labels: 120.0, shadow_scopes: 1 }),
            labels: Arc::default(),
        }
    }

    #[test]
    fn the_text_lists_all_observations() {
        let metrics = observed();
        let _request = metrics.start_request();
        let text = metrics.encode(at(110), &live(&metrics)).replace(env!("CARGO_PKG_VERSION"), "[version]");
        insta::with_settings!({ snapshot_path => "../../../tests/snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!("metrics", text);
        });
    }

    #[test]
    fn a_fresh_gateway_exports_few_series() {
        let text = Metrics::new().encode(at(0), &Live::default());
        insta::with_settings!({ snapshot_path => "../../../tests/snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!("metrics_fresh", text.replace(env!("CARGO_PKG_VERSION"), "[version]"));
        });
    }

    #[test]
    fn every_metric_of_the_table_can_appear() {
        let metrics = observed();
        let text = metrics.encode(at(110), &live(&metrics));
        for def in crate::ALL {
            let sample = |line: &str| line.starts_with(def.name);
            assert!(text.lines().any(sample), "{} is never written", def.name);
        }
    }

    #[test]
    fn a_pool_without_requests_has_what_alerts_and_autoscalers_need() {
        let metrics = observed();
        metrics.pool(&name("small"));
        metrics.backend(&name("small"), &name("gpu-9"), &name("m"));
        let mut live = live(&metrics);
        live.pools.push(PoolLive { pool: name("small"), ..live.pools[0].clone() });
        live.backends.push(BackendLive { pool: name("small"), backend: name("gpu-9"), ..live.backends[0].clone() });
        live.pool_slos.clear();
        let text = metrics.encode(at(110), &live);
        let of_pool: Vec<_> = text.lines().filter(|line| line.contains("pool=\"small\"")).collect();
        let has = |start: &str| of_pool.iter().any(|line| line.starts_with(start));
        for needed in ["signalbox_queue_depth{", "signalbox_queue_oldest_seconds{", "signalbox_pool_saturation_ratio{"]
        {
            assert!(has(needed), "{needed}: {of_pool:#?}");
        }
        assert!(
            has("signalbox_pool_state{") && has("signalbox_backend_in_flight{") && has("signalbox_backend_breaker{")
        );
        assert!(!of_pool.iter().any(|line| line.contains("_bucket") || line.contains("_total")), "{of_pool:#?}");
    }

    #[test]
    fn quantiles_disappear_after_their_window() {
        let metrics = observed();
        let quantiles = |now| metrics.encode(at(now), &Live::default()).matches("quantile_seconds{").count();
        assert_eq!(quantiles(110), 36);
        assert_eq!(quantiles(200), 24);
        assert_eq!(quantiles(500), 12);
        assert_eq!(quantiles(4000), 0);
    }

    #[test]
    fn removed_backends_and_routes_leave_no_series() {
        let metrics = observed();
        let handle = metrics.backend(&name("small"), &name("gpu-9"), &name("m"));
        handle.ttft(0.1, None, at(110));
        metrics.retain(|pool, _, _| pool == "small", |_| false);
        handle.attempt(Outcome::Complete);
        let text = metrics.encode(at(110), &Live::default());
        assert!(!text.contains("gpu-1") && !text.contains("route=\"chat\""), "{text}");
        assert!(text.contains(
            "signalbox_backend_attempts_total{pool=\"small\",backend=\"gpu-9\",model=\"m\",outcome=\"ok\"} 1"
        ));
        assert!(metrics.latencies("small", "gpu-9").is_some() && metrics.latencies("large", "gpu-1").is_none());
    }

    #[test]
    fn clients_cannot_create_unlimited_series() {
        let metrics = Metrics::new();
        for number in 0..MOST_BACKENDS + 10 {
            metrics.backend(&name("p"), &name("b"), &name(&number.to_string())).request(Outcome::Complete);
        }
        assert_eq!(metrics.shared.backends.list().len(), MOST_BACKENDS + 1);
        let other = metrics.backend(&name("p"), &name("b"), &name(OTHER));
        assert_eq!(other.requests.list().len(), 1);
    }

    #[test]
    fn backends_of_a_large_pool_share_their_times() {
        let metrics = Metrics::new();
        for number in 0..100 {
            let backend = metrics.backend_of(100, &name("p"), &name(&format!("b{number}")), &name("m"));
            backend.e2e(1.0, None, Moment::default());
            backend.request(Outcome::Complete);
        }
        let text = metrics.encode(Moment::default(), &Live::default());
        assert_eq!(text.matches("signalbox_e2e_seconds_count{").count(), 1);
        let all = |line: &&str| line.starts_with("signalbox_e2e_seconds_count{") && line.contains("backend=\"all\"");
        assert!(text.lines().find(all).unwrap().ends_with(" 100"));
        assert_eq!(text.matches("signalbox_backend_requests_total{").count(), 100);
        metrics.retain(|pool, _, _| pool != "p", |_| true);
        assert!(!metrics.encode(Moment::default(), &Live::default()).contains("e2e_seconds_count"));
    }

    #[test]
    fn requests_under_way_are_counted_by_their_guards() {
        let metrics = Metrics::new();
        let guards = [metrics.start_request(), metrics.start_request()];
        assert_eq!(metrics.in_flight(), 2);
        drop(guards);
        assert_eq!(metrics.in_flight(), 0);
    }
}
