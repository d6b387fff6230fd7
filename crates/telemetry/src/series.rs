//! Series of a metric by their labels: ordered, so that `/metrics` is stable, and bounded, so that client-supplied text
//! cannot grow it without limit.

use std::collections::BTreeMap;

use parking_lot::{RwLock, RwLockReadGuard};

/// Shared, bounded map from label values to the handle of a series.
#[derive(Debug)]
pub(super) struct Series<K, V> {
    most: usize,
    map: RwLock<BTreeMap<K, V>>,
}

impl<K: Ord + Clone, V: Clone> Series<K, V> {
    /// Creates an empty map of about `most` series.
    pub(super) fn new(most: usize) -> Self {
        Self { most, map: RwLock::default() }
    }

    /// Returns the series of `key`, creating it if needed. In a full map the labels of `other(key)` take its place;
    /// those must come from a small set.
    pub(super) fn get(&self, key: K, other: impl FnOnce(K) -> K, make: impl FnOnce(&K) -> V) -> V {
        if let Some(series) = self.read().get(&key) {
            return series.clone();
        }
        let mut map = self.map.write();
        let full = map.len() >= self.most && !map.contains_key(&key);
        let key = if full { other(key) } else { key };
        map.entry(key.clone()).or_insert_with(|| make(&key)).clone()
    }

    /// Drops the series for which `keep` is false.
    pub(super) fn retain(&self, mut keep: impl FnMut(&K) -> bool) {
        self.map.write().retain(|key, _| keep(key));
    }

    /// All series by their labels, locked against changes until the guard is dropped.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, BTreeMap<K, V>> {
        self.map.read()
    }

    /// All series, by their labels.
    pub(super) fn list(&self) -> Vec<(K, V)> {
        self.read().iter().map(|(key, series)| (key.clone(), series.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use super::*;

    #[test]
    fn a_full_map_counts_new_labels_as_other() {
        let series: Series<String, Arc<AtomicU32>> = Series::new(2);
        for key in ["a", "b", "c", "d", "a"] {
            let count = series.get(key.into(), |_| "other".into(), |_| Arc::default());
            count.fetch_add(1, Ordering::Relaxed);
        }
        let seen = |series: &Series<String, Arc<AtomicU32>>| {
            series.list().into_iter().map(|(key, count)| (key, count.load(Ordering::Relaxed))).collect::<Vec<_>>()
        };
        assert_eq!(seen(&series), [("a".into(), 2), ("b".into(), 1), ("other".into(), 2)]);
        series.retain(|key| key == "b");
        assert_eq!(seen(&series), [("b".into(), 1)]);
    }
}
