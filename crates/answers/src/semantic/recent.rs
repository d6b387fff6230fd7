//! Recent hits that their callers can still judge.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use signalbox_cache::{ScopeId, semantic};
use signalbox_types::Name;

/// Maximum of hits.
const MAX_HITS: usize = 4096;

/// A hit or a near miss, with its scope.
#[derive(Clone, Debug)]
pub struct ScopedHit {
    pub(crate) scope: ScopeId,
    pub(crate) judged: semantic::Judged,
}

/// Recent hits by request id.
#[derive(Debug, Default)]
pub(super) struct RecentHits {
    by_id: HashMap<Arc<str>, (Option<Name>, ScopedHit)>,
    order: VecDeque<Arc<str>>,
}

impl RecentHits {
    /// Adds the hit of the request `id` of `caller`. Of two requests with one id, the first is kept.
    pub(super) fn add(&mut self, id: Arc<str>, caller: Option<Name>, hit: ScopedHit) {
        if self.by_id.contains_key(&id) {
            return;
        }
        if self.order.len() == MAX_HITS
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_id.remove(&oldest);
        }
        self.order.push_back(id.clone());
        self.by_id.insert(id, (caller, hit));
    }

    /// Takes the hit of `caller`'s request `id`, so that it is judged once.
    pub(super) fn take(&mut self, id: &str, caller: Option<&Name>) -> Option<ScopedHit> {
        if self.by_id.get(id)?.0.as_ref() != caller {
            return None;
        }
        let (_, hit) = self.by_id.remove(id)?;
        self.order.retain(|known| **known != *id);
        Some(hit)
    }
}
