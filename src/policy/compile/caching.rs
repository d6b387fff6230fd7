//! The cache of a policy, and which part of it a route uses.

use super::reader::Reader;
use crate::{
    config::{Field, Problem, Switch, caching as raw},
    policy::{CacheUse, Caching, Exact, Replay, Scope},
};

/// An answer may take this part of the memory at most: it has to fit into one of the cache's shards.
const LARGEST_PART: u64 = 16;

impl Reader<'_> {
    pub(super) fn caching(&mut self, raw: Option<&raw::Cache>) -> Option<Caching> {
        let raw = raw?;
        let default = Caching::default();
        let memory = self.or(raw.memory.as_ref(), default.memory as u64);
        let Switch(coalesce) = self.or(raw.coalesce.as_ref(), Switch(default.coalesce));
        let exact = raw.exact.as_ref();
        let scope = self.optional(exact.and_then(|exact| exact.scope.as_ref()));
        let temperature = self.optional(exact.and_then(|exact| exact.temperature.as_ref()));
        if let (None, false, Some(field)) = (exact, coalesce, &raw.coalesce) {
            self.report(
                Problem::at(field.at(), "a cache that shares nothing")
                    .help("add `exact: {}`, or remove `cache` from the file"),
            );
        }
        Some(Caching {
            memory: usize::try_from(memory).unwrap_or(usize::MAX),
            scope: match scope {
                None | Some(raw::Scope::Key) => Scope::Key,
                Some(raw::Scope::User) => Scope::User,
                Some(raw::Scope::Shared) => Scope::Shared,
            },
            any_temperature: temperature == Some(raw::Temperature::Any),
            exact: exact.map(|exact| self.exact(exact, memory)),
            coalesce,
        })
    }

    fn exact(&mut self, raw: &raw::ExactCache, memory: u64) -> Exact {
        let default = Exact::default();
        let most = memory / LARGEST_PART;
        let largest = self.or(raw.largest.as_ref(), most.min(default.largest as u64));
        if let Some(field) = raw.largest.as_ref().filter(|_| largest > most) {
            self.report(
                Problem::at(field.at(), format!("an answer that long would take over the memory of {memory} bytes"))
                    .help(format!("write {most} at most, or give the cache more `memory`")),
            );
        }
        Exact {
            ttl: self.or(raw.ttl.as_ref(), default.ttl),
            largest: usize::try_from(largest).unwrap_or(usize::MAX),
            replay: match self.optional(raw.replay.as_ref()) {
                None | Some(raw::Replay::Burst) => Replay::Burst,
                Some(raw::Replay::Paced) => Replay::Paced,
            },
        }
    }

    /// Which of the caches a route uses.
    pub(super) fn cache_use(&mut self, raw: Option<&raw::CacheUse>) -> CacheUse {
        let mut switch = |field: Option<&Field<Switch>>| self.or(field, Switch(true)).0;
        let Some(raw) = raw else { return CacheUse::default() };
        CacheUse { exact: switch(raw.exact.as_ref()), semantic: switch(raw.semantic.as_ref()) }
    }
}
