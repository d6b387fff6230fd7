//! Compiles teams and their budgets, the storage of usage, and limits shared between gateways.

use super::{
    engines::Engines,
    reader::{Reader, unknown},
    redis::ServerFields,
};
use crate::{
    Account, Audience, Backend, Pool, SharedLimits, Team, USAGE_RETENTION, Usage, defaults::SHARED_LIMITS_TIMEOUT,
};
use signalbox_config::{Located, Problem, Word, access::Keys, keys as raw, nearest, raw::Document};
use signalbox_quota::{Amount, Budget};
use signalbox_types::Name;

impl Reader<'_> {
    pub(super) fn teams(&mut self, document: &Document) -> Vec<Team> {
        let Some(all) = &document.teams else { return Vec::new() };
        let names = || all.entries.iter().map(|(name, _)| name.text());
        let keys = document
            .keys
            .iter()
            .filter_map(Keys::list)
            .flat_map(|keys| &keys.value)
            .filter_map(|key| key.team.as_ref());
        for field in keys {
            // Invalid values have been reported already.
            let Ok(Word(team)) = self.config.read(field) else { continue };
            if names().all(|name| name != team) {
                // A misspelt team would have no budget.
                self.report(unknown("team", field.text(), field.at(), nearest(&team, names())));
            }
        }
        let mut teams = Vec::with_capacity(all.entries.len());
        for (key, raw) in &all.entries {
            let name = self.name(key);
            if let Some(budget) = raw.budget.as_ref().and_then(|raw| self.budget(raw)) {
                teams.push(Team { name, budget });
            }
        }
        teams
    }

    /// Lets the requests of teams with accounts of their own go to the same backends through these accounts. Returns
    /// those teams.
    pub(super) fn team_accounts(
        &mut self,
        document: &Document,
        accounts: &[Account],
        engines: &mut Engines,
        pools: &mut [Pool],
    ) -> Vec<Name> {
        let mut paying = Vec::new();
        let names = || accounts.iter().map(|account| &*account.name);
        for (team, raw) in document.teams.iter().flat_map(|teams| &teams.entries) {
            for (from, to) in raw.accounts.iter().flat_map(|own| &own.entries) {
                let payer = self.find("account", to, names());
                let Some(usual) = names().position(|name| name == from.text()) else {
                    self.report(unknown("account", from.text(), from.at(), nearest(from.text(), names())));
                    continue;
                };
                let Some(payer) = payer else { continue };
                let uses = |backend: &Backend| engines.list[backend.engine].account == Some(usual);
                if payer == usual || !pools.iter().flat_map(|pool| &pool.backends).any(uses) {
                    let message = if payer == usual {
                        format!("team `{}` would replace the account `{}` by itself", team.text(), from.text())
                    } else {
                        format!("no backend is paid by the account `{}`", from.text())
                    };
                    self.report(Problem::at(from.at(), message).help(
                        "name an account that engines use, and the team's own in its place: `accounts: { openai: openai-search }`",
                    ));
                    continue;
                }
                let team = Name::from(team.text());
                for pool in pools.iter_mut() {
                    divert(pool, &team, (usual, payer), engines, accounts);
                }
                if !paying.contains(&team) {
                    paying.push(team);
                }
            }
        }
        paying
    }

    pub(super) fn budget(&mut self, Located { value: raw, at }: &Located<raw::Budget>) -> Option<Budget> {
        let (usd, tokens) = (self.optional(raw.usd.as_ref()), self.optional(raw.tokens.as_ref()));
        self.optional(raw.on_exceeded.as_ref());
        let per = self.read(&raw.per)?;
        let amount = match (&raw.usd, &raw.tokens) {
            (Some(_), None) => Amount::Usd(usd?),
            (None, Some(_)) => Amount::Tokens(tokens?),
            (Some(_), Some(field)) => {
                self.report(
                    Problem::at(field.at(), "a budget in US dollars and in tokens").help("keep one of the two"),
                );
                return None;
            }
            (None, None) => {
                self.report(
                    Problem::at(*at, "a budget without an amount")
                        .help("set it: `budget: { usd: 500, per: month }`, or `tokens: 10M`"),
                );
                return None;
            }
        };
        Some(Budget { amount, per })
    }

    pub(super) fn usage(&mut self, raw: &raw::Usage) -> Option<Usage> {
        let path = self.config.path(&raw.path).map_err(|problem| self.report(problem)).ok();
        let retention = self.or(raw.retention.as_ref(), USAGE_RETENTION);
        Some(Usage { path: path?, retention })
    }

    pub(super) fn allows_unknown_objects(&mut self, raw: Option<&raw::Objects>) -> bool {
        self.or(raw.and_then(|raw| raw.unknown.as_ref()), raw::Unknown::Refuse) == raw::Unknown::Allow
    }

    pub(super) fn shared_limits(&mut self, document: &Document) -> Option<SharedLimits> {
        let raw = document.limits.as_ref()?.shared.as_ref()?;
        if document.keys.is_none() && document.managed_keys.is_none() {
            self.report(
                Problem::at(raw.url.at(), "keys are not required, so there is nothing to count together")
                    .help("add `keys` with `limits`, or remove `shared` from `limits`"),
            );
        }
        let raw::SharedLimits { url, user, password, tls, sentinel, prefix, .. } = raw;
        let server = self.redis(&ServerFields { url, user, password, tls, sentinel, prefix })?;
        Some(SharedLimits { server, timeout: self.or(raw.timeout.as_ref(), SHARED_LIMITS_TIMEOUT) })
    }
}

/// Adds a copy of each backend that the account `usual` pays for: it takes the requests of `team` alone and is paid by
/// the account `payer`.
fn divert(pool: &mut Pool, team: &Name, (usual, payer): (usize, usize), engines: &mut Engines, accounts: &[Account]) {
    let mut own = Vec::new();
    for backend in &mut pool.backends {
        let teams: Vec<Name> = match &backend.audience {
            Audience::Team(_) => continue,
            _ if engines.list[backend.engine].account != Some(usual) => continue,
            Audience::All => vec![team.clone()],
            Audience::Others(teams) => teams.iter().chain([team]).cloned().collect(),
        };
        let engine = engines.paid_by(backend.engine, payer, accounts);
        own.push(Backend { engine, audience: Audience::Team(team.clone()), ..backend.clone() });
        backend.audience = Audience::Others(teams.into());
    }
    pool.backends.append(&mut own);
}
