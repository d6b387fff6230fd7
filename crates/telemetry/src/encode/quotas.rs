//! Metrics of the usage of callers, teams and accounts.

use std::fmt;

use prometheus_client::metrics::{
    counter::{ConstCounter, Counter},
    gauge::ConstGauge,
};

use super::{Page, Scrape, Series, table};
use crate::{BudgetLive, KeyMetrics, table::Def};

/// A caller's metric with a label of static strings.
type KeyColumn = (&'static Def, fn(&KeyMetrics) -> &Series<&'static str, Counter>);

/// Metrics of a budget: US dollars spent and their budget, tokens spent and their budget.
type BudgetColumns = [&'static Def; 4];

const TEAM_BUDGETS: BudgetColumns =
    [&table::TEAM_SPENT_USD, &table::TEAM_BUDGET_USD, &table::TEAM_SPENT_TOKENS, &table::TEAM_BUDGET_TOKENS];
const KEY_BUDGETS: BudgetColumns =
    [&table::KEY_SPENT_USD, &table::KEY_BUDGET_USD, &table::KEY_SPENT_TOKENS, &table::KEY_BUDGET_TOKENS];

fn budgets(page: &mut Page<'_>, all: &[BudgetLive], columns: &BudgetColumns) -> fmt::Result {
    let [spent_usd, budget_usd, spent_tokens, budget_tokens] = columns;
    let labels = |it: &BudgetLive| [it.owner.to_string(), it.per.to_owned()];
    page.family(spent_usd, all.iter().map(|it| (labels(it), ConstGauge::new(it.spent_usd))))?;
    page.family(budget_usd, all.iter().filter_map(|it| Some((labels(it), ConstGauge::new(it.budget_usd?)))))?;
    page.family(spent_tokens, all.iter().map(|it| (labels(it), ConstGauge::new(it.spent_tokens))))?;
    page.family(budget_tokens, all.iter().filter_map(|it| Some((labels(it), ConstGauge::new(it.budget_tokens?)))))
}

impl Scrape {
    pub(super) fn quotas(&self, page: &mut Page<'_>) -> fmt::Result {
        let up = self.live.shared_placement.iter().map(|up| ([""; 0], ConstGauge::new(u64::from(*up))));
        page.family(&table::PLACEMENT_SHARED_UP, up)?;
        let placement = self.shared.placement.list().into_iter();
        page.family(&table::PLACEMENT_SHARED, placement.map(|((what, result), it)| ([what, result], it)))?;
        let up = self.live.shared_limits.iter().map(|up| ([""; 0], ConstGauge::new(u64::from(*up))));
        page.family(&table::LIMITS_SHARED_UP, up)?;
        let shared = self.shared.joint.list().into_iter();
        page.family(&table::LIMITS_SHARED, shared.map(|((what, result), it)| ([what, result], it)))?;
        let limited = self.live.limited.iter();
        let limited = limited.map(|(key, limit, count)| ([&**key, *limit], ConstCounter::new(*count)));
        page.family(&table::KEY_LIMITED, limited)?;
        self.keys(page)?;
        budgets(page, &self.live.teams, &TEAM_BUDGETS)?;
        budgets(page, &self.live.key_budgets, &KEY_BUDGETS)?;
        let expires = self.live.key_expiries.iter();
        page.family(&table::KEY_EXPIRES, expires.map(|(key, unix)| ([&**key], ConstGauge::new(*unix))))?;
        let accounts = || self.live.accounts.iter();
        let keys = accounts().flat_map(|it| [("ready", it.ready), ("ejected", it.left_out)].map(|of| (it, of)));
        let keys = keys.map(|(it, (state, count))| ([&*it.account, state], ConstGauge::new(count)));
        page.family(&table::ACCOUNT_KEYS, keys)?;
        let ejected = accounts().map(|it| ([&*it.account], ConstCounter::new(it.ejected)));
        page.family(&table::ACCOUNT_EJECTED, ejected)?;
        let left = accounts().flat_map(|it| it.remaining.iter().map(move |of| (it, of)));
        let left = left.map(|(it, (limit, count))| ([&*it.account, *limit], ConstGauge::new(*count)));
        page.family(&table::ACCOUNT_LEFT, left)
    }
    fn keys(&self, page: &mut Page<'_>) -> fmt::Result {
        let all = &self.live.keys;
        let parts: [KeyColumn; 4] = [
            (&table::KEY_REQUESTS, |key| &key.requests),
            (&table::KEY_TOKENS, |key| &key.tokens),
            (&table::KEY_PREFIX_TOKENS, |key| &key.prefix),
            (&table::PREFIX_CHANGES, |key| &key.prefix_changes),
        ];
        for (def, series) in parts {
            let rows = all.iter().flat_map(|(id, it)| {
                let rows = series(it).list().into_iter();
                rows.map(|(word, counter)| ([id.to_string(), word.to_owned()], counter))
            });
            page.family(def, rows)?;
        }
        page.family(&table::KEY_COST, all.iter().map(|(id, it)| ([&**id], it.cost.clone())))
    }
}
