//! Encoder of all metrics as OpenMetrics text. Metrics without series are omitted.

mod callers;
mod costs;
mod engines;
mod quotas;
mod slos;

use std::{
    fmt,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, text},
    metrics::{
        counter::{ConstCounter, Counter},
        gauge::ConstGauge,
    },
    registry::Registry,
};

use super::{
    STATES,
    cache::LookupStage,
    cascade::CascadeMetrics,
    live::{AccuracyLive, Live, OutputLive, PoolLive, SchedulerLive, TieredLive},
    page::Page,
    pool::PoolMetrics,
    series::Series,
    shared::Shared,
    table::{self, Def},
};
use signalbox_measure::Span;
use signalbox_types::Moment;

/// Stands for the backends of a large pool, which share their times.
const ALL: &str = "all";

/// A metric and the function that reads its value.
type Column<T, V> = (&'static Def, fn(&T) -> V);

/// A pool's metric with a label of static strings.
type WordColumn = (&'static Def, fn(&PoolMetrics) -> &Series<&'static str, Counter>);

/// Encodes the whole text.
pub(super) fn text(shared: Arc<Shared>, now: Moment, live: Live) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape { shared, now, live }));
    let mut out = String::new();
    if let Err(error) = text::encode(&mut out, &registry) {
        // Only a number beyond i64 can cause this; the text written so far is still useful.
        tracing::error!(%error, "metrics: encoding failed, the page is incomplete");
    }
    out
}

/// One scrape: the counters, and the state at that moment.
#[derive(Debug)]
struct Scrape {
    shared: Arc<Shared>,
    now: Moment,
    live: Live,
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page { encoder, labels: self.live.labels.clone() };
        self.gateway(&mut page)?;
        self.callers(&mut page)?;
        self.backends(&mut page)?;
        self.costs(&mut page)?;
        self.pools(&mut page)?;
        self.tiered(&mut page)?;
        self.slos(&mut page)?;
        self.quotas(&mut page)?;
        self.quantiles(&mut page)?;
        self.live_backends(&mut page)?;
        self.sources(&mut page)?;
        self.engines(&mut page)
    }
}

impl Scrape {
    /// False for a pool that had no request yet. Of such pools only what alerts and autoscalers need is written: many
    /// policies have hundreds.
    fn is_used(&self, pool: &str) -> bool {
        self.shared.pools.read().get(pool).is_some_and(|pool| pool.is_used())
    }

    fn gateway(&self, page: &mut Page<'_>) -> fmt::Result {
        let shared = &self.shared;
        page.family(&table::BUILD, [([env!("CARGO_PKG_VERSION")], ConstGauge::new(1_i64))])?;
        let config = shared.config.read().clone();
        page.family(&table::CONFIG, config.map(|hash| ([hash], ConstGauge::new(1_i64))))?;
        let reloads = [(["ok"], shared.reloaded.clone()), (["error"], shared.reload_failed.clone())];
        page.family(&table::RELOADS, reloads)?;
        let is_reloaded = u64::from(shared.is_reloaded.load(Relaxed));
        page.family(&table::RELOADED, [([""; 0], ConstGauge::new(is_reloaded))])?;
        let notifications = shared.notifications.list().into_iter();
        page.family(&table::NOTIFICATIONS, notifications.map(|(result, counter)| ([result], counter)))?;
        page.family(&table::IN_FLIGHT, [([""; 0], shared.in_flight.clone())])?;
        let requests = shared.requests.list().into_iter();
        let requests = requests.map(|((endpoint, route, status, outcome), counter)| {
            ([endpoint.to_owned(), route.to_string(), status.to_string(), outcome.to_owned()], counter)
        });
        page.family(&table::REQUESTS, requests)?;
        let faults = shared.faults.list().into_iter();
        page.family(&table::FAULTS, faults.map(|((kind, blame), counter)| ([kind, blame], counter)))?;
        let gone = shared.client_gone.list().into_iter();
        page.family(&table::CLIENT_GONE, gone.map(|(stage, counter)| ([stage], counter)))?;
        let stores = || shared.stores.used();
        let up = stores().map(|(store, writes)| ([store], ConstGauge::new(u64::from(writes.is_up() == Some(true)))));
        page.family(&table::STORE_UP, up)?;
        page.family(&table::STORE_ERRORS, stores().map(|(store, writes)| ([store], writes.errors())))?;
        page.family(&table::JOURNAL_DROPPED, [([""; 0], shared.journal.dropped.clone())])?;
        page.family(&table::JOURNAL_ERRORS, [([""; 0], shared.journal.errors.clone())])?;
        page.family(&table::ACCESS_LOG_DROPPED, [([""; 0], shared.access_log.dropped.clone())])?;
        let dropped = self.live.spans_dropped.iter();
        page.family(&table::SPANS_DROPPED, dropped.map(|(reason, count)| ([*reason], ConstCounter::new(*count))))
    }

