//! What the gateway knows of the meanings of prompts: entries, embedders, and what labels have said.

use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::OnceCell;

use super::{
    evidence::{FalseHits, Scopes},
    recent::{Judged, Recent},
};
use crate::{
    cache::{
        EmbedError, Embedder, Purge,
        confidence::Prior,
        semantic::{Gone, Semantic},
    },
    embed::{self, Limits, Worker},
    measure::lock,
    policy::Caching,
    types::{Moment, Name},
};

/// What the gateway knows of the meanings of prompts. It outlives policies.
#[derive(Debug)]
pub struct Meanings {
    pub(in crate::gateway) entries: Semantic,
    embedders: OnceCell<Option<Embedders>>,
    /// Works out the vectors that decide.
    pub(super) decider: Worker,
    /// Whether that has been loaded ahead of its first question.
    pub(super) warm: OnceCell<()>,
    pub(super) scopes: Mutex<Scopes>,
    /// Hits that can still be judged by their callers.
    recent: Mutex<Recent>,
    /// Why there are no embedders, told once.
    told: OnceLock<()>,
}

/// What makes vectors.
#[derive(Debug)]
pub(super) struct Embedders {
    pub(super) recall: Arc<dyn Embedder>,
    /// Names both: vectors of others are not comparable.
    pub(super) id: String,
    /// Length of the vectors that decide.
    pub(super) dimensions: usize,
    pub(super) prior: &'static Prior,
}

impl Meanings {
    pub(in crate::gateway) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            entries: Semantic::default(),
            embedders: OnceCell::new(),
            decider: Worker::new(Limits::for_processors(processors), embed::decider),
            warm: OnceCell::new(),
            scopes: Mutex::default(),
            recent: Mutex::default(),
            told: OnceLock::new(),
        }
    }

    /// The embedders, loaded at their first use, which takes tens of milliseconds and is done aside. `None` where they cannot be.
    pub(super) async fn embedders(&self) -> Option<&Embedders> {
        let load = || async {
            match tokio::task::spawn_blocking(load).await {
                Ok(Ok(embedders)) => Some(embedders),
                Ok(Err(error)) => {
                    self.told.get_or_init(|| tracing::error!(%error, "nothing is looked up by meaning"));
                    None
                }
                Err(_) => None,
            }
        };
        self.embedders.get_or_init(load).await.as_ref()
    }

    /// Keeps to another policy. Answers that it would not keep any more are forgotten.
    pub(in crate::gateway) fn follow(&self, caching: Option<&Caching>) {
        let room = caching.filter(|caching| caching.semantic.is_some()).map_or(0, Caching::room);
        self.entries.set_capacity(room);
    }

    /// Remembers a hit, so that its caller can judge it.
    pub(in crate::gateway) fn remember(&self, id: Arc<str>, caller: Option<Name>, judged: Judged) {
        lock(&self.recent).add(id, caller, judged);
    }

    /// The hit that `caller` got for the request `id`; it can be judged once.
    pub(in crate::gateway) fn judged(&self, id: &str, caller: Option<&Name>) -> Option<Judged> {
        lock(&self.recent).take(id, caller)
    }

    /// Forgets what `purge` says; how many entries that were.
    pub(in crate::gateway) fn purge(&self, purge: &Purge) -> usize {
        self.entries.purge(purge)
    }

    /// How many entries there are, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.entries.bytes())
    }

    /// How many entries had to go so far, by the reason.
    pub fn evictions(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Gone::ALL.into_iter().map(|reason| (reason.label(), self.entries.evicted(reason)))
    }

    /// How often hits were false, as far as is known.
    pub fn false_hits(&self, now: Moment) -> FalseHits {
        lock(&self.scopes).told(now)
    }

    /// Does what is slow: forgets entries whose time is over, and builds indexes anew. Not for a worker.
    pub fn tend(&self, now: Moment) {
        /// Looked at each time.
        const MOST: usize = 20_000;
        self.entries.expire(MOST, now);
        self.entries.tend();
    }
}

fn load() -> Result<Embedders, EmbedError> {
    let (recall, decider) = (embed::recall()?, embed::decider()?);
    let id = format!("{}+{}", recall.id(), decider.id());
    Ok(Embedders { prior: Prior::of(decider.id()), recall, id, dimensions: decider.dimensions() })
}
