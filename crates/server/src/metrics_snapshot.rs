//! Gauges for `/metrics`, gathered from the state of the process at the time of the scrape.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{SystemTime, UNIX_EPOCH},
};

use super::{
    app::App,
    costs::spending,
    discovery::{Discovery, SourceStanding},
    pool_health::{hidden_queue, pool_health},
};
use signalbox_accounting::{BudgetReport, KeyReport, TeamReport};
use signalbox_answers::WarmStartCounts;
use signalbox_cache::responses::Evicted;
use signalbox_fleet::{BreakerState, Pool, Snapshot};
use signalbox_gateway::Serving;
use signalbox_policy::Policy;
use signalbox_schedule::{predict::Accuracy, tiers::Standing};
use signalbox_store as store;
use signalbox_telemetry as telemetry;
use signalbox_types::{Moment, Name};

impl App {
    /// Text of `/metrics` on the admin listener.
    pub(super) fn metrics(&self, discovery: &Discovery) -> String {
        self.accrue();
        let now = self.parts.clock.now();
        let mut snapshot = self.snapshot();
        snapshot.sources = sources(discovery);
        let leaving = discovery.leaving(&self.live.load().snapshot).into_iter();
        let is_gone = |state: &str| state == "removed";
        snapshot.leaving = leaving.filter(|it| !is_gone(it.state)).map(|it| (it.pool, it.state)).collect();
        self.parts.metrics.encode(now, &snapshot)
    }

    /// Text of `/metrics` on the API listener: without sources of backends, whose names are addresses, and without figures of keys, teams and accounts if callers need keys.
    pub(super) fn public_metrics(&self) -> String {
        let mut snapshot = self.snapshot();
        let serving = self.live.load();
        snapshot.labels = serving.snapshot.policy.labels.all();
        if serving.snapshot.policy.asks_keys() {
            snapshot.limited.clear();
            snapshot.keys.clear();
            snapshot.teams.clear();
            snapshot.key_budgets.clear();
            snapshot.key_expiries.clear();
            snapshot.accounts.clear();
        }
        self.parts.metrics.encode(self.parts.clock.now(), &snapshot)
    }

    fn snapshot(&self) -> telemetry::Live {
        let now = self.parts.clock.now();
        let serving = self.live.load();
        let backends = serving.snapshot.pools.iter().flat_map(|pool| {
            pool.backends.iter().map(|backend| telemetry::BackendLive {
                pool: pool.spec.name.clone(),
                backend: backend.name().clone(),
                in_flight: backend.load.in_flight().into(),
                queued_prompt_tokens: backend.load.queued_tokens(),
                decoding: backend.load.decoding().into(),
                context_tokens: backend.load.context_tokens(),
                breaker: backend.worst_own_breaker(now).label(),
            })
        });
        let breakers = breakers(&serving.snapshot, now);
        let engines = self.engines().into_iter().map(|engine| {
            let own = (engine.breaker.state(now), engine.breaker.opened());
            let (breaker, breaker_opened) = breakers.get(&*engine.name).copied().unwrap_or(own);
            let reading = engine.reading();
            let signals = reading.as_ref().map(|reading| &reading.signals);
            let gpus = engine.gpus(now).map(|(gpus, _)| gpus);
            telemetry::EngineLive {
                engine: engine.name.clone(),
                up: engine.is_up(now),
                scrape_age: reading.as_ref().map(|reading| now.seconds_since(reading.at)),
                running: signals.and_then(|signals| signals.running),
                waiting: signals.and_then(|signals| signals.waiting),
                kv_usage: signals.and_then(|signals| signals.kv_usage),
                prefix_hits: reading.as_ref().and_then(|reading| reading.prefix_hit_ratio),
                hidden_queue: hidden_queue(&serving, &engine, now),
                preemptions: signals.and_then(|signals| signals.preemptions),
                queued_tokens: signals.and_then(|signals| signals.queued_tokens),
                drafting: engine.drafting(now),
                gpu_utilisation: gpus.and_then(|gpus| gpus.utilisation),
                gpu_memory: gpus.and_then(|gpus| gpus.memory),
                round_trip: engine.round_trip.get(now),
                restarts: engine.restarts().into(),
                breaker: breaker.label(),
                breaker_opened,
            }
        });
        let policy = &serving.snapshot.policy;
        let keys = self.parts.accounting.callers.keys(policy, now);
        let key_expiries = policy.keys.iter().filter_map(|key| Some((key.id.clone(), key.expires?))).collect();
        telemetry::Live {
            backends: backends.collect(),
            engines: engines.collect(),
            sources: Vec::new(),
            leaving: Vec::new(),
            pools: self.pools(&serving, now),
            tiered: self
                .parts
                .learning
                .standings(now)
                .into_iter()
                .map(|(route, standing)| tiered(route, &standing))
                .collect(),
            boundaries: self.parts.learning.learned_boundaries(),
            pool_slos: self.parts.accounting.error_budgets.pools(now),
            route_slos: self.parts.accounting.error_budgets.routes(now),
            scheduler: Some(self.scheduler()),
            caches: self.caches(&serving.snapshot.policy),
            responses: self.stored_responses(),
            log: self.log(&serving.snapshot.policy),
            shared: self.parts.answers.peers.is_up(),
            shared_placement: self.parts.placement_group.is_up(),
            shared_limits: self.parts.accounting.callers.shared_limits_up(),
            spans_dropped: policy.otel.iter().flat_map(|_| self.parts.export.dropped()).collect(),
            accounts: accounts(&serving.snapshot.pools, now),
            limited: self.limited(&serving.snapshot.policy, now),
            keys: self.parts.metrics.keys(),
            teams: self.parts.accounting.callers.teams().into_iter().map(team).collect(),
            key_budgets: keys.into_iter().filter_map(key_budget).collect(),
            key_expiries,
            false_hits: self.false_hits(&serving.snapshot.policy, now),
            labels: std::sync::Arc::default(),
        }
    }

