//! Measured figures, and the groups that the report compares.

use std::collections::BTreeMap;

use signalbox::sim::estimate::mean;

use crate::plays::Figures;

/// One scenario with the figures of every policy, in the order of `Results::policies`.
pub(crate) struct Row {
    /// Name of the trace; `None` for a drawn scenario.
    pub(crate) trace: Option<&'static str>,
    pub(crate) seed: u64,
    pub(crate) load: f64,
    pub(crate) traits: Vec<&'static str>,
    pub(crate) figures: Vec<Figures>,
}

/// All results of a run.
pub(crate) struct Results {
    /// The set of seeds: what it is for and its limits.
    pub(crate) set: String,
    /// Names and descriptions, ours last.
    pub(crate) policies: Vec<(&'static str, &'static str)>,
    pub(crate) rows: Vec<Row>,
    /// Traces that are missing.
    pub(crate) absent: Vec<&'static str>,
}

/// Some rows under one name.
pub(crate) struct Group<'a> {
    pub(crate) name: String,
    pub(crate) rows: Vec<&'a Row>,
}

impl Group<'_> {
    /// A figure of one policy, by seed: plays of one seed at several loads are not independent, so their mean is taken.
    pub(crate) fn figures(&self, policy: usize, of: fn(&Figures) -> f64) -> Vec<f64> {
        let mut seeds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for row in &self.rows {
            seeds.entry(row.seed).or_default().push(of(&row.figures[policy]));
        }
        seeds.values().map(|plays| mean(plays)).collect()
    }
}

impl Results {
    /// Index of our policy.
    pub(crate) fn ours(&self) -> usize {
        self.policies.len() - 1
    }

    /// The rows that `keep` accepts.
    pub(crate) fn group(&self, name: &str, keep: impl Fn(&Row) -> bool) -> Group<'_> {
        Group { name: name.to_owned(), rows: self.rows.iter().filter(|row| keep(row)).collect() }
    }
}
