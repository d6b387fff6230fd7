//! Routes with tiers as the page reads them: what is wanted of each tier, and what it gets.

use serde::Serialize;

use super::super::app::App;
use crate::{
    gateway::lessons::Tally,
    policy::{Policy, Tiers},
    schedule::tiers::Standing,
    types::{Aim, Moment, Name},
};

/// A route that sends what seems hard to its better tiers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TieredState {
    route: Name,
    /// What holds its bars, in words.
    aim: String,
    /// The pool that each tier begins with.
    pools: Vec<Name>,
    /// The share that the policy wants for each tier, where it says so; empty otherwise.
    wanted: Vec<f64>,
    standing: Standing,
    learned: Tally,
}

/// Every route of `policy` with tiers that has decided anything, by name.
pub(super) fn tiered(app: &App, policy: &Policy, now: Moment) -> Vec<TieredState> {
    let learned = app.desk.lessons.tallies();
    let state = |(route, standing): (Name, Standing)| {
        let (_, tiers) = policy.models.tiered().find(|(name, _)| **name == route)?;
        let learned = learned.iter().find(|(name, _)| *name == route).map(|(_, tally)| *tally).unwrap_or_default();
        let (aim, pools, wanted) = (aim(&tiers.aim), pools(policy, tiers), wanted(&tiers.aim));
        Some(TieredState { route, aim, pools, wanted, standing, learned })
    };
    let decided = app.desk.standings(now).into_iter().filter(|(_, standing)| standing.decisions > 0);
    decided.filter_map(state).collect()
}

fn pools(policy: &Policy, tiers: &Tiers) -> Vec<Name> {
    let first = tiers.routes.iter().filter_map(|route| route.targets.first());
    first.filter_map(|target| policy.pools.get(target.pool)).map(|pool| pool.name.clone()).collect()
}

fn wanted(aim: &Aim) -> Vec<f64> {
    let Aim::Shares(shares) = aim else { return Vec::new() };
    let sum: f64 = shares.iter().sum();
    shares.iter().map(|share| share / sum).collect()
}

/// What holds the bars, in words.
fn aim(aim: &Aim) -> String {
    match aim {
        Aim::Shares(_) => "shares of requests".to_owned(),
        Aim::MinQuality(quality) => format!("a quality of {quality} at least"),
        Aim::ValuePerPoint { usd, .. } => format!("${usd} for a point of quality"),
        Aim::MaxSpendPerHour(usd) => format!("${usd} an hour at most"),
    }
}
