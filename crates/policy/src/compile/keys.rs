//! Compiles callers' keys: access, models and limits.

use std::collections::HashSet;

use super::reader::{Reader, unknown};
use crate::{Key, ModelGlob, ModelTable, OtherSecret, PRIORITY, Pool};
use signalbox_config::{
    Field, KeyHash, Located, Problem, Switch, Word,
    keys::{self as raw, Expiry, Priority},
    nearest,
};
use signalbox_quota::RateLimits;
use signalbox_types::Endpoint;

impl Reader<'_> {
    pub(super) fn keys(&mut self, raw: Option<&Located<Vec<raw::Key>>>) -> Vec<Key> {
        let Some(raw) = raw else { return Vec::new() };
        if raw.value.is_empty() {
            self.report(
                Problem::at(raw.at, "an empty list of keys")
                    .help("`signalbox key new` makes a key; to let in everyone who can connect, remove `keys`"),
            );
        }
        let (mut ids, mut hashes) = (HashSet::new(), HashSet::new());
        let mut keys = Vec::with_capacity(raw.value.len());
        for raw in &raw.value {
            let (Some(Word(id)), hash) = (self.read(&raw.id), self.read(&raw.hash)) else { continue };
            if !ids.insert(id.clone()) {
                self.report(
                    Problem::at(raw.id.at(), "two keys of the same name").help("give each key an `id` of its own"),
                );
            }
            let Some(hash) = hash else { continue };
            let also = self.other_secrets(raw);
            let others = raw.also.iter().flat_map(|also| &also.value).map(|other| &other.hash);
            for field in std::iter::once(&raw.hash).chain(others) {
                if self.config.read(field).is_ok_and(|KeyHash(hash)| !hashes.insert(hash)) {
                    self.report(
                        Problem::at(field.at(), "the same secret twice").help("`signalbox key new` makes another"),
                    );
                }
            }
            let tags = raw.tags.iter().flatten().filter_map(|field| self.word(Some(field)));
            let tags = tags.collect();
            let persist = raw.cache.as_ref().and_then(|cache| cache.persist.as_ref());
            let Switch(persists) = self.or(persist, Switch(true));
            let Priority(priority) = self.or(raw.priority.as_ref(), Priority(PRIORITY));
            keys.push(Key {
                id: id.into(),
                hash: hash.0,
                also,
                team: self.word(raw.team.as_ref()),
                tags,
                models: raw.models.as_ref().map(|models| self.patterns(models)),
                endpoints: raw.endpoints.as_ref().map(|endpoints| self.endpoints(endpoints)),
                expires: self.optional(raw.expires.as_ref()).map(|Expiry(unix)| unix),
                budget: raw.budget.as_ref().and_then(|budget| self.budget(budget)),
                limits: raw.limits.as_ref().map_or_else(RateLimits::default, |limits| self.key_limits(limits)),
                priority,
                allow: raw.allow.iter().flatten().filter_map(|field| self.read(field)).collect(),
                persists,
                managed: false,
            });
        }
        keys
    }

    fn other_secrets(&mut self, raw: &raw::Key) -> Vec<OtherSecret> {
        let others = raw.also.iter().flat_map(|also| &also.value);
        let other = |other: &raw::OtherSecret| {
            let KeyHash(hash) = self.read(&other.hash)?;
            let valid_until = self.optional(other.valid_until.as_ref()).map(|Expiry(unix)| unix);
            Some(OtherSecret { hash, valid_until })
        };
        others.filter_map(other).collect()
    }

    fn key_limits(&mut self, raw: &raw::KeyLimits) -> RateLimits {
        RateLimits {
            rpm: self.optional(raw.rpm.as_ref()),
            tpm: self.optional(raw.tpm.as_ref()),
            concurrency: self.optional(raw.concurrency.as_ref()),
        }
    }

    fn endpoints(&mut self, raw: &Located<Vec<Field<Endpoint>>>) -> Vec<Endpoint> {
        if raw.value.is_empty() {
            self.report(
                Problem::at(raw.at, "a key that may use no endpoint")
                    .help("name some, such as `[chat, embeddings]`; without `endpoints` it may use all"),
            );
        }
        raw.value.iter().filter_map(|field| self.read(field)).collect()
    }

    fn patterns(&mut self, raw: &Located<Vec<Field<Word>>>) -> Vec<ModelGlob> {
        if raw.value.is_empty() {
            self.report(
                Problem::at(raw.at, "a key that may use no model")
                    .help("name some, such as `[auto, \"claude-*\"]`; without `models` it may use all"),
            );
        }
        let mut patterns = Vec::with_capacity(raw.value.len());
        for field in &raw.value {
            let Some(Word(text)) = self.read(field) else { continue };
            patterns.push(ModelGlob(text.into()));
        }
        patterns
    }

    /// Checks that the models of keys exist.
    pub(super) fn check_key_models(
        &mut self,
        raw: Option<&Located<Vec<raw::Key>>>,
        models: &ModelTable,
        pools: &[Pool],
    ) {
        let fields = raw.iter().flat_map(|raw| &raw.value).filter_map(|key| key.models.as_ref());
        for field in fields.flat_map(|models| &models.value) {
            // Invalid values have been reported already.
            let Ok(Word(text)) = self.config.read(field) else { continue };
            // Engines may list it later.
            let globs = || pools.iter().flat_map(|pool| &pool.backends).filter_map(|backend| backend.follows.as_ref());
            let own = ModelGlob(text.as_str().into());
            let there = if own.is_pattern() {
                globs().next().is_some()
                    || models.names().any(|name| own.matches(name))
                    || models.patterns().any(|(glob, _)| own.matches(&glob.0) || glob.matches(&text))
            } else {
                models.get(&text).is_some() || globs().any(|glob| glob.matches(&text))
            };
            if !there {
                let near = nearest(&text, models.names().map(|name| &**name));
                let problem = unknown("model", field.text(), field.at(), near);
                let pool = pools.iter().find(|pool| *pool.name == *text);
                let model = pool.and_then(|pool| pool.backends.iter().find_map(|backend| backend.model.as_deref()));
                self.report(match (pool, model) {
                    (Some(_), Some(model)) => problem.help(format!("`{text}` is a pool; its model is `{model}`")),
                    (Some(_), None) => problem.help(format!("`{text}` is a pool: name a model that leads to it")),
                    _ => problem,
                });
            }
        }
    }
}
