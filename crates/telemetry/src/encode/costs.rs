//! Metrics of the cost of pools and the fleet.

use std::fmt;

use prometheus_client::metrics::gauge::ConstGauge;

use super::{Page, Scrape, rounded, table};
use crate::Spending;

impl Scrape {
    pub(super) fn costs(&self, page: &mut Page<'_>) -> fmt::Result {
        let all = self.shared.pools.list();
        let paid = all.iter().filter(|(_, it)| it.gpu_cost.get() > 0.0);
        page.family(&table::GPU_COST, paid.map(|(pool, it)| ([&**pool], it.gpu_cost.clone())))?;
        let pools = || self.live.pools.iter();
        let hours = pools().filter_map(|it| Some(([&*it.pool], ConstGauge::new(rounded(it.spending.per_hour()?)))));
        page.family(&table::POOL_HOUR, hours)?;
        let millions =
            pools().filter_map(|it| Some(([&*it.pool], ConstGauge::new(rounded(it.spending.per_million_output()?)))));
        page.family(&table::POOL_MILLION, millions)?;
        let fleet: Spending = pools().map(|it| it.spending).sum();
        page.family(&table::FLEET_HOUR, fleet.per_hour().map(|usd| ([""; 0], ConstGauge::new(rounded(usd)))))?;
        let million = fleet.per_million_output();
        page.family(&table::FLEET_MILLION, million.map(|usd| ([""; 0], ConstGauge::new(rounded(usd)))))
    }
}
