//! Hits that their callers may still judge.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use crate::{
    cache::{ScopeId, semantic},
    types::Name,
};

/// Hits that are remembered.
const MOST: usize = 4096;

/// A hit, or what would have been one, until a label comes.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) scope: ScopeId,
    pub(crate) judged: semantic::Judged,
}

#[derive(Debug, Default)]
pub(crate) struct Recent {
    by_id: HashMap<Arc<str>, (Option<Name>, Judged)>,
    order: VecDeque<Arc<str>>,
}

impl Recent {
    /// Remembers the hit of the request `id` of `caller`. Of two requests with one id the first is remembered.
    pub(crate) fn add(&mut self, id: Arc<str>, caller: Option<Name>, judged: Judged) {
        if self.by_id.contains_key(&id) {
            return;
        }
        if self.order.len() == MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_id.remove(&oldest);
        }
        self.order.push_back(id.clone());
        self.by_id.insert(id, (caller, judged));
    }

    /// The hit of `caller`'s request `id`; it can be judged once.
    pub(crate) fn take(&mut self, id: &str, caller: Option<&Name>) -> Option<Judged> {
        if self.by_id.get(id)?.0.as_ref() != caller {
            return None;
        }
        let (_, judged) = self.by_id.remove(id)?;
        self.order.retain(|known| **known != *id);
        Some(judged)
    }
}
