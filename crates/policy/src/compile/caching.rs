//! Compiles the cache settings of a policy, and those of its routes.

use super::{reader::Reader, redis::ServerFields};
use crate::{
    CacheUse, Caching, Exact, IndexKind, Persist, Replay, Scope, Semantic, Shared,
    defaults::{PERSIST_RETENTION, PERSIST_SIZE, SHARED_TIMEOUT},
};
use signalbox_config::{Field, Problem, Share, Switch, caching as raw};

/// The largest part of the memory that one answer may take, as a divisor: it has to fit into one shard of the cache.
const LARGEST_PART: u64 = 16;
/// The least disk space, in bytes.
const LEAST_SIZE: u64 = 1 << 20;

impl Reader<'_> {
    /// `keyed` is true if callers need keys.
    pub(super) fn caching(&mut self, raw: Option<&raw::Cache>, keyed: bool) -> Option<Caching> {
        let raw = raw?;
        let default = Caching::default();
        let memory = self.or(raw.memory.as_ref(), default.memory as u64);
        let Switch(coalesce) = self.or(raw.coalesce.as_ref(), Switch(default.coalesce));
        let exact = raw.exact.as_ref();
        let scope = self.optional(exact.and_then(|exact| exact.scope.as_ref()));
        let temperature = self.optional(exact.and_then(|exact| exact.temperature.as_ref()));
        if let (None, None, false, Some(field)) = (exact, &raw.semantic, coalesce, &raw.coalesce) {
            self.report(
                Problem::at(field.at(), "a cache that shares nothing")
                    .help("add `exact: {}`, or remove `cache` from the file"),
            );
        }
        Some(Caching {
            memory: usize::try_from(memory).unwrap_or(usize::MAX),
            scope: scope_of(scope),
            any_temperature: temperature == Some(raw::Temperature::Any),
            exact: exact.map(|exact| self.exact(exact, memory / (1 + u64::from(raw.semantic.is_some())))),
            coalesce,
            key_headers: self.header_names(raw.key_headers.as_ref()),
            semantic: raw.semantic.as_ref().map(|semantic| self.semantic(semantic, keyed)),
            persist: raw.persist.as_ref().and_then(|persist| {
                if raw.exact.is_none() && raw.semantic.is_none() {
                    self.report(
                        Problem::at(persist.path.at(), "no cache is on whose answers could be stored on disk")
                            .help("add `exact: {}` or `semantic: {}` beside `persist`"),
                    );
                }
                self.persist(persist)
            }),
            decider: self.embedder(raw.semantic.as_ref().and_then(|semantic| semantic.embedder.as_ref())),
            shared: raw.shared.as_ref().and_then(|shared| self.shared(shared)),
        })
    }

    fn shared(&mut self, raw: &raw::Shared) -> Option<Shared> {
        let raw::Shared { url, user, password, tls, sentinel, prefix, .. } = raw;
        let server = self.redis(&ServerFields { url, user, password, tls, sentinel, prefix });
        let key = self.group_secret(&raw.key, &raw.url);
        let timeout = self.or(raw.timeout.as_ref(), SHARED_TIMEOUT);
        Some(Shared { server: server?, key: key?, timeout })
    }

    fn persist(&mut self, raw: &raw::Persist) -> Option<Persist> {
        let path = self.config.path(&raw.path).map_err(|problem| self.report(problem)).ok();
        let max_size = self.or(raw.max_size.as_ref(), PERSIST_SIZE);
        if let Some(field) = raw.max_size.as_ref().filter(|_| max_size < LEAST_SIZE) {
            self.report(Problem::at(field.at(), "too little disk space for answers").help("write `1Mi` at least"));
        }
        let retention = self.or(raw.retention.as_ref(), PERSIST_RETENTION);
        Some(Persist { path: path?, max_size, retention })
    }

    fn semantic(&mut self, raw: &raw::SemanticCache, keyed: bool) -> Semantic {
        let default = Semantic::default();
        let scope = self.optional(raw.scope.as_ref());
        if !cfg!(feature = "embedder") {
            let at = [
                raw.scope.as_ref().map(Field::at),
                raw.max_false_hit_rate.as_ref().map(Field::at),
                raw.ttl.as_ref().map(Field::at),
            ];
            self.report(
                Problem::at(
                    at.into_iter().flatten().next().unwrap_or_default(),
                    "this signalbox was built without the embedder that a semantic cache needs",
                )
                .help("remove `semantic`, or use a build with the feature `embedder`, which is on by default"),
            );
        }
        let Share(rate) = self.or(raw.max_false_hit_rate.as_ref(), Share(default.max_false_hit_rate));
        if let Some(field) = raw.max_false_hit_rate.as_ref().filter(|_| rate <= 0.0 || rate >= 0.5) {
            self.report(
                Problem::at(field.at(), "not a usable rate of false hits: it must be above 0% and below 50%")
                    .help("write the share of hits that may be false, such as `1%`; `cache: { semantic: off }` in a route uses none"),
            );
        }
        if !keyed && scope != Some(raw::Scope::Shared) {
            let at = raw.scope.as_ref().map(Field::at).or(raw.max_false_hit_rate.as_ref().map(Field::at));
            self.report(
                Problem::at(at.or(raw.ttl.as_ref().map(Field::at)).unwrap_or_default(), "a semantic cache without keys needs an explicit `scope`")
                    .help("add `keys`, or write `scope: shared` under `semantic`: everyone who can connect may then receive answers to others' requests"),
            );
        }
        Semantic {
            ttl: self.or(raw.ttl.as_ref(), default.ttl),
            max_false_hit_rate: rate,
            scope: scope_of(scope),
            volatile: self.optional(raw.volatile.as_ref()),
            shadow: self.optional(raw.mode.as_ref()) == Some(raw::SemanticMode::Shadow),
            index: match self.optional(raw.index.as_ref()) {
                None | Some(raw::SemanticIndex::Auto) => IndexKind::Auto,
                Some(raw::SemanticIndex::Flat) => IndexKind::Flat,
                Some(raw::SemanticIndex::Hnsw) => IndexKind::Hnsw,
            },
        }
    }

    fn exact(&mut self, raw: &raw::ExactCache, memory: u64) -> Exact {
        let default = Exact::default();
        let most = memory / LARGEST_PART;
        let largest = self.or(raw.largest.as_ref(), most.min(default.largest as u64));
        if let Some(field) = raw.largest.as_ref().filter(|_| largest > most) {
            self.report(
                Problem::at(
                    field.at(),
                    format!("an answer that long would take too much of the memory of {memory} bytes"),
                )
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

    /// The caches that a route uses.
    pub(super) fn cache_use(&mut self, raw: Option<&raw::CacheUse>) -> CacheUse {
        let mut switch = |field: Option<&Field<Switch>>| self.or(field, Switch(true)).0;
        let Some(raw) = raw else { return CacheUse::default() };
        CacheUse {
            exact: switch(raw.exact.as_ref()),
            semantic: switch(raw.semantic.as_ref()),
            persist: switch(raw.persist.as_ref()),
        }
    }
}

fn scope_of(scope: Option<raw::Scope>) -> Scope {
    match scope {
        None | Some(raw::Scope::Key) => Scope::Key,
        Some(raw::Scope::User) => Scope::User,
        Some(raw::Scope::Shared) => Scope::Shared,
    }
}
