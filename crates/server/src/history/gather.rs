//! Figures of an interval, from the counters and gauges of the process.

use std::collections::HashMap;

use super::interval::{FINE, Interval, Path};
use crate::app::App;
use signalbox_gateway::Serving;
use signalbox_measure::{Sketch, Span, Window};
use signalbox_telemetry::{BackendTotals, Latencies, PoolLive, PrefixHits, SloLive};
use signalbox_types::{Moment, Name};

/// Slots of a window that can still be read, besides the one that is being filled.
const READABLE: u64 = Span::Minute.length().as_secs() / FINE.as_secs() - 1;

/// Counters as they were read last.
pub(crate) struct Gatherer {
    at: Moment,
    counts: HashMap<Path, u64>,
    now: HashMap<Path, u64>,
    interval: Interval,
    seconds: f64,
}

impl Gatherer {
    /// Begins where the process stands now.
    pub(crate) fn new(app: &App) -> Self {
        let at = app.parts.clock.now();
        let (counts, now) = (HashMap::new(), HashMap::new());
        let mut new = Self { at, counts, now, interval: Interval::default(), seconds: 1.0 };
        new.interval(app, at);
        new
    }

    /// Figures since the last call: counts up to `now`, durations of the slots that were completed.
    pub(super) fn interval(&mut self, app: &App, now: Moment) -> Interval {
        let serving = app.live.load();
        let width = FINE.as_nanos() as u64;
        let slots = (self.at.nanos() / width).max((now.nanos() / width).saturating_sub(READABLE))..now.nanos() / width;
        (self.at, self.seconds) = (now, now.seconds_since(self.at).max(1e-3));
        let live = app.pools(&serving, now);
        let totals: Vec<_> = (0..live.len()).map(|at| self.grown_backends(&serving, at)).collect();
        let all: u64 = totals.iter().map(|own| own.requests).sum();
        for (at, pool) in live.iter().enumerate() {
            self.pool(&serving, (at, pool), totals[at], all);
            self.latencies(&serving, (at, pool), slots.clone());
        }
        self.gateway(app, &live, &totals);
        self.cache(app, &serving, &totals);
        let (budgets, routes) = (&app.parts.accounting.error_budgets, "route");
        for (kind, owners) in [("pool", budgets.pools(now)), (routes, budgets.routes(now))] {
            for (owner, slos) in &owners {
                self.budgets(kind, owner, slos);
            }
        }
        self.counts = std::mem::take(&mut self.now);
        std::mem::take(&mut self.interval)
    }

    fn pool(&mut self, serving: &Serving, (at, pool): (usize, &PoolLive), totals: BackendTotals, all: u64) {
        let own = |column: &str| path(["pools", &pool.pool, column]);
        let seconds = self.seconds;
        let in_flight: u32 = serving.snapshot.pools[at].backends.iter().map(|it| it.load.in_flight()).sum();
        let (good, work) = serving.pool_meter(at).work_totals();
        let (good, work) = (self.grown(own("good"), good), self.grown(own("work"), work));
        let levels = [
            ("queue", Some(pool.queue_depth as f64)),
            ("in_flight", Some(f64::from(in_flight))),
            ("utilisation", Some(pool.health.saturation())),
            ("cost_usd_per_hour", pool.spending.per_hour()),
        ];
        let BackendTotals { requests, errors, output_tokens, prefix } = totals;
        self.interval.quotients.extend([
            (own("requests_per_s"), requests as f64, seconds),
            (own("errors_per_s"), errors as f64, seconds),
            (own("tokens_per_s"), output_tokens as f64, seconds),
            (own("share"), requests as f64, all as f64),
            (own("goodput"), good as f64, work as f64),
            (own("prefix_hit_ratio"), prefix.reported as f64, prefix.prompt as f64),
        ]);
        let levels = levels.into_iter().filter_map(|(column, level)| Some((own(column), level?, 1.0)));
        self.interval.quotients.extend(levels);
    }

