//! Metrics of load at backends, and of engines' own gauges.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use prometheus_client::metrics::{counter::ConstCounter, gauge::ConstGauge};

use super::{Column, Page, Scrape, rounded, table};
use crate::{BackendLive, EngineLive};

/// States of a breaker.
const STATES: [&str; 3] = ["closed", "open", "half_open"];

impl Scrape {
    pub(super) fn live_backends(&self, page: &mut Page<'_>) -> fmt::Result {
        let known: BTreeMap<_, _> = self.live.backends.iter().map(|live| ((&live.pool, &live.backend), live)).collect();
        let rows = known.values().map(|live| ([&*live.pool, &*live.backend], ConstGauge::new(live.in_flight)));
        page.family(&table::BACKEND_IN_FLIGHT, rows)?;
        let used: HashSet<_> = known.values().map(|live| &live.pool).filter(|pool| self.is_used(pool)).collect();
        let gauges: [Column<BackendLive, u64>; 3] = [
            (&table::QUEUED_PROMPT, |live| live.queued_prompt_tokens),
            (&table::DECODING, |live| live.decoding),
            (&table::CONTEXT, |live| live.context_tokens),
        ];
        for (def, value) in gauges {
            let rows = known.values().filter(|live| used.contains(&live.pool));
            page.family(def, rows.map(|live| ([&*live.pool, &*live.backend], ConstGauge::new(value(live)))))?;
        }
        let states = known.values().flat_map(|live| {
            let all = used.contains(&live.pool);
            let shown = STATES.into_iter().filter(move |state| all || *state == live.breaker);
            shown.map(move |state| ([&*live.pool, &*live.backend, state], u64::from(live.breaker == state)))
        });
        page.family(&table::BACKEND_BREAKER, states.map(|(labels, is)| (labels, ConstGauge::new(is))))
    }

    pub(super) fn sources(&self, page: &mut Page<'_>) -> fmt::Result {
        let all = &self.live.sources;
        let rows = all.iter().map(|live| ([&*live.source], ConstGauge::new(live.endpoints)));
        page.family(&table::DISCOVERY_ENDPOINTS, rows)?;
        let rows = all.iter().filter_map(|live| Some(([&*live.source], ConstGauge::new(live.answered?))));
        page.family(&table::DISCOVERY_ANSWERED, rows)?;
        let rows = all.iter().map(|live| ([&*live.source], ConstCounter::new(live.errors)));
        page.family(&table::DISCOVERY_ERRORS, rows)?;
        let mut leaving: BTreeMap<_, u64> = BTreeMap::new();
        for (pool, state) in &self.live.leaving {
            *leaving.entry((&**pool, *state)).or_default() += 1;
        }
        let rows = leaving.into_iter().map(|((pool, state), count)| ([pool, state], ConstGauge::new(count)));
        page.family(&table::BACKENDS_LEAVING, rows)
    }

    pub(super) fn engines(&self, page: &mut Page<'_>) -> fmt::Result {
        let known: BTreeMap<_, _> = self.live.engines.iter().map(|live| (&live.engine, live)).collect();
        let gauges: [Column<EngineLive, Option<f64>>; 13] = [
            (&table::ENGINE_UP, |live| live.up.map(|up| f64::from(u8::from(up)))),
            (&table::ENGINE_SCRAPE_AGE, |live| live.scrape_age),
            (&table::ENGINE_RUNNING, |live| live.running),
            (&table::ENGINE_WAITING, |live| live.waiting),
            (&table::ENGINE_KV_USAGE, |live| live.kv_usage),
            (&table::ENGINE_PREFIX_HITS, |live| live.prefix_hits),
            (&table::ENGINE_HIDDEN_QUEUE, |live| live.hidden_queue),
            (&table::ENGINE_QUEUED_TOKENS, |live| live.queued_tokens),
            (&table::ENGINE_ACCEPT_RATIO, |live| live.drafting.map(|it| rounded(it.ratio))),
            (&table::ENGINE_ACCEPT_LENGTH, |live| live.drafting?.length.map(rounded)),
            (&table::ENGINE_GPU_UTILISATION, |live| live.gpu_utilisation),
            (&table::ENGINE_GPU_MEMORY, |live| live.gpu_memory),
            (&table::ENGINE_ROUND_TRIP, |live| live.round_trip),
        ];
        let row = |live: &EngineLive, value: Option<f64>| Some(([live.engine.to_string()], value?));
        for (def, value) in gauges {
            let rows = known.values().filter_map(|live| row(live, value(live)));
            page.family(def, rows.map(|(labels, value)| (labels, ConstGauge::new(value))))?;
        }
        let rows = known.values().filter_map(|live| row(live, live.preemptions));
        page.family(&table::ENGINE_PREEMPTIONS, rows.map(|(labels, value)| (labels, ConstCounter::new(value))))?;
        let rows = known.values().map(|live| ([live.engine.to_string()], ConstCounter::new(live.restarts)));
        page.family(&table::ENGINE_RESTARTS, rows)?;
        let states = known
            .values()
            .flat_map(|live| STATES.map(|state| (&*live.engine, state, u64::from(live.breaker == state))));
        let rows = states.map(|(engine, state, is)| ([engine, state], ConstGauge::new(is)));
        page.family(&table::ENGINE_BREAKER, rows)?;
        let rows = known.values().map(|live| ([&*live.engine], ConstCounter::new(live.breaker_opened)));
        page.family(&table::ENGINE_OPENED, rows)
    }
}
