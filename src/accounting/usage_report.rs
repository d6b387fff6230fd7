//! Reports on keys and teams, for the admin API and for metrics.

use serde::Serialize;

use super::callers::Callers;
use crate::{
    policy::Policy,
    quota::{Amount, Standing},
    telemetry::TeamLive,
    types::{Moment, Name, wall_clock},
};

/// Status of a key.
#[derive(Clone, Debug, Serialize)]
pub struct KeyReport {
    /// Its id.
    pub id: Name,
    /// Its team, if it has one.
    pub team: Option<Name>,
    /// True if it is revoked.
    pub revoked: bool,
    /// True if it is in the active policy; revocations of other keys are kept.
    pub in_policy: bool,
    /// Its limits, what is left of them, and its running requests.
    pub standing: Standing,
    /// Refused requests, by limit: requests, tokens, concurrency, budget.
    #[serde(serialize_with = "by_name")]
    pub refused: Vec<(&'static str, u64)>,
}

fn by_name<S: serde::Serializer>(counts: &[(&'static str, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counts.iter().copied())
}

impl Callers {
    /// Reports on all keys of `policy`, and on other keys that are revoked.
    pub fn keys(&self, policy: &Policy, now: Moment) -> Vec<KeyReport> {
        let revoked = self.revoked.lock();
        let mut all: Vec<_> = policy
            .keys
            .iter()
            .map(|key| {
                let state = self.states.get(&key.id);
                let standing = state.as_ref().map_or_else(Standing::default, |state| state.allowance.standing(now));
                KeyReport {
                    id: key.id.clone(),
                    team: key.team.clone(),
                    revoked: revoked.contains_key(&key.hash),
                    in_policy: true,
                    standing,
                    refused: state.map(|state| state.refused().to_vec()).unwrap_or_default(),
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

    /// Reports on all teams with a budget.
    pub fn teams(&self) -> Vec<TeamLive> {
        let unix = wall_clock::seconds();
        let report =
            |fund: dashmap::mapref::multiple::RefMulti<'_, Name, std::sync::Arc<crate::quota::BudgetAccount>>| {
                let (budget, spent) = fund.standing(unix);
                let (budget_usd, budget_tokens) = match budget.amount {
                    Amount::Usd(usd) => (Some(usd), None),
                    Amount::Tokens(tokens) => (None, Some(tokens)),
                };
                TeamLive {
                    team: fund.key().clone(),
                    per: budget.per.name(),
                    spent_usd: spent.usd,
                    spent_tokens: spent.tokens,
                    budget_usd,
                    budget_tokens,
                }
            };
        let mut all: Vec<_> = self.funds.iter().map(report).collect();
        all.sort_by(|one, other| one.team.cmp(&other.team));
        all
    }
}
