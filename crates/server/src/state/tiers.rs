//! State of routes with tiers in `/admin/state`.

use serde::Serialize;

use crate::app::App;
use signalbox_learning::Tally;
use signalbox_policy::{Policy, Tiers};
use signalbox_schedule::tiers::Standing;
use signalbox_types::{Aim, Moment, Name};

/// A route that sends harder prompts to better tiers.
#[derive(Clone, Debug, Serialize)]
pub struct TieredState {
    route: Name,
    /// Aim that the thresholds follow, in words.
    aim: String,
    /// First pool of each tier.
    pools: Vec<Name>,
    /// Share of each tier that the policy asks for; empty if it sets another aim.
    wanted: Vec<f64>,
    standing: Standing,
    learned: Tally,
}

/// Every route of `policy` with tiers that has made a decision, by name.
pub(super) fn tiered(app: &App, policy: &Policy, now: Moment) -> Vec<TieredState> {
    let learned = app.parts.learning.tiers.tallies();
    let state = |(route, standing): (Name, Standing)| {
        let (_, tiers) = policy.models.tiered().find(|(name, _)| **name == route)?;
        let learned = learned.iter().find(|(name, _)| *name == route).map(|(_, tally)| *tally).unwrap_or_default();
        let (aim, pools, wanted) = (aim(&tiers.aim), pools(policy, tiers), wanted(&tiers.aim));
        Some(TieredState { route, aim, pools, wanted, standing, learned })
    };
    let decided = app.parts.learning.standings(now).into_iter().filter(|(_, standing)| standing.decisions > 0);
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

/// Describes the aim.
fn aim(aim: &Aim) -> String {
    match aim {
        Aim::Shares(_) => "shares of requests".to_owned(),
        Aim::MinQuality(quality) => format!("a quality of at least {quality}"),
        Aim::ValuePerPoint { usd, .. } => format!("${usd} per point of quality"),
        Aim::MaxSpendPerHour(usd) => format!("at most ${usd} per hour"),
    }
}
