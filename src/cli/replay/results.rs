//! What was played, and what came of it, as rows of figures.

use std::path::PathBuf;

use super::engines::Fleet;
use crate::{
    journal_replay::{Entries, Journal, Missing, Tally},
    policy::Policy,
    sim::estimate::Estimate,
};

/// Everything that the report and the plot tell.
pub(super) struct Results {
    pub(super) journal: Journal,
    pub(super) entries: Entries,
    /// By policy.
    pub(super) fleets: Vec<Fleet>,
    /// What really came of the requests.
    pub(super) happened: Tally,
    /// The policies as played: the one that ran, where it was given, then the new one.
    pub(super) columns: Vec<Column>,
    /// What the play leaves out.
    pub(super) caveats: Vec<String>,
    pub(super) seeds: u64,
}

/// A policy as it was played.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) file: PathBuf,
    pub(super) hash: String,
    /// By seed.
    pub(super) tallies: Vec<Tally>,
    /// What it asked of requests that the journal does not have.
    pub(super) missing: Missing,
    /// Most requests that each engine had at once, in the order of the policy.
    pub(super) busiest: Vec<u32>,
}

impl Column {
    /// A figure over the seeds.
    pub(super) fn estimate(&self, of: &dyn Fn(&Tally) -> f64) -> Estimate {
        Estimate::of(&self.tallies.iter().map(of).collect::<Vec<_>>())
    }
}

/// A figure: its name, how many decimals it is told with, and what it is.
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) decimals: usize,
    pub(super) of: Box<dyn Fn(&Tally) -> f64>,
}

impl Results {
    /// The figures that are told, in their order.
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

    /// The pools that answered anywhere, in the order of their first answer.
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

    /// The new policy.
    pub(super) fn priced(&self) -> Option<&Column> {
        self.columns.last()
    }

    /// The policy that ran, where it was played.
    pub(super) fn was(&self) -> Option<&Column> {
        (self.columns.len() > 1).then(|| self.columns.first()).flatten()
    }

    /// How a figure changes: from the policy that ran, as played, since what the models get wrong is then the same on both sides;
    /// where that was not played, from what happened.
    pub(super) fn change(&self, of: &dyn Fn(&Tally) -> f64) -> f64 {
        let before = self.was().map_or_else(|| of(&self.happened), |was| was.estimate(of).mean);
        self.priced().map_or(f64::NAN, |new| new.estimate(of).mean) - before
    }
}

fn percent(part: usize, of: usize) -> f64 {
    part as f64 * 100.0 / of.max(1) as f64
}

/// What a play of `policy` on `entries` leaves out.
pub(super) fn caveats(policy: &Policy, entries: &Entries) -> Vec<String> {
    let mut caveats = vec![
        "an answer is as long as it was, whichever model gives it; where nobody knows how long it was, it is drawn from those to the same model"
            .to_owned(),
    ];
    if !entries.has_blocks() {
        caveats.push(
            "the journal has no hashes of prompts (`journal: { facts: on }` notes them): each has as many tokens cached as it had then, \
             wherever it goes"
                .to_owned(),
        );
    }
    let kept = entries.kept();
    if policy.caching.is_some() {
        caveats.push(format!(
            "of kept answers only the {kept} are played that were given then; which other requests are equal, or mean the same, the \
             journal does not say"
        ));
    } else if kept > 0 {
        caveats
            .push(format!("the {kept} requests that were given kept answers go to engines: this policy has no cache"));
    }
    let cascades = policy.models.rules().filter(|rule| rule.way.routes().iter().any(|route| route.cascade.is_some()));
    let cascades: Vec<String> = cascades.map(|rule| format!("`{}`", rule.name)).collect();
    if !cascades.is_empty() {
        caveats.push(format!(
            "which answers would not pass the checks of {} is not known: none is escalated, and what that costs is left out",
            cascades.join(", ")
        ));
    }
    if !policy.keys.is_empty() || !policy.teams.is_empty() {
        caveats.push("limits of keys, budgets of teams and limits of accounts are not played".to_owned());
    }
    caveats
}
