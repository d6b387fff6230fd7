//! The last items of a kind, bounded in number.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// At most `MOST` items; the oldest are dropped.
pub(super) struct Recent<T, const MOST: usize>(Mutex<VecDeque<T>>);

impl<T, const MOST: usize> Default for Recent<T, MOST> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone, const MOST: usize> Recent<T, MOST> {
    /// Adds items, the oldest first.
    pub(super) fn add(&self, items: impl IntoIterator<Item = T>) {
        let mut all = self.0.lock();
        all.extend(items);
        let over = all.len().saturating_sub(MOST);
        all.drain(..over);
    }

    /// All items, oldest first.
    pub(super) fn all(&self) -> Vec<T> {
        self.0.lock().iter().cloned().collect()
    }
}