    fn backends(&self, page: &mut Page<'_>) -> fmt::Result {
        let mut all = self.shared.backends.list();
        all.retain(|((pool, ..), backend)| self.is_used(pool) || backend.is_used());
        page.split(&table::BACKEND_REQUESTS, &all, |backend| &backend.requests)?;
        page.split(&table::BACKEND_ATTEMPTS, &all, |backend| &backend.attempts)?;
        page.each(&table::FRESH_RETRIES, &all, |backend| backend.fresh_retries.clone())?;
        page.each(&table::BAD_EVENTS, &all, |backend| backend.bad_events.clone())?;
        // Backends of a large pool share their times, which are written once.
        let own = all.iter().filter(|(_, backend)| !backend.shares_timings);
        let own = own.map(|(key, backend)| (key.clone(), backend.timings.clone()));
        let shared = self.shared.pool_timings.list().into_iter();
        let shared = shared.map(|((pool, model), timings)| ((pool, ALL.into(), model), timings));
        let timings: Vec<_> = own.chain(shared).collect();
        page.each(&table::TTFT, &timings, |of| of.ttft.clone())?;
        page.each(&table::UPSTREAM_TTFT, &timings, |of| of.upstream_ttft.clone())?;
        page.each(&table::TPOT, &timings, |of| of.tpot.clone())?;
        page.each(&table::GAP, &timings, |of| of.gap.clone())?;
        page.each(&table::E2E, &timings, |of| of.e2e.clone())?;
        page.each(&table::OVERHEAD, &timings, |of| of.overhead.clone())?;
        page.each(&table::SETTLE, &timings, |of| of.settle.clone())?;
        page.split(&table::TOKENS, &all, |backend| &backend.tokens)?;
        page.each(&table::COST, &all, |backend| backend.cost.clone())?;
        page.split(&table::PREFIX_TOKENS, &all, |backend| &backend.prefix)?;
        let ratios = self.shared.prefix_hits().ratios();
        let kinds =
            ratios.iter().flat_map(|(predicted, reported)| [("predicted", *predicted), ("reported", *reported)]);
        page.family(&table::PREFIX_HITS, kinds.map(|(kind, ratio)| ([kind], ConstGauge::new(ratio))))
    }

    fn pools(&self, page: &mut Page<'_>) -> fmt::Result {
        let (mut all, live) = (self.shared.pools.list(), &self.live.pools);
        all.retain(|(_, pool)| pool.is_used());
        page.family(&table::QUEUE_DEPTH, live.iter().map(|pool| ([&*pool.pool], ConstGauge::new(pool.queue_depth))))?;
        page.family(&table::QUEUE_OLDEST, live.iter().map(|pool| ([&*pool.pool], ConstGauge::new(pool.queue_oldest))))?;
        let ratio = |value: f64| ConstGauge::new(rounded(value));
        page.family(&table::SATURATION, live.iter().map(|it| ([&*it.pool], ratio(it.health.saturation()))))?;
        let shares = live.iter().filter_map(|it| Some(([&*it.pool], ratio(it.health.prefill_share()?))));
        page.family(&table::PREFILL_SHARE, shares)?;
        let states = live.iter().flat_map(|it| {
            let (now, all) = (it.health.diagnose().state, self.is_used(&it.pool));
            let shown = STATES.into_iter().map(move |state| (state, state == now)).filter(move |(_, is)| all || *is);
            shown.map(move |(state, is)| ([&*it.pool, state], ConstGauge::new(u64::from(is))))
        });
        page.family(&table::POOL_STATE, states)?;
        page.family(&table::QUEUE_WAIT, all.iter().map(|(pool, it)| ([&**pool], it.waits.clone())))?;
        page.family(&table::QUEUE_ADMITTED, all.iter().map(|(pool, it)| ([&**pool], it.admitted.clone())))?;
        page.family(&table::SPILLED, all.iter().map(|(pool, it)| ([&**pool], it.spilled.clone())))?;
        let words: [WordColumn; 4] = [
            (&table::SHED, |pool| &pool.shed),
            (&table::FURTHER, |pool| &pool.further),
            (&table::RESUMES, |pool| &pool.resumes),
            (&table::FORMER_RESUMES, |pool| &pool.resumes),
        ];
        for (def, series) in words {
            let rows = all.iter().flat_map(|(pool, it)| {
                let rows = series(it).list().into_iter();
                rows.map(|(word, counter)| ([pool.to_string(), word.to_owned()], counter))
            });
            page.family(def, rows)?;
        }
        self.cascades(page)?;
        let work = all.iter().flat_map(|(pool, it)| it.work.counters().map(|one| (pool.to_string(), one)));
        let work = work.map(|(pool, (kind, of, it))| ([pool, kind.to_owned(), of.label().to_owned()], it));
        page.family(&table::WORK, work)?;
        page.family(&table::STALLED, all.iter().map(|(pool, it)| ([&**pool], it.stalled.clone())))?;
        let goodput = all.iter().filter_map(|(pool, it)| Some(([&**pool], ratio(it.goodput(self.now)?))));
        page.family(&table::GOODPUT, goodput)?;
        self.background(page)?;
        self.cache(page)?;
        page.family(&table::DECISION, all.iter().map(|(pool, it)| ([&**pool], it.decisions.clone())))?;
        self.predictions(page)?;
        let scheduler = self.live.scheduler;
        let gauges: [Column<SchedulerLive, u64>; 3] = [
            (&table::PREFIX_BYTES, |scheduler| scheduler.prefix_bytes),
            (&table::PREFIX_BLOCKS, |scheduler| scheduler.prefix_blocks),
            (&table::SESSIONS, |scheduler| scheduler.sessions),
        ];
        for (def, value) in gauges {
            page.family(def, scheduler.iter().map(|it| ([""; 0], ConstGauge::new(value(it)))))?;
        }
        Ok(())
    }

