//! Entries that may answer one another: their requests differ only in the last text.

use std::{collections::HashMap, sync::Arc};

use parking_lot::RwLock;

use super::entry::Entry;
use crate::{
    index::{Adaptive, VectorIndex},
    record::Origin,
};

/// Entries and the index over their vectors.
#[derive(Debug)]
pub(super) struct Space {
    /// Created with the first entry, which determines the length of the vectors.
    index: Option<Adaptive>,
    pub(super) entries: HashMap<u64, Arc<Entry>>,
    /// Numbers of entries by text and origin.
    by_text: HashMap<(u64, Origin), u64>,
}

impl Space {
    pub(super) fn new() -> Self {
        Self { index: None, entries: HashMap::new(), by_text: HashMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if the same backend's answer to the same text is stored already.
    pub(super) fn answers(&self, entry: &Entry) -> bool {
        self.by_text.contains_key(&entry.asked())
    }

    /// Inserts an entry and returns the one it replaces. Two answers to one text would compete, and neither be certain
    /// enough.
    pub(super) fn insert(&mut self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let replaced = self.by_text.get(&entry.asked()).copied().and_then(|number| self.remove(number));
        self.by_text.insert(entry.asked(), entry.number);
        self.index.get_or_insert_with(|| Adaptive::new(entry.vector.len())).insert(entry.number, &entry.vector);
        self.entries.insert(entry.number, entry);
        replaced
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Arc<Entry>> {
        let entry = self.entries.remove(&number)?;
        self.by_text.remove(&entry.asked());
        if let Some(index) = &mut self.index {
            index.remove(number);
        }
        Some(entry)
    }

    /// Entries nearest to a vector with their similarities, nearest first.
    pub(super) fn search(&self, vector: &[f32], most: usize) -> Vec<(Arc<Entry>, f32)> {
        let Some(index) = &self.index else { return Vec::new() };
        let mut near = Vec::with_capacity(most);
        index.search(vector, most, &mut near);
        near.iter().filter_map(|near| Some((self.entries.get(&near.number)?.clone(), near.similarity))).collect()
    }

    /// Size of the index's graph in bytes; 0 without one.
    pub(super) fn graph_bytes(&self) -> usize {
        self.index.as_ref().map_or(0, Adaptive::graph_bytes)
    }

    /// Rebuilds the index if that is due, without holding a lock during the work; graphs have `sealed_from` vectors and
    /// more. Returns the graph's size before and after if it did.
    pub(super) fn rebuild(space: &RwLock<Self>, sealed_from: usize) -> Option<(usize, usize)> {
        let plan = {
            let mut space = space.write();
            let index = space.index.as_mut()?;
            index.seal_from(sealed_from);
            index.needs_rebuild().then(|| index.plan())?
        };
        let rebuilt = plan.run();
        let (retired, before, after) = {
            let mut space = space.write();
            let index = space.index.as_mut()?;
            let before = index.graph_bytes();
            (index.adopt(rebuilt), before, index.graph_bytes())
        };
        // Freed outside the lock, since it takes a while.
        drop(retired);
        Some((before, after))
    }
}
