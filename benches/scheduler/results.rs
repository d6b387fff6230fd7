//! Measured figures, and the comparisons that the report needs.

use signalbox::sim::{estimate::mean, figures::Figures};

use crate::policies::OURS;

/// A scenario counts as saturated if the best policy has less than this share of requests within the SLO.
const SATURATED: f64 = 0.8;

/// One figure of a run.
pub(crate) type Metric = fn(&Figures) -> f64;

pub(crate) const ATTAINMENT: Metric = |figures| figures.attainment * 100.0;
pub(crate) const TAIL: Metric = |figures| figures.ttft(0.99);

/// One scenario's figures, by policy, then by seed.
pub(crate) struct Row {
    pub(crate) scenario: &'static str,
    pub(crate) plays: Vec<Vec<Figures>>,
}

/// The load sustained in one course, by policy, then by seed.
pub(crate) struct Carried {
    pub(crate) course: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) loads: Vec<Vec<f64>>,
}

/// All results of a run.
pub(crate) struct Results {
    pub(crate) seeds: u64,
    /// Names and descriptions, ours last.
    pub(crate) policies: Vec<(&'static str, &'static str)>,
    pub(crate) rows: Vec<Row>,
    pub(crate) goodput: Vec<Carried>,
    /// Scenarios that were left out because their trace is missing.
    pub(crate) absent: Vec<&'static str>,
}

impl Row {
    /// Returns a figure of one policy, by seed.
    pub(crate) fn seeds(&self, policy: usize, metric: Metric) -> Vec<f64> {
        self.plays[policy].iter().map(metric).collect()
    }

    pub(crate) fn mean(&self, policy: usize, metric: Metric) -> f64 {
        mean(&self.seeds(policy, metric))
    }

    /// True if even the best policy is below the limit.
    pub(crate) fn saturated(&self) -> bool {
        (0..self.plays.len()).all(|policy| self.mean(policy, ATTAINMENT) < SATURATED * 100.0)
    }

    /// Returns the name, marked if the scenario is saturated.
    pub(crate) fn name(&self) -> String {
        if self.saturated() { format!("{} (saturated)", self.scenario) } else { self.scenario.to_owned() }
    }
}

impl Results {
    /// Index of our policy.
    pub(crate) fn ours(&self) -> usize {
        debug_assert_eq!(self.policies.last().map(|policy| policy.0), Some(OURS), "ours is the last one");
        self.policies.len() - 1
    }

    /// Returns the baseline with the best mean, if there is one.
    pub(crate) fn best(&self, of: impl Fn(usize) -> f64) -> Option<usize> {
        (0..self.ours()).max_by(|&one, &other| of(one).total_cmp(&of(other)))
    }

    /// Attainment of the best baseline above ours, at least 0.
    pub(crate) fn regret(&self, row: &Row) -> f64 {
        let best = self.best(|policy| row.mean(policy, ATTAINMENT));
        best.map_or(0.0, |best| (row.mean(best, ATTAINMENT) - row.mean(self.ours(), ATTAINMENT)).max(0.0))
    }

    /// Returns the baselines with the best mean attainment over all scenarios, best first.
    pub(crate) fn leaders(&self, count: usize) -> Vec<usize> {
        let rows: Vec<&Row> = self.rows.iter().collect();
        let overall = |policy: usize| mean(&over(&rows, policy));
        let mut order: Vec<usize> = (0..self.ours()).collect();
        order.sort_by(|&one, &other| overall(other).total_cmp(&overall(one)));
        order.truncate(count);
        order
    }
}

/// Returns the mean attainment of one policy over several scenarios, by seed.
pub(crate) fn over(rows: &[&Row], policy: usize) -> Vec<f64> {
    let seeds = rows.first().map_or(0, |row| row.plays[policy].len());
    (0..seeds)
        .map(|seed| {
            let all: Vec<f64> = rows.iter().map(|row| ATTAINMENT(&row.plays[policy][seed])).collect();
            mean(&all)
        })
        .collect()
}
