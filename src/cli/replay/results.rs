//! Results of a replay, as rows of figures.

use std::path::PathBuf;

use super::engines::Fleet;
use signalbox_journal_replay::{Entries, Journal, Missing, Tally};
use signalbox_policy::Policy;
use signalbox_sim::estimate::Estimate;

/// Everything in the report and the chart.
pub(super) struct Results {
    pub(super) journal: Journal,
    pub(super) entries: Entries,
    /// By policy.
    pub(super) fleets: Vec<Fleet>,
    /// Metrics of the recorded outcomes.
    pub(super) happened: Tally,
    /// Policies as played: the one that ran, if given, then the new one.
    pub(super) columns: Vec<Column>,
    /// Limitations of the play.
    pub(super) caveats: Vec<String>,
    pub(super) seeds: u64,
}

/// A policy as played.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) file: PathBuf,
    pub(super) hash: String,
    /// By seed.
    pub(super) tallies: Vec<Tally>,
    /// Variables that it used and the journal lacks.
    pub(super) missing: Missing,
    /// Most concurrent requests of each engine, in the order of the policy.
    pub(super) busiest: Vec<u32>,
}

impl Column {
    /// Estimate of a figure over the seeds.
    pub(super) fn estimate(&self, of: &dyn Fn(&Tally) -> f64) -> Estimate {
        Estimate::of(&self.tallies.iter().map(of).collect::<Vec<_>>())
    }
}

/// A figure: name, decimals and value.
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) decimals: usize,
    pub(super) of: Box<dyn Fn(&Tally) -> f64>,
}

impl Results {
    /// All figures, in order.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let figure =
            |name: &str, decimals, of: Box<dyn Fn(&Tally) -> f64>| Figure { name: name.to_owned(), decimals, of };
        let mut figures: Vec<Figure> = Vec::new();
        for pool in self.pools() {
            let name = format!("answers by {pool}, %");
            figures.push(figure(&name, 1, Box::new(move |tally| tally.share(&pool) * 100.0)));
        }
        for (name, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
            let of = Box::new(move |tally: &Tally| tally.ttft(share) * 1e3);
            figures.push(figure(&format!("TTFT {name}, ms"), 0, of));
        }
        for (name, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
            let of = Box::new(move |tally: &Tally| tally.tpot(share) * 1e3);
            figures.push(figure(&format!("TPOT {name}, ms"), 1, of));
        }
        let share = |of: fn(&Tally) -> usize| Box::new(move |tally: &Tally| percent(of(tally), tally.requests));
        figures.push(figure("in SLO, %", 1, Box::new(|tally| tally.attainment * 100.0)));
        figures.push(figure("cost, USD", 4, Box::new(|tally| tally.cost.unwrap_or(f64::NAN))));
        figures.push(figure("prompt tokens cached, %", 1, Box::new(|tally| tally.cached * 100.0)));
        figures.push(figure("kept answers given, %", 1, share(|tally| tally.kept)));
        figures.push(figure("refused, %", 1, share(Tally::refusals)));
        figures.push(figure("failed, %", 1, share(|tally| tally.failed)));
        figures
    }

    /// Pools that answered anywhere, in order of their first answer.
    pub(super) fn pools(&self) -> Vec<String> {
        let mut pools: Vec<String> = Vec::new();
        let tallies = [&self.happened].into_iter().chain(self.columns.iter().flat_map(|column| &column.tallies));
        for (pool, _) in tallies.flat_map(|tally| &tally.pools) {
            if !pools.contains(pool) {
                pools.push(pool.clone());
            }
        }
        pools
    }

    /// The column of the policy under evaluation (the last one).
    pub(super) fn priced(&self) -> Option<&Column> {
        self.columns.last()
    }

    /// The policy that ran, if it was played.
    pub(super) fn was(&self) -> Option<&Column> {
        (self.columns.len() > 1).then(|| self.columns.first()).flatten()
    }

    /// Change of a figure against the policy that ran, as played, since errors of the models then cancel; without it, against what
    /// happened.
    pub(super) fn change(&self, of: &dyn Fn(&Tally) -> f64) -> f64 {
        let before = self.was().map_or_else(|| of(&self.happened), |was| was.estimate(of).mean);
        self.priced().map_or(f64::NAN, |new| new.estimate(of).mean) - before
    }
}

fn percent(part: usize, of: usize) -> f64 {
    part as f64 * 100.0 / of.max(1) as f64
}

/// Limitations of a play of `policy` on `entries`.
pub(super) fn caveats(policy: &Policy, entries: &Entries) -> Vec<String> {
    let mut caveats = vec![
        "answers keep their recorded length, whichever model gives them; an unknown length is drawn from answers of the same model"
            .to_owned(),
    ];
    if !entries.has_blocks() {
        caveats.push(
            "the journal has no prompt hashes (`journal: { facts: on }` records them): each prompt has as many cached tokens as it had then, \
             on any engine"
                .to_owned(),
        );
    }
    let kept = entries.kept();
    if policy.caching.is_some() {
        caveats.push(format!(
            "only the {kept} recorded cache hits are played; the journal does not show which other requests are equal or mean \
             the same"
        ));
    } else if kept > 0 {
        caveats.push(format!("the {kept} requests that were cache hits go to engines: this policy has no cache"));
    }
    let cascades = policy.models.rules().filter(|rule| rule.way.routes().iter().any(|route| route.cascade.is_some()));
    let cascades: Vec<String> = cascades.map(|rule| format!("`{}`", rule.name)).collect();
    if !cascades.is_empty() {
        caveats.push(format!(
            "it is unknown which answers would fail the checks of {}: none is escalated, and that cost is left out",
            cascades.join(", ")
        ));
    }
    if policy.asks_keys() || !policy.teams.is_empty() {
        caveats.push("limits of keys, budgets of teams and limits of accounts are not simulated".to_owned());
    }
    caveats
}
