//! Answers to equal requests in memory, and the answers in progress that equal requests share. They outlive policies.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderMap, StatusCode};

use signalbox_cache::{Eviction, ExactCache, Keys, Purge, single_flight::SingleFlight};
use signalbox_policy::{self as policy, Caching};
use signalbox_types::Price;

/// Maximum bytes of an answer in progress that are buffered for the requests that share it.
const MOST_LOGGED: usize = 8 << 20;

/// Answers to equal requests.
pub struct AnswerCache {
    /// The keys by which answers are found. A request must use the same from its start to its end.
    pub keys: ArcSwap<Keys>,
    /// Kept answers.
    pub exact: ExactCache,
    /// Answers that several requests wait for.
    pub single_flight: Arc<SingleFlight<Head>>,
}

/// The keys by which gateways with the same `cache.shared.key` find answers.
pub(super) fn shared_keys(spec: &policy::Shared) -> Keys {
    Keys::new(blake3::derive_key("signalbox 2026 keys of the shared cache", spec.key.0.as_bytes()))
}

/// The head of a shared answer.
#[derive(Debug)]
pub struct Head {
    /// Status of the answer.
    pub status: StatusCode,
    /// Headers that describe the answer.
    pub headers: HeaderMap,
    /// The price of its pool's tokens, if known.
    pub price: Option<Price>,
}

impl AnswerCache {
    pub(crate) fn new() -> Self {
        let mut secret = [0; 32];
        if getrandom::fill(&mut secret).is_err() {
            // All supported systems provide randomness; a weaker secret is better than none.
            secret.fill_with(|| fastrand::u8(..));
        }
        Self {
            keys: ArcSwap::from_pointee(Keys::new(secret)),
            exact: ExactCache::default(),
            single_flight: SingleFlight::new(MOST_LOGGED),
        }
    }

    /// Applies another policy. Answers that exceed its limits are evicted.
    pub(super) fn apply_policy(&self, caching: Option<&Caching>) {
        let room = caching.filter(|caching| caching.exact.is_some()).map_or(0, Caching::room);
        self.exact.set_capacity(room);
    }

    /// Uses other keys from now on, and returns whether they differ. Answers under the old keys could not be found any more and are purged.
    pub(super) fn set_keys(&self, keys: Keys) -> bool {
        let is_changed = keys.fingerprint() != self.keys.load().fingerprint();
        if is_changed {
            self.keys.store(Arc::new(keys));
            self.exact.purge(&Purge::default());
        }
        is_changed
    }

    /// Removes the answers that `purge` matches; returns their number.
    pub fn purge(&self, purge: &Purge) -> usize {
        self.exact.purge(purge)
    }

    /// Number of answers and their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.exact.len(), self.exact.bytes())
    }

    /// Number of evicted answers so far, by reason.
    pub fn evictions(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Eviction::ALL.into_iter().map(|reason| (reason.label(), self.exact.evicted(reason)))
    }
}
