//! What the gateway knows of the meanings of prompts: entries, embedders, and what labels have said.

use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    deciding::Deciding,
    embedders::Embedders,
    evidence::{FalseHits, Scopes},
    recent::{Judged, Recent},
};
use crate::{
    cache::{
        CompatKey, Kept, Purge,
        codec::SemanticEntry,
        guard::Traits,
        semantic::{NewEntry, Removal, Semantic},
    },
    embed::{self, Limits, Worker},
    measure::lock,
    policy::{Caching, EmbedderChoice},
    types::{Moment, Name},
};

/// What the gateway knows of the meanings of prompts. It outlives policies.
#[derive(Debug)]
pub struct SemanticAnswers {
    pub(crate) entries: Semantic,
    /// The embedder that is compiled in. It compares answers, whatever decides on prompts: what two answers' similarity means is known of
    /// this one alone.
    pub(crate) built_in: Arc<Worker>,
    deciding: ArcSwap<Deciding>,
    pub(crate) scopes: Mutex<Scopes>,
    /// Hits that can still be judged by their callers.
    recent: Mutex<Recent>,
}

impl SemanticAnswers {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            entries: Semantic::default(),
            built_in: Arc::new(Worker::new(Limits::for_processors(processors), embed::decider)),
            deciding: ArcSwap::from_pointee(Deciding::new(EmbedderChoice::default())),
            scopes: Mutex::default(),
            recent: Mutex::default(),
        }
    }

    /// The embedders of the policy in force, or why there are none.
    pub(crate) async fn embedders(&self) -> Result<Arc<Embedders>, &'static str> {
        let deciding = self.deciding.load_full();
        deciding.embedders(&self.built_in).await
    }

    /// The same, waited for where they have to be loaded first.
    pub(crate) async fn loaded(&self) -> Option<Arc<Embedders>> {
        let deciding = self.deciding.load_full();
        deciding.make(&self.built_in).await
    }

    /// The name and revision of the embedder that decides, once it was made.
    pub fn embedder(&self) -> Option<String> {
        self.deciding.load().made().map(|embedders| embedders.decider().to_owned())
    }

    /// Keeps to another policy. Answers that it would not keep any more are forgotten; so are all, where another embedder decides, for
    /// nothing would ever find them. The threads of the one before end with its last lookup. Must be called within a Tokio runtime
    /// where anything is looked up by meaning.
    pub(crate) fn follow(self: &Arc<Self>, caching: Option<&Caching>) {
        let caching = caching.filter(|caching| caching.semantic.is_some());
        self.entries.set_capacity(caching.map_or(0, Caching::room));
        let wanted = caching.map(|caching| caching.decider.clone()).unwrap_or_default();
        if *self.deciding.load().of() != wanted {
            self.deciding.store(Arc::new(Deciding::new(wanted)));
            let meanings = self.clone();
            // It looks at every entry.
            tokio::task::spawn_blocking(move || meanings.entries.purge(&Purge::default()));
        }
        if caching.is_some() {
            self.deciding.load().begin(&self.built_in);
        }
    }

    /// Remembers a hit, so that its caller can judge it.
    pub(crate) fn remember(&self, id: Arc<str>, caller: Option<Name>, judged: Judged) {
        lock(&self.recent).add(id, caller, judged);
    }

    /// The hit that `caller` got for the request `id`; it can be judged once.
    pub(crate) fn judged(&self, id: &str, caller: Option<&Name>) -> Option<Judged> {
        lock(&self.recent).take(id, caller)
    }

    /// Forgets what `purge` says; how many entries that were.
    pub(crate) fn purge(&self, purge: &Purge) -> usize {
        self.entries.purge(purge)
    }

    /// How many entries there are, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.entries.bytes())
    }

    /// How many entries had to go so far, by the reason.
    pub fn evictions(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Removal::ALL.into_iter().map(|reason| (reason.label(), self.entries.evicted(reason)))
    }

    /// How often hits were false, as far as is known.
    pub fn false_hits(&self, now: Moment) -> FalseHits {
        lock(&self.scopes).told(now)
    }

    /// An entry as it was written down: what is cheap is made anew, so that nothing of it can be another release's. `None` where other
    /// embedders made its vector.
    pub(crate) async fn remade(&self, meaning: SemanticEntry, kept: Kept) -> Option<(CompatKey, NewEntry)> {
        let embedders = self.loaded().await?;
        let SemanticEntry { compat, text, embedder, vector, exact, record } = meaning;
        if embedder != embedders.id {
            return None;
        }
        // Where there is an entry, a question is about to come, which would be answered too late if it had to wait for this.
        embedders.warm(&text).await;
        let recall = embedders.recall.embed(&[&*text]).ok()?.into_iter().next()?.into_boxed_slice();
        let traits = Arc::new(Traits::of(&text));
        let text = xxh3_64(text.as_bytes());
        Some((compat, NewEntry { text, traits, recall, vector, record, exact, kept: Some(kept) }))
    }

    /// Does what is slow: forgets entries whose time is over, and builds indexes anew. Not for a worker.
    pub fn tend(&self, now: Moment) {
        /// Looked at each time.
        const MOST: usize = 20_000;
        self.entries.expire(MOST, now);
        self.entries.maintain();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::policy::{self, EmbeddingBackend};

    fn with(decider: EmbedderChoice) -> Caching {
        Caching { semantic: Some(policy::Semantic::default()), decider, ..Caching::default() }
    }

    #[tokio::test]
    async fn what_is_looked_up_by_is_made_before_the_first_lookup() {
        let meanings = Arc::new(SemanticAnswers::new());
        meanings.follow(Some(&with(EmbedderChoice::BuiltIn)));
        let made = async {
            while meanings.embedder().is_none() {
                tokio::task::yield_now().await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_mins(1), made).await.is_ok());
    }

    #[tokio::test]
    async fn another_embedder_takes_over_and_the_one_before_ends() {
        let backend = EmbedderChoice::Backend(EmbeddingBackend {
            url: "http://127.0.0.1:9/v1".to_owned(),
            model: "m".to_owned(),
            key: None,
            dimensions: None,
            timeout: Duration::from_secs(1),
        });
        let meanings = Arc::new(SemanticAnswers::new());
        let built_in = meanings.embedders().await.unwrap();
        meanings.follow(Some(&with(backend.clone())));
        let first = meanings.embedders().await.unwrap();
        assert!(first.decider().starts_with("backend:m@") && first.id != built_in.id);
        meanings.follow(Some(&with(backend.clone())));
        assert!(Arc::ptr_eq(&first, &meanings.embedders().await.unwrap()), "the same goes on");
        let kept = Arc::downgrade(&first);
        drop(first);
        meanings.follow(Some(&with(EmbedderChoice::BuiltIn)));
        // Who began to make it sees only now that it is made.
        tokio::task::yield_now().await;
        assert!(kept.upgrade().is_none(), "its threads end with it");
        assert_eq!(meanings.embedders().await.unwrap().id, built_in.id);
        meanings.follow(Some(&with(backend)));
        meanings.follow(None);
        assert_eq!(meanings.embedders().await.unwrap().id, built_in.id);
    }
}
