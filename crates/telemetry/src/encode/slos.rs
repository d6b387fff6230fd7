//! Metrics of objectives and their error budgets.

use std::fmt;

use prometheus_client::{
    encoding::EncodeMetric,
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

use super::{Scrape, table};
use crate::{BurnLive, SloLive, page::Page, table::Def};
use signalbox_measure::BudgetState;

impl Scrape {
    pub(super) fn slos(&self, page: &mut Page<'_>) -> fmt::Result {
        self.slo(page, &table::SLO_GOOD, |it| ConstCounter::new(it.good))?;
        self.slo(page, &table::SLO_REQUESTS, |it| ConstCounter::new(it.total))?;
        self.slo(page, &table::SLO_TARGET, |it| ConstGauge::new(it.target))?;
        self.slo_split(page, &table::SLO_BURN, |it| {
            let BurnLive { five_minutes, hour, six_hours, three_days } = it.burn;
            [("5m", five_minutes), ("1h", hour), ("6h", six_hours), ("3d", three_days)]
        })?;
        self.slo(page, &table::SLO_LEFT, |it| ConstGauge::new(it.budget_left))?;
        self.slo_split(page, &table::SLO_STATE, |it| {
            BudgetState::ALL.map(|state| (state.label(), f64::from(u8::from(state.label() == it.state))))
        })
    }

    /// All objectives, with their pool or route.
    fn each_slo(&self) -> impl Iterator<Item = ([&str; 2], &SloLive)> {
        let pools = self.live.pool_slos.iter().map(|(pool, slos)| ([&**pool, ""], slos));
        let routes = self.live.route_slos.iter().map(|(route, slos)| (["", &**route], slos));
        pools.chain(routes).flat_map(|(of, slos)| slos.iter().map(move |slo| (of, slo)))
    }

    fn slo<M: EncodeMetric>(&self, page: &mut Page<'_>, def: &Def, metric: impl Fn(&SloLive) -> M) -> fmt::Result {
        page.family(def, self.each_slo().map(|([pool, route], it)| ([pool, route, &*it.objective], metric(it))))
    }

    /// Writes a gauge with one more label.
    fn slo_split<const N: usize>(
        &self,
        page: &mut Page<'_>,
        def: &Def,
        values: impl Fn(&SloLive) -> [(&'static str, f64); N],
    ) -> fmt::Result {
        let rows = self.each_slo().flat_map(|([pool, route], it)| {
            values(it).map(|(word, value)| ([pool, route, &*it.objective, word], ConstGauge::new(value)))
        });
        page.family(def, rows)
    }
}