    fn scheduler(&self) -> telemetry::SchedulerLive {
        let prefixes = self.registry.prefixes();
        telemetry::SchedulerLive {
            prefix_bytes: prefixes.bytes() as u64,
            prefix_blocks: prefixes.len() as u64,
            sessions: self.registry.sessions().len() as u64,
        }
    }

    pub(super) fn caches(&self, policy: &Policy) -> Vec<telemetry::CacheLive> {
        let keeps = policy.caching.as_ref().is_some_and(|caching| caching.exact.is_some());
        let (entries, bytes) = self.parts.answers.local.cache.size();
        let exact = telemetry::CacheLive {
            tier: "exact",
            entries: entries as u64,
            bytes: bytes as u64,
            evictions: self.parts.answers.local.cache.evictions().collect(),
        };
        let means = policy.caching.as_ref().is_some_and(|caching| caching.semantic.is_some());
        let (entries, bytes) = self.parts.answers.local.semantic.size();
        let semantic = telemetry::CacheLive {
            tier: "semantic",
            entries: entries as u64,
            bytes: bytes as u64,
            evictions: self.parts.answers.local.semantic.evictions().collect(),
        };
        keeps.then_some(exact).into_iter().chain(means.then_some(semantic)).collect()
    }

    fn stored_responses(&self) -> Option<telemetry::CacheLive> {
        let store = &self.parts.answers.responses;
        store.is_on().then(|| telemetry::CacheLive {
            tier: "responses",
            entries: store.len() as u64,
            bytes: store.bytes() as u64,
            evictions: Evicted::ALL.into_iter().map(|reason| (reason.label(), store.evicted(reason))).collect(),
        })
    }

    fn log(&self, policy: &Policy) -> Option<telemetry::CacheLogLive> {
        policy.caching.as_ref()?.persist.as_ref()?;
        let figures = self.parts.answers.local.disk.figures();
        let WarmStartCounts { records, semantic: meanings, unusable: passed, millis } =
            self.parts.answers.local.disk.loaded();
        let up = figures.is_some_and(|figures| !figures.failed);
        let store::Figures { records: held, bytes, dropped, damaged, doubtful, evicted, compactions, failed: _ } =
            figures.unwrap_or_default();
        Some(telemetry::CacheLogLive {
            up,
            records: held,
            bytes,
            lost: [
                ("queue", dropped),
                ("doubtful", doubtful),
                ("space", evicted),
                ("unreadable", passed.load(Relaxed)),
            ],
            damaged,
            compactions,
            loaded: [("exact", records.load(Relaxed)), ("semantic", meanings.load(Relaxed))],
            load_seconds: millis.load(Relaxed) as f64 / 1e3,
        })
    }

    fn limited(&self, policy: &Policy, now: Moment) -> Vec<(Name, &'static str, u64)> {
        let keys = self.parts.accounting.callers.keys(policy, now).into_iter();
        let refused =
            keys.flat_map(|key| key.refused.into_iter().map(move |(limit, count)| (key.id.clone(), limit, count)));
        refused.filter(|(.., count)| *count > 0).collect()
    }

    pub(super) fn false_hits(&self, policy: &Policy, now: Moment) -> Option<telemetry::FalseHitsLive> {
        policy.caching.as_ref()?.semantic?;
        let false_hits = self.parts.answers.local.semantic.false_hits(now);
        Some(telemetry::FalseHitsLive {
            rate: false_hits.rate.rate,
            lower: false_hits.rate.lower,
            upper: false_hits.rate.upper,
            labels: false_hits.rate.labels,
            shadow_scopes: false_hits.shadow_only as u64,
        })
    }

