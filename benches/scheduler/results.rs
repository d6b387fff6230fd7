//! What was measured, and the questions that the report asks of it.

use signalbox::sim::{estimate::mean, figures::Figures};

use crate::policies::OURS;

/// Below this share of requests within the SLO, with the best policy, a scenario counts as saturated.
const SATURATED: f64 = 0.8;

/// One figure of a play.
pub(crate) type Metric = fn(&Figures) -> f64;

pub(crate) const ATTAINMENT: Metric = |figures| figures.attainment * 100.0;
pub(crate) const TAIL: Metric = |figures| figures.ttft(0.99);

/// One scenario: by policy, then by seed.
pub(crate) struct Row {
    pub(crate) scenario: &'static str,
    pub(crate) plays: Vec<Vec<Figures>>,
}

/// The load carried in one course: by policy, then by seed.
pub(crate) struct Carried {
    pub(crate) course: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) loads: Vec<Vec<f64>>,
}

/// Everything.
pub(crate) struct Results {
    pub(crate) seeds: u64,
    /// Names and descriptions, ours last.
    pub(crate) policies: Vec<(&'static str, &'static str)>,
    pub(crate) rows: Vec<Row>,
    pub(crate) goodput: Vec<Carried>,
    /// What was not played because its trace is not here.
    pub(crate) absent: Vec<&'static str>,
}

impl Row {
    /// A figure of one policy, by seed.
    pub(crate) fn seeds(&self, policy: usize, metric: Metric) -> Vec<f64> {
        self.plays[policy].iter().map(metric).collect()
    }

    pub(crate) fn mean(&self, policy: usize, metric: Metric) -> f64 {
        mean(&self.seeds(policy, metric))
    }

    /// Whether even the best policy fails many.
    pub(crate) fn saturated(&self) -> bool {
        (0..self.plays.len()).all(|policy| self.mean(policy, ATTAINMENT) < SATURATED * 100.0)
    }

    /// The name, with a mark where it is saturated.
    pub(crate) fn name(&self) -> String {
        if self.saturated() { format!("{} (saturated)", self.scenario) } else { self.scenario.to_owned() }
    }
}

impl Results {
    /// The place of ours.
    pub(crate) fn ours(&self) -> usize {
        debug_assert_eq!(self.policies.last().map(|policy| policy.0), Some(OURS), "ours is the last one");
        self.policies.len() - 1
    }

    /// The baseline with the best mean, if there is one.
    pub(crate) fn best(&self, of: impl Fn(usize) -> f64) -> Option<usize> {
        (0..self.ours()).max_by(|&one, &other| of(one).total_cmp(&of(other)))
    }

    /// How much more the best baseline attains than ours, if it does.
    pub(crate) fn regret(&self, row: &Row) -> f64 {
        let best = self.best(|policy| row.mean(policy, ATTAINMENT));
        best.map_or(0.0, |best| (row.mean(best, ATTAINMENT) - row.mean(self.ours(), ATTAINMENT)).max(0.0))
    }

    /// The baselines with the best mean attainment over all scenarios, the best first.
    pub(crate) fn leaders(&self, count: usize) -> Vec<usize> {
        let rows: Vec<&Row> = self.rows.iter().collect();
        let overall = |policy: usize| mean(&over(&rows, policy));
        let mut order: Vec<usize> = (0..self.ours()).collect();
        order.sort_by(|&one, &other| overall(other).total_cmp(&overall(one)));
        order.truncate(count);
        order
    }
}

/// The attainment of one policy, by seed, as the mean over several scenarios.
pub(crate) fn over(rows: &[&Row], policy: usize) -> Vec<f64> {
    let seeds = rows.first().map_or(0, |row| row.plays[policy].len());
    (0..seeds)
        .map(|seed| {
            let all: Vec<f64> = rows.iter().map(|row| ATTAINMENT(&row.plays[policy][seed])).collect();
            mean(&all)
        })
        .collect()
}