    fn cascades(&self, page: &mut Page<'_>) -> fmt::Result {
        let all = self.shared.cascades.list();
        let each = |part: fn(&CascadeMetrics) -> &Series<&'static str, Counter>| {
            all.iter().flat_map(move |(route, it)| {
                let list = part(it).list().into_iter();
                list.map(move |(label, counter)| ([route.to_string(), label.to_owned()], counter))
            })
        };
        page.family(&table::CASCADES, each(|it| &it.results))?;
        page.family(&table::CASCADE_TOKENS, each(|it| &it.tokens))?;
        page.family(&table::CASCADE_COST, all.iter().map(|(route, it)| ([&**route], it.cost.clone())))
    }

    fn background(&self, page: &mut Page<'_>) -> fmt::Result {
        let it = &self.shared.background;
        let requests =
            it.requests.list().into_iter().map(|((purpose, outcome), counter)| ([purpose, outcome], counter));
        page.family(&table::BACKGROUND, requests)?;
        page.family(&table::BACKGROUND_TOKENS, it.tokens.list().into_iter().map(|(purpose, it)| ([purpose], it)))?;
        page.family(&table::BACKGROUND_COST, it.cost.list().into_iter().map(|(purpose, it)| ([purpose], it)))?;
        page.family(&table::PAIRS, it.pairs.list().into_iter().map(|(result, it)| ([result], it)))
    }

    fn stored_responses(&self, page: &mut Page<'_>) -> fmt::Result {
        let live = self.live.responses.as_ref();
        page.family(&table::RESPONSES_ENTRIES, live.map(|it| ([""; 0], ConstGauge::new(it.entries))))?;
        page.family(&table::RESPONSES_BYTES, live.map(|it| ([""; 0], ConstGauge::new(it.bytes))))?;
        let evictions = live.into_iter().flat_map(|it| &it.evictions);
        page.family(&table::RESPONSES_EVICTIONS, evictions.map(|(reason, n)| ([*reason], ConstCounter::new(*n))))
    }

    fn cache(&self, page: &mut Page<'_>) -> fmt::Result {
        let (cache, live) = (&self.shared.cache, &self.live.caches);
        let lookups = cache.lookups.list().into_iter().map(|((tier, result, reason, route), counter)| {
            ([tier.to_owned(), result.to_owned(), reason.to_owned(), route.to_string()], counter)
        });
        page.family(&table::CACHE_LOOKUPS, lookups)?;
        if !live.is_empty() {
            let stages = LookupStage::ALL.into_iter().zip(&cache.seconds);
            page.family(&table::CACHE_LOOKUP, stages.map(|(stage, seconds)| ([stage.label()], seconds.clone())))?;
        }
        let embeddings = cache.embeddings.list().into_iter().map(|((embedder, result), it)| ([embedder, result], it));
        page.family(&table::CACHE_EMBEDDINGS, embeddings)?;
        page.family(&table::CACHE_GUARDS, cache.guards.list().into_iter().map(|(guard, it)| ([guard], it)))?;
        let labels = cache.labels.list().into_iter().map(|((of, verdict, source), it)| ([of, verdict, source], it));
        page.family(&table::CACHE_LABELS, labels)?;
        let false_hits = self.live.false_hits;
        let bounds = false_hits.iter().flat_map(|it| [("estimate", it.rate), ("lower", it.lower), ("upper", it.upper)]);
        page.family(&table::CACHE_FALSE_HITS, bounds.map(|(bound, value)| ([bound], ConstGauge::new(value))))?;
        page.family(&table::CACHE_VERIFIED, false_hits.iter().map(|it| ([""; 0], ConstGauge::new(it.labels))))?;
        page.family(&table::CACHE_SHADOW, false_hits.iter().map(|it| ([""; 0], ConstGauge::new(it.shadow_scopes))))?;
        page.family(&table::CACHE_STORED, cache.stored.list().into_iter().map(|(result, it)| ([result], it)))?;
        page.family(&table::CACHE_ENTRIES, live.iter().map(|it| ([it.tier], ConstGauge::new(it.entries))))?;
        page.family(&table::CACHE_BYTES, live.iter().map(|it| ([it.tier], ConstGauge::new(it.bytes))))?;
        let evictions =
            live.iter().flat_map(|it| it.evictions.iter().map(move |(reason, count)| (it.tier, *reason, *count)));
        page.family(
            &table::CACHE_EVICTIONS,
            evictions.map(|(tier, reason, n)| ([tier, reason], ConstCounter::new(n))),
        )?;
        self.stored_responses(page)?;
        self.cache_log(page)?;
        let up = self.live.shared.iter().map(|up| ([""; 0], ConstGauge::new(u64::from(*up))));
        page.family(&table::CACHE_SHARED_UP, up)?;
        page.family(&table::CACHE_SHARED, cache.shared.list().into_iter().map(|((a, b), it)| ([a, b], it)))?;
        let coalesced = cache.coalesced.list();
        page.family(&table::CACHE_COALESCED, coalesced.iter().map(|(route, it)| ([&**route], it.clone())))?;
        let saved = cache.saved.list();
        let tokens = saved
            .iter()
            .flat_map(|(tier, it)| it.tokens.list().into_iter().map(move |(kind, counter)| ([*tier, kind], counter)));
        page.family(&table::CACHE_SAVED_TOKENS, tokens)?;
        page.family(&table::CACHE_SAVED_COST, saved.iter().map(|(tier, it)| ([*tier], it.cost.clone())))?;
        page.family(&table::CACHE_SAVED_SECONDS, saved.iter().map(|(tier, it)| ([*tier], it.seconds.clone())))
    }

    fn cache_log(&self, page: &mut Page<'_>) -> fmt::Result {
        let log = || self.live.log.iter();
        page.family(&table::CACHE_LOG_UP, log().map(|it| ([""; 0], ConstGauge::new(u64::from(it.up)))))?;
        page.family(&table::CACHE_LOG_RECORDS, log().map(|it| ([""; 0], ConstGauge::new(it.records))))?;
        page.family(&table::CACHE_LOG_BYTES, log().map(|it| ([""; 0], ConstGauge::new(it.bytes))))?;
        let lost = log().flat_map(|it| it.lost);
        page.family(&table::CACHE_LOG_LOST, lost.map(|(reason, n)| ([reason], ConstCounter::new(n))))?;
        page.family(&table::CACHE_LOG_DAMAGED, log().map(|it| ([""; 0], ConstGauge::new(it.damaged))))?;
        page.family(&table::CACHE_LOG_COMPACTIONS, log().map(|it| ([""; 0], ConstCounter::new(it.compactions))))?;
        let loaded = log().flat_map(|it| it.loaded);
        page.family(&table::CACHE_LOADED, loaded.map(|(tier, n)| ([tier], ConstCounter::new(n))))?;
        page.family(&table::CACHE_LOAD, log().map(|it| ([""; 0], ConstGauge::new(it.load_seconds))))
    }

    fn predictions(&self, page: &mut Page<'_>) -> fmt::Result {
        type Part = fn(&PoolLive) -> Option<AccuracyLive>;
        let ttft = [&table::TTFT_COVERAGE, &table::TTFT_ERROR, &table::TTFT_PINBALL, &table::TTFT_BASELINE];
        let tpot = [&table::TPOT_COVERAGE, &table::TPOT_ERROR, &table::TPOT_PINBALL, &table::TPOT_BASELINE];
        let parts: [([&Def; 4], Part); 2] = [(ttft, |pool| pool.ttft), (tpot, |pool| pool.tpot)];
        for (defs, part) in parts {
            for (at, def) in defs.into_iter().enumerate() {
                let rows = self.live.pools.iter().filter_map(|pool| {
                    let it = part(pool)?;
                    let value = [it.coverage, it.relative_error, it.pinball, it.baseline_pinball][at];
                    Some(([&*pool.pool], ConstGauge::new(value)))
                });
                page.family(def, rows)?;
            }
        }
        let outputs: [Column<OutputLive, f64>; 2] =
            [(&table::OUTPUT_COVERAGE, |it| it.coverage), (&table::OUTPUT_ERROR, |it| it.relative_error)];
        for (def, value) in outputs {
            let rows = self.live.pools.iter().filter_map(|pool| Some((&pool.pool, pool.output.as_ref()?)));
            page.family(def, rows.map(|(pool, it)| ([&**pool], ConstGauge::new(value(it)))))?;
        }
        Ok(())
    }

    fn tiered(&self, page: &mut Page<'_>) -> fmt::Result {
        const KINDS: [&str; 3] = ["intended", "settled", "served"];
        let labels = |route: &TieredLive, tier: usize, kind: usize| {
            [route.route.to_string(), tier.to_string(), KINDS[kind].to_owned()]
        };
        let all = || self.live.tiered.iter();
        let places = |count: usize| (0..count).flat_map(|tier| (0..KINDS.len()).map(move |kind| (tier, kind)));
        let counts = all().flat_map(|it| places(it.requests.len()).map(move |(tier, kind)| (it, tier, kind)));
        let counts =
            counts.map(|(it, tier, kind)| (labels(it, tier, kind), ConstCounter::new(it.requests[tier][kind])));
        page.family(&table::TIER_REQUESTS, counts)?;
        let shares = all().flat_map(|it| places(it.shares.len()).map(move |(tier, kind)| (it, tier, kind)));
        let shares = shares.map(|(it, tier, kind)| (labels(it, tier, kind), ConstGauge::new(it.shares[tier][kind])));
        page.family(&table::TIER_SHARE, shares)?;
        let bars = all().flat_map(|it| it.bars.iter().enumerate().map(move |(tier, bar)| (it, tier, *bar)));
        let bars = bars.filter(|(_, _, bar)| bar.is_finite());
        page.family(
            &table::TIER_BAR,
            bars.map(|(it, tier, bar)| ([it.route.to_string(), tier.to_string()], ConstGauge::new(bar))),
        )?;
        page.family(&table::TIER_QUALITY, all().map(|it| ([&*it.route], ConstGauge::new(it.quality))))?;
        page.family(&table::TIER_FLIPS, all().map(|it| ([&*it.route], ConstCounter::new(it.flips))))?;
        let boundaries = self.live.boundaries.iter();
        page.family(&table::LENGTH_BOUNDARY, boundaries.map(|(route, tokens)| ([&**route], ConstGauge::new(*tokens))))
    }

    fn quantiles(&self, page: &mut Page<'_>) -> fmt::Result {
        let mut rows = [const { Vec::new() }; 3];
        for ((pool, backend), latencies) in self.shared.latencies.list() {
            for span in Span::ALL {
                for (rows, summary) in rows.iter_mut().zip(latencies.summaries(span, self.now)) {
                    let quantiles = summary.iter().flat_map(signalbox_measure::Summary::quantiles);
                    rows.extend(quantiles.map(|(quantile, seconds)| {
                        let labels = [pool.clone(), backend.clone(), quantile.into(), span.label().into()];
                        (labels, ConstGauge::new(rounded(seconds)))
                    }));
                }
            }
        }
        for (def, rows) in [&table::TTFT_QUANTILE, &table::TPOT_QUANTILE, &table::E2E_QUANTILE].into_iter().zip(rows) {
            page.family(def, rows)?;
        }
        Ok(())
    }
}

/// Rounds to four significant digits: more would claim an accuracy that the windows do not have.
fn rounded(seconds: f64) -> f64 {
    if seconds <= 0.0 {
        return seconds;
    }
    let scale = 10_f64.powf(3.0 - seconds.log10().floor());
    (seconds * scale).round() / scale
}
