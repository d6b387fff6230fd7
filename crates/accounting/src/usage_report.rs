//! Reports on keys and teams, for the admin API and for metrics.

use std::sync::Arc;

use dashmap::mapref::multiple::RefMulti;
use serde::Serialize;

use super::callers::Callers;
use signalbox_policy::{Key, Policy};
use signalbox_quota::{Amount, Budget, BudgetAccount, BudgetOwner, Spent, Standing, calendar};
use signalbox_types::{Moment, Name, wall_clock};

/// Status of a key.
#[expect(clippy::struct_excessive_bools, reason = "four facts of a key that do not exclude each other")]
#[derive(Clone, Debug, Serialize)]
pub struct KeyReport {
    /// The key's id.
    pub id: Name,
    /// The key's team, if it has one.
    pub team: Option<Name>,
    /// The time from which the key is rejected, as text; `None` if it does not expire.
    pub expires: Option<String>,
    /// True if the key has expired.
    pub expired: bool,
    /// Further secrets of the key that are accepted now: the times until which they are, `never` for one without an end.
    #[serde(rename = "other_secrets_until")]
    pub replaced: Vec<String>,
    /// True if the key was created over the admin API, not in the policy file.
    pub managed: bool,
    /// The key's own budget, if it has one.
    pub budget: Option<BudgetReport>,
    /// True if the key is revoked.
    pub revoked: bool,
    /// True if the key is in the active policy; revocations of other keys are kept.
    pub in_policy: bool,
    /// The key's limits, what is left of them, and its requests in flight.
    pub standing: Standing,
    /// Refused requests, by limit: requests, tokens, concurrency, budget.
    #[serde(serialize_with = "by_name")]
    pub refused: Vec<(&'static str, u64)>,
}

/// Status of a budget in the current period.
#[derive(Copy, Clone, Debug, Serialize)]
pub struct BudgetReport {
    /// `day` or `month`.
    pub per: &'static str,
    /// Spending in US dollars.
    pub spent_usd: f64,
    /// Spending in tokens.
    pub spent_tokens: u64,
    /// The budget in US dollars, if it has one.
    pub budget_usd: Option<f64>,
    /// The budget in tokens, if it has one.
    pub budget_tokens: Option<u64>,
}

/// Status of a team in the current period.
#[derive(Clone, Debug, Serialize)]
pub struct TeamReport {
    /// The team's name.
    pub team: Name,
    /// The team's budget.
    #[serde(flatten)]
    pub budget: BudgetReport,
}

/// The ends of the further secrets of `key` that are valid at `unix`.
fn replaced(key: &Key, unix: i64) -> Vec<String> {
    let valid = key.also.iter().filter(|other| other.valid_until.is_none_or(|until| until > unix));
    valid.map(|other| other.valid_until.map_or_else(|| "never".to_owned(), calendar::written)).collect()
}

fn by_name<S: serde::Serializer>(counts: &[(&'static str, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counts.iter().copied())
}

impl Callers {
    /// Reports on all keys of `policy`, and on other keys that are revoked.
    pub fn keys(&self, policy: &Policy, now: Moment) -> Vec<KeyReport> {
        let (revoked, unix) = (self.revoked.lock(), wall_clock::seconds());
        let mut all: Vec<_> = policy
            .keys
            .iter()
            .map(|key| {
                let state = self.states.get(&key.id);
                let budget = self.budgets.get(&BudgetOwner::Key(key.id.clone()));
                let standing = state.as_ref().map_or_else(Standing::default, |state| state.allowance.standing(now));
                KeyReport {
                    id: key.id.clone(),
                    team: key.team.clone(),
                    expires: key.expires.map(calendar::written),
                    expired: key.is_expired(unix),
                    replaced: replaced(key, unix),
                    managed: key.managed,
                    budget: budget.map(|account| BudgetReport::new(&account, unix)),
                    revoked: revoked.contains_key(&key.hash),
                    in_policy: true,
                    standing,
                    refused: state.map(|state| state.refused().to_vec()).unwrap_or_default(),
                }
            })
            .collect();
        let others = revoked.iter().filter(|(hash, _)| !policy.keys.iter().any(|key| key.has_hash(hash)));
        all.extend(others.map(|(_, id)| KeyReport {
            id: id.clone(),
            team: None,
            expires: None,
            expired: false,
            replaced: Vec::new(),
            managed: false,
            budget: None,
            revoked: true,
            in_policy: false,
            standing: Standing::default(),
            refused: Vec::new(),
        }));
        all
    }

    /// All budgets with the spending in their period of `unix`, in seconds since 1970.
    pub fn budgets(&self, unix: i64) -> Vec<(BudgetOwner, Budget, Spent)> {
        let standing = |account: RefMulti<'_, BudgetOwner, Arc<BudgetAccount>>| {
            let (budget, spent) = account.standing(unix);
            (account.key().clone(), budget, spent)
        };
        self.budgets.iter().map(standing).collect()
    }

    /// Reports on all teams with a budget.
    pub fn teams(&self) -> Vec<TeamReport> {
        let unix = wall_clock::seconds();
        let mut all = Vec::new();
        for account in &self.budgets {
            if let BudgetOwner::Team(team) = account.key() {
                all.push(TeamReport { team: team.clone(), budget: BudgetReport::new(&account, unix) });
            }
        }
        all.sort_by(|one, other| one.team.cmp(&other.team));
        all
    }
}

impl BudgetReport {
    fn new(account: &BudgetAccount, unix: i64) -> Self {
        let (budget, spent) = account.standing(unix);
        let (budget_usd, budget_tokens) = match budget.amount {
            Amount::Usd(usd) => (Some(usd), None),
            Amount::Tokens(tokens) => (None, Some(tokens)),
        };
        Self { per: budget.per.name(), spent_usd: spent.usd, spent_tokens: spent.tokens, budget_usd, budget_tokens }
    }
}
