//! Metrics of objectives and their error budgets.

use std::fmt;

use prometheus_client::{
    encoding::EncodeMetric,
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

use super::{Scrape, table};
use crate::{SloLive, page::Page, table::Def};
use signalbox_measure::BudgetState;

impl Scrape {
    pub(super) fn slos(&self, page: &mut Page<'_>) -> fmt::Result {
        self.slo(page, &table::SLO_GOOD, |it| ConstCounter::new(it.good))?;
        self.slo(page, &table::SLO_REQUESTS, |it| ConstCounter::new(it.total))?;
        self.slo(page, &table::SLO_TARGET, |it| ConstGauge::new(it.target))?;
        self.slo_split(page, &table::SLO_BURN, |it| {
            it.burn.0.iter().map(|(window, rate)| (window.clone(), *rate)).collect()
        })?;
        self.slo(page, &table::SLO_LEFT, |it| ConstGauge::new(it.budget_left))?;
        self.slo_split(page, &table::SLO_STATE, |it| {
            let one = |state: BudgetState| (state.label().to_owned(), f64::from(u8::from(state.label() == it.state)));
            BudgetState::ALL.map(one).into()
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
    fn slo_split(
        &self,
        page: &mut Page<'_>,
        def: &Def,
        values: impl Fn(&SloLive) -> Vec<(String, f64)>,
    ) -> fmt::Result {
        let rows = self.each_slo().flat_map(|([pool, route], it)| {
            let values = values(it).into_iter();
            values.map(move |(word, value)| {
                ([pool.to_owned(), route.to_owned(), it.objective.to_string(), word], ConstGauge::new(value))
            })
        });
        page.family(def, rows)
    }
}
