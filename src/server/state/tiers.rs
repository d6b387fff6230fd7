//! Routes with tiers as the page reads them: what is wanted of each tier, and what it gets.

use serde::Serialize;

use super::super::house::House;
use crate::{
    policy::{Policy, Tiers, Way},
    schedule::tiers::{Standing, TierStanding},
    types::{Aim, Moment, Name},
};

/// A route that sends what seems hard to its better tiers.
#[derive(Serialize)]
pub(super) struct TieredState {
    route: Name,
    /// What holds its bars, in words.
    aim: String,
    tiers: Vec<TierState>,
    /// Requests that were decided.
    decisions: u64,
    /// The mean quality that answers are expected to have lately, 0 to 1.
    quality: f64,
    /// The quality asked for is beyond what the best tier alone has.
    unreachable: bool,
    /// USD of the requests of the last hour, as they were expected to cost.
    spend_hour: f64,
    /// Requests that went elsewhere than they belong.
    spilled: u64,
    /// Sessions that began, and times that one of them changed its tier.
    sessions: u64,
    flips: u64,
    /// Labels that it learned from, and how often that made better weights.
    labels: u64,
    promotions: u64,
}

/// A tier. Shares are of about the last thousand requests.
#[derive(Serialize)]
struct TierState {
    pool: Name,
    /// The share that the policy wants here, where it says so.
    wanted: Option<f64>,
    /// That belong here by their prompts.
    by_prompt: f64,
    /// That belong here with their sessions.
    belongs: f64,
    /// That were sent here.
    sent: f64,
    /// Requests sent here since the start.
    requests: u64,
    /// Where the next tier begins: a score with shares, else the quality that a USD has to buy; `None` for the best tier.
    bar: Option<f64>,
}

/// Every route of `policy` with tiers that has decided anything, by name.
pub(super) fn tiered(house: &House, policy: &Policy, now: Moment) -> Vec<TieredState> {
    let learned = house.desk.lessons.tallies();
    let tiers_of = |name: &Name| {
        policy.models.rules().find_map(|rule| match &rule.way {
            Way::Tiers(tiers) if rule.name == *name => Some(tiers),
            _ => None,
        })
    };
    let state = |(route, standing): (Name, Standing)| {
        let tiers = tiers_of(&route)?;
        let tally = learned.iter().find(|(name, _)| *name == route).map(|(_, tally)| *tally).unwrap_or_default();
        Some(TieredState {
            aim: aim(&tiers.aim),
            tiers: tier_states(policy, tiers, &standing),
            decisions: standing.decisions,
            quality: standing.quality,
            unreachable: standing.unreachable,
            spend_hour: standing.spend_hour,
            spilled: standing.spilled,
            sessions: standing.sessions,
            flips: standing.flips,
            labels: tally.feedback + tally.re_ask + tally.pairs,
            promotions: tally.promotions,
            route,
        })
    };
    let decided = house.desk.standings(now).into_iter().filter(|(_, standing)| standing.decisions > 0);
    decided.filter_map(state).collect()
}

fn tier_states(policy: &Policy, tiers: &Tiers, standing: &Standing) -> Vec<TierState> {
    let shares: &[f64] = if let Aim::Shares(shares) = &tiers.aim { shares } else { &[] };
    let sum: f64 = shares.iter().sum();
    let pool = |at: usize| {
        let target = tiers.routes.get(at)?.targets.first()?;
        policy.pools.get(target.pool).map(|pool| pool.name.clone())
    };
    let state = |(at, tier): (usize, &TierStanding)| {
        Some(TierState {
            pool: pool(at)?,
            wanted: shares.get(at).map(|share| share / sum).filter(|share| share.is_finite()),
            by_prompt: tier.intended_share,
            belongs: tier.settled_share,
            sent: tier.served_share,
            requests: tier.served,
            bar: standing.bars.get(at).copied().filter(|bar| bar.is_finite()),
        })
    };
    standing.tiers.iter().enumerate().filter_map(state).collect()
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
