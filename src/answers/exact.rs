//! What the gateway keeps of answers, and which requests share one that is under way. It outlives policies.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderMap, StatusCode};

use crate::{
    cache::{Eviction, ExactCache, Keys, Purge, single_flight::SingleFlight},
    policy::Caching,
    types::Price,
};

/// Most bytes of an answer under way that are held for those who share it.
const MOST_LOGGED: usize = 8 << 20;

/// What is kept.
pub struct AnswerCache {
    /// What names answers; a request uses one from its beginning to its end, or is not found again.
    pub(crate) keys: ArcSwap<Keys>,
    pub(crate) exact: ExactCache,
    pub(crate) flights: Arc<SingleFlight<Head>>,
}

/// The head of an answer that is shared.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// What its pool's tokens cost, where known.
    pub(crate) price: Option<Price>,
}

impl AnswerCache {
    pub(crate) fn new() -> Self {
        let mut secret = [0; 32];
        if getrandom::fill(&mut secret).is_err() {
            // Every system that this runs on has randomness; a weaker secret is better than none.
            secret.fill_with(|| fastrand::u8(..));
        }
        Self {
            keys: ArcSwap::from_pointee(Keys::new(secret)),
            exact: ExactCache::default(),
            flights: SingleFlight::new(MOST_LOGGED),
        }
    }

    /// Keeps to another policy. Answers that it would not keep any more are forgotten.
    pub fn follow(&self, caching: Option<&Caching>) {
        let room = caching.filter(|caching| caching.exact.is_some()).map_or(0, Caching::room);
        self.exact.set_capacity(room);
    }

    /// Names answers by other keys from now on. Those of before could never be found again, and are forgotten; whether they are others.
    pub(crate) fn adopt(&self, keys: Keys) -> bool {
        let others = keys.fingerprint() != self.keys.load().fingerprint();
        if others {
            self.keys.store(Arc::new(keys));
            self.exact.purge(&Purge::default());
        }
        others
    }

    /// Forgets what `purge` says; how many answers that were.
    pub fn purge(&self, purge: &Purge) -> usize {
        self.exact.purge(purge)
    }

    /// How many answers are kept, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.exact.len(), self.exact.bytes())
    }

    /// How many answers had to go so far, by the reason.
    pub fn evictions(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Eviction::ALL.into_iter().map(|reason| (reason.label(), self.exact.evicted(reason)))
    }
}
