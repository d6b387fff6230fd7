//! State of the semantic cache: entries, embedders and evidence from labels.

use std::{sync::Arc, thread, time::Duration};

use parking_lot::Mutex;

use arc_swap::ArcSwap;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    embedders::Embedders,
    evidence::{FalseHits, Scopes},
    policy_embedder::PolicyEmbedder,
    recent::{RecentHits, ScopedHit},
};
use signalbox_cache::{
    CompatKey, Kept, Purge,
    codec::SemanticEntry,
    guard::Traits,
    semantic::{NewEntry, Removal, Semantic},
};
use signalbox_embed::{self as embed, Limits, Worker};
use signalbox_policy::{Caching, EmbedderChoice};
use signalbox_types::{Moment, Name};

/// State of the semantic cache. It outlives policies.
#[derive(Debug)]
pub struct SemanticAnswers {
    pub(crate) entries: Semantic,
    /// The built-in embedder. It always compares answers, since the meaning of their similarity is only known for this embedder.
    pub(crate) built_in: Arc<Worker>,
    decider: ArcSwap<PolicyEmbedder>,
    pub(crate) scopes: Mutex<Scopes>,
    /// Hits that their callers can still judge.
    recent: Mutex<RecentHits>,
}

impl SemanticAnswers {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            entries: Semantic::default(),
            built_in: Arc::new(Worker::new(Limits::for_processors(processors), embed::decider)),
            decider: ArcSwap::from_pointee(PolicyEmbedder::new(EmbedderChoice::default())),
            scopes: Mutex::default(),
            recent: Mutex::default(),
        }
    }

    /// Returns the embedders of the active policy for a lookup, or the reason why there are none.
    pub(crate) async fn embedders(&self) -> Result<Arc<Embedders>, &'static str> {
        let decider = self.decider.load_full();
        decider.for_lookup(&self.built_in).await
    }

    /// Returns the embedders of the active policy; waits until they are loaded.
    async fn loaded_embedders(&self) -> Option<Arc<Embedders>> {
        let decider = self.decider.load_full();
        decider.load(&self.built_in).await
    }

    /// Loads the embedders of the active policy and lets them embed `text`, unless that may take long.
    pub async fn warm_up(&self, text: &str) {
        let decider = self.decider.load_full();
        if !decider.is_built_in() {
            return;
        }
        if let Some(embedders) = decider.load(&self.built_in).await {
            embedders.warm(text).await;
        }
    }

    /// Name and revision of the deciding embedder, once it is loaded.
    pub fn embedder(&self) -> Option<String> {
        self.decider.load().loaded().map(|embedders| embedders.decider().to_owned())
    }

    /// Applies another policy: evicts answers that exceed its limits, and all answers where the embedder changes, since they could not be found
    /// any more. The threads of the previous embedder end with its last lookup. Must be called within a Tokio runtime if the policy has a
    /// semantic cache.
    pub(crate) fn apply_policy(self: &Arc<Self>, caching: Option<&Caching>) {
        let caching = caching.filter(|caching| caching.semantic.is_some());
        self.entries.set_capacity(caching.map_or(0, Caching::room));
        self.entries.set_index(caching.and_then(|caching| caching.semantic).unwrap_or_default().index);
        let wanted = caching.map(|caching| caching.decider.clone()).unwrap_or_default();
        if *self.decider.load().spec() != wanted {
            self.decider.store(Arc::new(PolicyEmbedder::new(wanted)));
            let answers = self.clone();
            // Scans all entries.
            tokio::task::spawn_blocking(move || answers.entries.purge(&Purge::default()));
        }
        if caching.is_some() {
            self.decider.load().start_loading(&self.built_in);
        }
    }

    /// Records a hit, so that its caller can judge it.
    pub fn record_hit(&self, id: Arc<str>, caller: Option<Name>, hit: ScopedHit) {
        self.recent.lock().add(id, caller, hit);
    }

    /// Takes the hit of `caller`'s request `id`, so that it is judged once.
    pub fn take_hit(&self, id: &str, caller: Option<&Name>) -> Option<ScopedHit> {
        self.recent.lock().take(id, caller)
    }

    /// Removes the entries that `purge` matches; returns their number.
    pub(crate) fn purge(&self, purge: &Purge) -> usize {
        self.entries.purge(purge)
    }

    /// Number of entries and their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.entries.bytes())
    }

    /// Number of removed entries so far, by reason.
    pub fn evictions(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Removal::ALL.into_iter().map(|reason| (reason.label(), self.entries.evicted(reason)))
    }

    /// The rate of false hits.
    pub fn false_hits(&self, now: Moment) -> FalseHits {
        self.scopes.lock().false_hits(now)
    }

    /// Rebuilds an entry from its stored form. Everything but the deciding vector is computed again, so that no data of another release is
    /// used. `None` where other embedders computed the vector.
    pub(crate) async fn rebuild(&self, stored: SemanticEntry, kept: Kept) -> Option<(CompatKey, NewEntry)> {
        let embedders = self.loaded_embedders().await?;
        let SemanticEntry { compat, text, embedder, vector, exact, record } = stored;
        if embedder != embedders.id {
            return None;
        }
        // With entries, lookups will follow soon; the first would time out if it had to wait for the warm-up.
        embedders.warm(&text).await;
        let traits = Arc::new(Traits::of(&text));
        let text = xxh3_64(text.as_bytes());
        Some((compat, NewEntry { text, traits, vector, record, exact, kept: Some(kept) }))
    }

    /// Removes expired entries and empty indexes. Slow, so not on a worker thread.
    pub fn maintain(&self, now: Moment) {
        /// Entries examined in one call.
        const MAX_EXAMINED: usize = 20_000;
        self.entries.expire(MAX_EXAMINED, now);
        self.entries.maintain();
    }

    /// Starts a thread that builds graphs from time to time, `every` so long. It does not delay the end of the process, which a task of the
    /// runtime would, for as long as a graph takes.
    pub fn start_indexing(self: &Arc<Self>, every: Duration) {
        let answers = Arc::downgrade(self);
        let work = move || {
            while let Some(answers) = answers.upgrade() {
                answers.entries.rebuild();
                drop(answers);
                thread::sleep(every);
            }
        };
        if let Err(error) = thread::Builder::new().name("index".to_owned()).spawn(work) {
            tracing::error!(%error, "cache: no thread for building graphs, so the index stays flat (cache.semantic.index)");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_policy::{self as policy, EmbeddingBackend};

    fn with(decider: EmbedderChoice) -> Caching {
        Caching { semantic: Some(policy::Semantic::default()), decider, ..Caching::default() }
    }

    #[tokio::test]
    async fn the_embedder_is_loaded_before_the_first_lookup() {
        let answers = Arc::new(SemanticAnswers::new());
        answers.apply_policy(Some(&with(EmbedderChoice::BuiltIn)));
        let loaded = async {
            while answers.embedder().is_none() {
                tokio::task::yield_now().await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_mins(1), loaded).await.is_ok());
    }

    #[tokio::test]
    async fn another_embedder_replaces_and_ends_the_previous_one() {
        let backend = EmbedderChoice::Backend(EmbeddingBackend {
            url: "http://127.0.0.1:9/v1".to_owned(),
            model: "m".to_owned(),
            key: None,
            dimensions: None,
            timeout: Duration::from_secs(1),
        });
        let answers = Arc::new(SemanticAnswers::new());
        let built_in = answers.embedders().await.unwrap();
        answers.apply_policy(Some(&with(backend.clone())));
        let first = answers.embedders().await.unwrap();
        assert!(first.decider().starts_with("backend:m@") && first.id != built_in.id);
        answers.apply_policy(Some(&with(backend.clone())));
        assert!(Arc::ptr_eq(&first, &answers.embedders().await.unwrap()), "the same goes on");
        let kept = Arc::downgrade(&first);
        drop(first);
        answers.apply_policy(Some(&with(EmbedderChoice::BuiltIn)));
        // Lets the task that loaded it finish.
        tokio::task::yield_now().await;
        assert!(kept.upgrade().is_none(), "the previous embedder is dropped with its threads");
        assert_eq!(answers.embedders().await.unwrap().id, built_in.id);
        answers.apply_policy(Some(&with(backend)));
        answers.apply_policy(None);
        assert_eq!(answers.embedders().await.unwrap().id, built_in.id);
    }
}
