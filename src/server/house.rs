//! Everything that lives as long as the process: put together once, and again in part when the policy changes.

use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use super::tls::{Certificate, TlsError};
use crate::{
    fleet::{Pool, Registry, Snapshot},
    gateway::{self, Desk, Live, Serving, keep_on_disk, lessons, share, share_limits},
    policy::{self, Policy},
    redis::LinkError,
    schedule::{predict::Accuracy, tiers::Standing},
    store,
    telemetry::{self, Journal},
    types::{Clock, Moment, Name},
    upstream::{
        Client, Hub, Tokenizers,
        client::SetUpError,
        scrape::{Scrapers, Source},
    },
};

/// The parts that requests, operators and reloads share.
pub(super) struct House {
    /// What is being served.
    pub live: Arc<Live>,
    /// Where records end.
    pub desk: Arc<Desk>,
    /// The way out.
    pub client: Client,
    /// What is shown to those who come in.
    pub certificate: Arc<Certificate>,
    registry: Registry,
    tokenizers: Tokenizers,
    scrapers: Scrapers,
}

/// The house could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No HTTP client.
    #[error(transparent)]
    Client(#[from] SetUpError),
    /// No certificate to show.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// What was learned cannot be read.
    #[error(transparent)]
    Lessons(#[from] lessons::StoreError),
    /// Usage cannot be kept.
    #[error("usage: {0} (usage.path in the policy)")]
    Usage(#[from] gateway::KeepError),
    /// Kept answers cannot be on disk.
    #[error("kept answers: {0} (cache.persist.path in the policy)")]
    Disk(#[from] store::StoreError),
    /// They cannot be shared.
    #[error("kept answers: {0} (cache.shared.url in the policy)")]
    Shared(#[from] LinkError),
    /// Limits cannot be shared.
    #[error("limits: {0} (limits.shared.url in the policy)")]
    SharedLimits(LinkError),
    /// The journal's file cannot be written.
    #[error("the journal '{path}' cannot be opened: {error} (journal.path in the policy)")]
    Journal {
        /// The file.
        path: String,
        /// Why not.
        error: io::Error,
    },
}

impl House {
    /// Puts the house together to serve `policy`.
    pub(super) fn open(policy: Policy) -> Result<Self, OpenError> {
        let clock = Clock::start();
        let desk = Arc::new(Desk::new(clock));
        let client = Client::new(policy.timeouts.connect)?;
        let certificate = Arc::new(Certificate::default());
        certificate.follow(policy.tls.as_ref())?;
        let registry = Registry::default();
        if let Some(journal) = open_journal(&policy, &desk)? {
            desk.journal.store(Some(journal));
        }
        if let Some(file) = &policy.learning.file {
            desk.lessons.load(file)?;
        }
        desk.lessons.follow(policy.learning.file.as_deref(), policy.learning.re_ask);
        if let Some(usage) = &policy.usage {
            desk.callers.keep(usage)?;
        }
        desk.follow(&policy);
        keep_on_disk(&desk, &policy)?;
        share(&desk, &policy)?;
        share_limits(&desk, &policy).map_err(OpenError::SharedLimits)?;
        let scrapers = Scrapers::new(client.clone(), clock);
        let tokenizers = Tokenizers::new(Hub::from_env());
        let serving = Serving::new(Snapshot::new(policy, &registry), &desk, |tokenizer| tokenizers.source(tokenizer));
        scrapers.follow(sources(&serving));
        Ok(Self { live: Arc::new(Live::new(serving)), desk, client, certificate, registry, tokenizers, scrapers })
    }

    /// Serves by `policy` from the next request on; what was learned of engines that stay is kept. On an error the old policy
    /// stays in force. Waits for the disk.
    pub(super) fn replace(&self, policy: Policy) -> Result<(), OpenError> {
        self.certificate.follow(policy.tls.as_ref())?;
        keep_on_disk(&self.desk, &policy)?;
        share(&self.desk, &policy)?;
        share_limits(&self.desk, &policy).map_err(OpenError::SharedLimits)?;
        let old = self.live.load();
        let before = &old.snapshot.policy;
        if before.journal != policy.journal {
            let journal = open_journal(&policy, &self.desk)?;
            if let Some(old) = self.desk.journal.swap(journal) {
                tokio::task::spawn_blocking(move || old.close());
            }
        }
        for (what, changed) in [
            ("listen", before.listen != policy.listen),
            ("admin", before.admin != policy.admin),
            ("limits.header", before.limits.header != policy.limits.header),
            ("timeouts.connect", before.timeouts.connect != policy.timeouts.connect),
            ("usage.path", before.usage.as_ref().map(|it| &it.path) != policy.usage.as_ref().map(|it| &it.path)),
        ] {
            if changed {
                tracing::warn!("'{what}' changed in the policy: it takes effect after a restart");
            }
        }
        if before.learning.file != policy.learning.file {
            self.desk.lessons.save();
            if let Some(file) = &policy.learning.file {
                self.desk.lessons.load(file)?;
            }
        }
        self.desk.lessons.follow(policy.learning.file.as_deref(), policy.learning.re_ask);
        self.desk.follow(&policy);
        let serving = Serving::new(Snapshot::new(policy, &self.registry), &self.desk, |it| self.tokenizers.source(it));
        self.scrapers.follow(sources(&serving));
        self.live.swap(serving);
        Ok(())
    }

    /// Looks whether the certificate was renewed. Waits for the disk.
    pub(super) fn tend_certificate(&self) {
        match self.certificate.follow(self.live.load().snapshot.policy.tls.as_ref()) {
            Ok(true) => tracing::info!("another certificate is shown from now on"),
            Ok(false) => {}
            Err(problem) => tracing::warn!("the certificate in use stays: {problem}"),
        }
    }

    /// Tries again to have kept answers on disk, where another gateway had the folder. Waits for the disk.
    pub(super) fn tend_disk(&self) {
        if let Err(problem) = keep_on_disk(&self.desk, &self.live.load().snapshot.policy) {
            tracing::warn!("{}", OpenError::Disk(problem));
        }
    }

    /// Writes what was used, and forgets what is too old. Waits for the disk.
    pub(super) fn write_usage(&self) {
        self.desk.callers.write(self.usage_retention());
    }

    fn usage_retention(&self) -> Duration {
        let serving = self.live.load();
        serving.snapshot.policy.usage.as_ref().map_or(policy::USAGE_RETENTION, |usage| usage.retention)
    }

    /// Writes out what is queued.
    pub(super) async fn close(&self) {
        let (desk, retention) = (self.desk.clone(), self.usage_retention());
        let close = move || {
            desk.callers.write(retention);
            desk.lessons.save();
            desk.disk.close();
        };
        let _ = tokio::task::spawn_blocking(close).await;
        if let Some(journal) = self.desk.journal.swap(None) {
            // A panic in the writer was logged where it happened.
            let _ = tokio::task::spawn_blocking(move || journal.close()).await;
        }
    }

    /// The metrics page.
    pub(super) fn metrics(&self) -> String {
        let now = self.desk.clock.now();
        self.desk.metrics.encode(now, &self.reading())
    }

    /// The same for callers: where they have keys, what others use is none of their business.
    pub(super) fn public_metrics(&self) -> String {
        let mut reading = self.reading();
        if !self.live.load().snapshot.policy.keys.is_empty() {
            reading.limited.clear();
            reading.teams.clear();
            reading.accounts.clear();
        }
        self.desk.metrics.encode(self.desk.clock.now(), &reading)
    }

    fn reading(&self) -> telemetry::Live {
        let now = self.desk.clock.now();
        let serving = self.live.load();
        let backends = serving.snapshot.pools.iter().flat_map(|pool| {
            pool.backends.iter().map(|backend| telemetry::BackendLive {
                pool: pool.spec.name.clone(),
                backend: backend.name().clone(),
                in_flight: backend.load.in_flight().into(),
                queued_prompt_tokens: backend.load.queued_tokens(),
                decoding: backend.load.decoding().into(),
                context_tokens: backend.load.context_tokens(),
            })
        });
        let engines = self.registry.engines().into_iter().map(|engine| {
            let reading = engine.reading();
            let signals = reading.as_ref().map(|reading| &reading.signals);
            telemetry::EngineLive {
                engine: engine.name.clone(),
                up: engine.is_up(now),
                scrape_age: reading.as_ref().map(|reading| now.since(reading.at).as_secs_f64()),
                running: signals.and_then(|signals| signals.running),
                waiting: signals.and_then(|signals| signals.waiting),
                kv_usage: signals.and_then(|signals| signals.kv_usage),
                prefix_hits: reading.as_ref().and_then(|reading| reading.prefix_hit_ratio),
                preemptions: signals.and_then(|signals| signals.preemptions),
                restarts: engine.restarts().into(),
                breaker: engine.breaker.state(now).label(),
                breaker_opened: engine.breaker.opened(),
            }
        });
        let prefixes = self.registry.prefixes();
        telemetry::Live {
            backends: backends.collect(),
            engines: engines.collect(),
            pools: self.pools(&serving.snapshot.pools, now),
            tiered: self.desk.standings(now).into_iter().map(|(route, standing)| tiered(route, &standing)).collect(),
            boundaries: self.desk.learned_boundaries(),
            scheduler: Some(telemetry::SchedulerLive {
                prefix_bytes: prefixes.bytes() as u64,
                prefix_blocks: prefixes.len() as u64,
                sessions: self.registry.sessions().len() as u64,
            }),
            caches: self.caches(&serving.snapshot.policy),
            log: self.log(&serving.snapshot.policy),
            shared: self.desk.shared.is_up(),
            shared_limits: self.desk.callers.shares(),
            accounts: accounts(&serving.snapshot.pools, now),
            limited: self.limited(&serving.snapshot.policy, now),
            teams: self.desk.callers.teams().into_iter().map(team).collect(),
            false_hits: self.false_hits(&serving.snapshot.policy, now),
        }
    }

    pub(super) fn caches(&self, policy: &Policy) -> Vec<telemetry::CacheLive> {
        let keeps = policy.caching.as_ref().is_some_and(|caching| caching.exact.is_some());
        let (entries, bytes) = self.desk.cache.size();
        let exact = telemetry::CacheLive {
            tier: "exact",
            entries: entries as u64,
            bytes: bytes as u64,
            evictions: self.desk.cache.evictions().collect(),
        };
        let means = policy.caching.as_ref().is_some_and(|caching| caching.semantic.is_some());
        let (entries, bytes) = self.desk.meanings.size();
        let semantic = telemetry::CacheLive {
            tier: "semantic",
            entries: entries as u64,
            bytes: bytes as u64,
            evictions: self.desk.meanings.evictions().collect(),
        };
        keeps.then_some(exact).into_iter().chain(means.then_some(semantic)).collect()
    }

    fn log(&self, policy: &Policy) -> Option<telemetry::CacheLogLive> {
        policy.caching.as_ref()?.persist.as_ref()?;
        let figures = self.desk.disk.figures();
        let gateway::Loaded { records, meanings, passed, millis } = self.desk.disk.loaded();
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
        let keys = self.desk.callers.keys(policy, now).into_iter();
        let refused =
            keys.flat_map(|key| key.refused.into_iter().map(move |(limit, count)| (key.id.clone(), limit, count)));
        refused.filter(|(.., count)| *count > 0).collect()
    }

    pub(super) fn false_hits(&self, policy: &Policy, now: Moment) -> Option<telemetry::FalseHitsLive> {
        policy.caching.as_ref()?.semantic?;
        let told = self.desk.meanings.false_hits(now);
        Some(telemetry::FalseHitsLive {
            rate: told.rate.rate,
            lower: told.rate.lower,
            upper: told.rate.upper,
            labels: told.rate.labels,
            shadow_scopes: told.shadow_only as u64,
        })
    }

    fn pools(&self, pools: &[Pool], now: Moment) -> Vec<telemetry::PoolLive> {
        let standings = self.desk.hall.standings(now);
        let live = pools.iter().map(|pool| {
            let standing = standings.iter().find(|standing| standing.pool == pool.spec.name);
            let predictor = &pool.learned.predictor;
            telemetry::PoolLive {
                pool: pool.spec.name.clone(),
                queue_depth: standing.map_or(0, |standing| standing.depth as u64),
                queue_oldest: standing.map_or(0.0, |standing| standing.oldest.as_secs_f64()),
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

fn team(told: gateway::TeamTold) -> telemetry::TeamLive {
    let gateway::TeamTold { team, per, spent_usd, spent_tokens, budget_usd, budget_tokens } = told;
    telemetry::TeamLive { team, per, spent_usd, spent_tokens, budget_usd, budget_tokens }
}

fn accuracy(of: Accuracy) -> telemetry::AccuracyLive {
    let Accuracy { coverage, relative_error, pinball, baseline_pinball, .. } = of;
    telemetry::AccuracyLive { coverage, relative_error, pinball, baseline_pinball }
}

fn open_journal(policy: &Policy, desk: &Desk) -> Result<Option<Arc<Journal>>, OpenError> {
    let Some(spec) = &policy.journal else { return Ok(None) };
    match Journal::open(&spec.path, spec.max_size, spec.keep, desk.metrics.journal()) {
        Ok(journal) => Ok(Some(Arc::new(journal))),
        Err(error) => Err(OpenError::Journal { path: spec.path.display().to_string(), error }),
    }
}

/// The engines whose metrics are to be read.
fn sources(serving: &Serving) -> Vec<Source> {
    let policy = &serving.snapshot.policy;
    let backends = serving.snapshot.pools.iter().flat_map(|pool| &pool.backends);
    let mut sources: Vec<Source> = Vec::new();
    for backend in backends {
        let spec = &policy.engines[backend.spec.engine];
        if let Some(every) = spec.scrape
            && sources.iter().all(|source| source.engine.url != spec.url)
        {
            sources.push(Source { engine: backend.engine.clone(), key: spec.keys.first().cloned(), every });
        }
    }
    sources
}