    fn latencies(&mut self, serving: &Serving, (at, pool): (usize, &PoolLive), slots: std::ops::Range<u64>) {
        let ttft: fn(&Latencies) -> &Window = |latencies| &latencies.ttft;
        for (column, window) in [("ttft_ms", ttft), ("tpot_ms", |latencies| &latencies.tpot)] {
            let mut sketch = Sketch::new();
            for backend in 0..serving.snapshot.pools[at].backends.len() {
                let window = window(serving.meter(at, backend).latencies());
                slots.clone().for_each(|slot| window.add_slot(Span::Minute, slot, &mut sketch));
            }
            self.interval.sketches.push((path(["pools", &pool.pool, column]), sketch));
        }
    }

    fn gateway(&mut self, app: &App, live: &[PoolLive], totals: &[BackendTotals]) {
        let own = |column: &str| path(["gateway", column]);
        let metrics = &app.parts.metrics;
        let requests = self.grown(own("requests"), metrics.requests_total()) as f64;
        let failed = self.grown(own("failed"), metrics.failed_total()) as f64;
        let tokens: u64 = totals.iter().map(|own| own.output_tokens).sum();
        let spending: signalbox_telemetry::Spending = live.iter().map(|pool| pool.spending).sum();
        let waiting: u64 = live.iter().map(|pool| pool.queue_depth).sum();
        let seconds = self.seconds;
        self.interval.quotients.extend([
            (own("requests_per_s"), requests, seconds),
            (own("errors_per_s"), failed, seconds),
            (own("tokens_per_s"), tokens as f64, seconds),
            (own("in_flight"), metrics.in_flight() as f64, 1.0),
            (own("waiting"), waiting as f64, 1.0),
            (own("cost_usd_per_hour"), spending.per_hour().unwrap_or(f64::NAN), 1.0),
        ]);
    }

    fn cache(&mut self, app: &App, serving: &Serving, totals: &[BackendTotals]) {
        let own = |tier: &str, column: &str| path(["cache", tier, column]);
        for tier in app.caches(&serving.snapshot.policy).into_iter().map(|live| live.tier) {
            let (lookups, hits) = app.parts.metrics.cache().rates(tier);
            let lookups = self.grown(own(tier, "lookups"), lookups) as f64;
            let hits = self.grown(own(tier, "hits"), hits) as f64;
            let seconds = self.seconds;
            self.interval.quotients.push((own(tier, "hits_per_s"), hits, seconds));
            self.interval.quotients.push((own(tier, "hit_ratio"), hits, lookups));
        }
        let prefix = totals.iter().fold(PrefixHits::default(), |sum, own| sum + own.prefix);
        self.interval.quotients.push((own("prefix", "hit_ratio"), prefix.reported as f64, prefix.prompt as f64));
    }

    fn budgets(&mut self, kind: &str, owner: &Name, slos: &[SloLive]) {
        for slo in slos {
            let objective = format!("{kind} {owner} {}", slo.objective);
            self.interval.quotients.push((path(["budgets", &objective, "left"]), slo.budget_left, 1.0));
        }
    }

    /// Counts of a pool's backends since the last call.
    fn grown_backends(&mut self, serving: &Serving, at: usize) -> BackendTotals {
        let pool = &serving.snapshot.pools[at];
        let mut sum = BackendTotals::default();
        for (place, backend) in pool.backends.iter().enumerate() {
            let BackendTotals { requests, errors, output_tokens, prefix } = serving.meter(at, place).totals();
            let mut grown = |column: &str, total| self.grown(path([&pool.spec.name, backend.name(), column]), total);
            sum.requests += grown("requests", requests);
            sum.errors += grown("errors", errors);
            sum.output_tokens += grown("tokens", output_tokens);
            let (prompt, reported) = (grown("prompt", prefix.prompt), grown("reported", prefix.reported));
            sum.prefix = sum.prefix + PrefixHits { prompt, reported, predicted: 0 };
        }
        sum
    }

    /// The growth of a counter since the last call. A smaller one began anew.
    fn grown(&mut self, counter: Path, total: u64) -> u64 {
        let before = self.counts.get(&counter).copied().unwrap_or(0);
        self.now.insert(counter, total);
        total.checked_sub(before).unwrap_or(total)
    }
}

fn path<const N: usize>(names: [&str; N]) -> Path {
    names.into_iter().map(Name::from).collect()
}
