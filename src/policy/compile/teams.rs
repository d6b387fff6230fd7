//! Compiles teams and their budgets, the storage of usage, and limits shared between gateways.

use super::reader::{Reader, unknown};
use crate::{
    config::{Located, Problem, Word, access::Keys, keys as raw, nearest, raw::Document},
    policy::{SharedLimits, Team, USAGE_RETENTION, Usage, defaults::SHARED_LIMITS_TIMEOUT},
    quota::{Amount, Budget},
};

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
        let url = self.redis(&raw.url)?;
        Some(SharedLimits { url, timeout: self.or(raw.timeout.as_ref(), SHARED_LIMITS_TIMEOUT) })
    }
}
