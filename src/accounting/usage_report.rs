//! How callers and teams stand, for operators and for metrics.

use serde::Serialize;

use super::callers::Callers;
use crate::{
    measure::lock,
    policy::Policy,
    quota::{Amount, Standing},
    types::{Moment, Name, wall_clock},
};

/// How a key stands.
#[derive(Clone, Debug, Serialize)]
pub struct KeyReport {
    /// Its id.
    pub id: Name,
    /// Its team, if it has one.
    pub team: Option<Name>,
    /// Whether it was revoked.
    pub revoked: bool,
    /// Whether it is in the policy in force; revocations of others are remembered.
    pub in_policy: bool,
    /// Its limits, what is left of them, and what is under way.
    pub standing: Standing,
    /// Requests that were refused, by limit: requests, tokens, concurrency, budget.
    #[serde(serialize_with = "by_name")]
    pub refused: Vec<(&'static str, u64)>,
}

/// How a team stands in the present period.
#[derive(Clone, Debug, Serialize)]
pub struct TeamReport {
    /// Its name.
    pub team: Name,
    /// `day` or `month`.
    pub per: &'static str,
    /// What it spent, in US dollars.
    pub spent_usd: f64,
    /// What it spent, in tokens.
    pub spent_tokens: u64,
    /// What it may spend, in US dollars, where it is limited by that.
    pub budget_usd: Option<f64>,
    /// What it may spend, in tokens, where it is limited by that.
    pub budget_tokens: Option<u64>,
}

fn by_name<S: serde::Serializer>(counts: &[(&'static str, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counts.iter().copied())
}

impl Callers {
    /// How every key of `policy` stands, and every other that is revoked.
    pub fn keys(&self, policy: &Policy, now: Moment) -> Vec<KeyReport> {
        let revoked = lock(&self.revoked);
        let mut all: Vec<_> = policy
            .keys
            .iter()
            .map(|key| {
                let known = self.known.get(&key.id);
                let standing = known.as_ref().map_or_else(Standing::default, |known| known.allowance.standing(now));
                KeyReport {
                    id: key.id.clone(),
                    team: key.team.clone(),
                    revoked: revoked.contains_key(&key.hash),
                    in_policy: true,
                    standing,
                    refused: known.map(|known| known.refused().to_vec()).unwrap_or_default(),
                }
            })
            .collect();
        let others = revoked.iter().filter(|(hash, _)| policy.keys.iter().all(|key| key.hash != **hash));
        all.extend(others.map(|(_, id)| KeyReport {
            id: id.clone(),
            team: None,
            revoked: true,
            in_policy: false,
            standing: Standing::default(),
            refused: Vec::new(),
        }));
        all
    }

    /// How every team with a budget stands.
    pub fn teams(&self) -> Vec<TeamReport> {
        let unix = wall_clock::seconds();
        let told =
            |fund: dashmap::mapref::multiple::RefMulti<'_, Name, std::sync::Arc<crate::quota::BudgetAccount>>| {
                let (budget, spent) = fund.standing(unix);
                let (budget_usd, budget_tokens) = match budget.amount {
                    Amount::Usd(usd) => (Some(usd), None),
                    Amount::Tokens(tokens) => (None, Some(tokens)),
                };
                TeamReport {
                    team: fund.key().clone(),
                    per: budget.per.name(),
                    spent_usd: spent.usd,
                    spent_tokens: spent.tokens,
                    budget_usd,
                    budget_tokens,
                }
            };
        let mut all: Vec<_> = self.funds.iter().map(told).collect();
        all.sort_by(|one, other| one.team.cmp(&other.team));
        all
    }
}