    pub(super) fn pools(&self, serving: &Serving, now: Moment) -> Vec<telemetry::PoolLive> {
        let standings = self.parts.queues.standings(now);
        let live =
            serving.snapshot.pools.iter().zip(spending(serving, now)).enumerate().map(|(at, (pool, spending))| {
                let standing = standings.iter().find(|standing| standing.pool == pool.spec.name);
                let predictor = &pool.learned.predictor;
                telemetry::PoolLive {
                    pool: pool.spec.name.clone(),
                    queue_depth: standing.map_or(0, |standing| standing.depth as u64),
                    queue_oldest: standing.map_or(0.0, |standing| standing.oldest.as_secs_f64()),
                    health: pool_health(serving, at, standing, now),
                    spending,
                    ttft: predictor.ttft_accuracy().map(accuracy),
                    tpot: predictor.tpot_accuracy().map(accuracy),
                    output: pool
                        .learned
                        .outputs
                        .accuracy()
                        .map(|of| telemetry::OutputLive { coverage: of.coverage, relative_error: of.relative_error }),
                }
            });
        live.collect()
    }
}

fn tiered(route: Name, standing: &Standing) -> telemetry::TieredLive {
    let tiers = standing.tiers.iter();
    telemetry::TieredLive {
        route,
        requests: tiers.clone().map(|tier| [tier.intended, tier.settled, tier.served]).collect(),
        shares: tiers.map(|tier| [tier.intended_share, tier.settled_share, tier.served_share]).collect(),
        bars: standing.bars.clone(),
        quality: standing.quality,
        flips: standing.flips,
    }
}

fn accounts(pools: &[Pool], now: Moment) -> Vec<telemetry::AccountLive> {
    let backends = pools.iter().flat_map(|pool| &pool.backends);
    let mut all: Vec<telemetry::AccountLive> = Vec::new();
    for account in backends.filter_map(|backend| backend.account.as_ref()) {
        if all.iter().any(|known| known.account == account.name) {
            continue;
        }
        let (ready, standing) = (account.keys.ready(now), account.standing(now));
        let limits = [("requests", standing.requests), ("tokens", standing.tokens)];
        all.push(telemetry::AccountLive {
            account: account.name.clone(),
            ready: ready as u64,
            left_out: account.keys.len().saturating_sub(ready) as u64,
            ejected: account.ejected(),
            remaining: limits.iter().filter_map(|(limit, figures)| Some((*limit, (*figures)?.remaining))).collect(),
        });
    }
    all
}

fn team(report: TeamReport) -> telemetry::BudgetLive {
    budget(report.team, report.budget)
}

fn key_budget(report: KeyReport) -> Option<telemetry::BudgetLive> {
    Some(budget(report.id, report.budget?))
}

fn budget(owner: Name, report: BudgetReport) -> telemetry::BudgetLive {
    let BudgetReport { per, spent_usd, spent_tokens, budget_usd, budget_tokens } = report;
    telemetry::BudgetLive { owner, per, spent_usd, spent_tokens, budget_usd, budget_tokens }
}

fn accuracy(of: Accuracy) -> telemetry::AccuracyLive {
    let Accuracy { coverage, relative_error, pinball, baseline_pinball, .. } = of;
    telemetry::AccuracyLive { coverage, relative_error, pinball, baseline_pinball }
}

/// For each engine, by name: the most open state of its breakers (for connections and for models), and how often they opened.
fn breakers(snapshot: &Snapshot, now: Moment) -> HashMap<&str, (BreakerState, u64)> {
    let mut all: HashMap<&str, (BreakerState, u64)> = HashMap::new();
    let mut counted = HashSet::new();
    for backend in snapshot.pools.iter().flat_map(|pool| &pool.backends) {
        let engine = &*backend.engine;
        let entry = all.entry(&engine.name).or_insert_with(|| (engine.breaker.state(now), engine.breaker.opened()));
        entry.0 = entry.0.max(backend.worst_own_breaker(now));
        // Pools with the same model on the same engine share its breaker.
        if counted.insert(Arc::as_ptr(&backend.breaker)) {
            entry.1 += backend.breaker.opened();
        }
    }
    all
}

/// Sources of backends; one that several pools name counts once.
fn sources(discovery: &Discovery) -> Vec<telemetry::SourceLive> {
    let mut all: Vec<telemetry::SourceLive> = Vec::new();
    for (from, SourceStanding { addresses, answered, errors, .. }) in discovery.standings() {
        let source = from.label();
        let answered =
            answered.and_then(|at| SystemTime::now().checked_sub(at.elapsed())?.duration_since(UNIX_EPOCH).ok());
        // The same name with another port or kind of record.
        let source =
            if all.iter().any(|it| it.source == source) { format!("{source} #{}", all.len() + 1) } else { source };
        let answered = answered.map(|since| since.as_secs_f64());
        all.push(telemetry::SourceLive { source, endpoints: addresses.len() as u64, answered, errors });
    }
    all
}
