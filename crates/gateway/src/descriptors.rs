//! Open descriptors of the process: a bound on callers' connections and requests in flight together, so that requests
//! are refused before descriptors run out. Without it an engine's connection fails, and the engine seems to be down.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Descriptors kept for files, listeners, scrapes and idle connections: one in eight, at most this many.
const RESERVED: usize = 512;

/// Count of the connections that callers hold, and the bound on them and on the requests in flight.
#[derive(Debug)]
pub struct Descriptors {
    most: AtomicUsize,
    connections: AtomicUsize,
}

/// A caller's connection, counted until it is dropped.
#[derive(Debug)]
pub struct OpenConnection(Arc<Descriptors>);

impl Default for Descriptors {
    fn default() -> Self {
        Self { most: usize::MAX.into(), connections: AtomicUsize::new(0) }
    }
}

impl Descriptors {
    /// Sets the number of descriptors that the process may open.
    pub fn set_limit(&self, limit: u64) {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.most.store(limit - (limit / 8).min(RESERVED), Relaxed);
    }

    /// Counts a caller's connection; `None` if there is no descriptor for a request on it.
    pub fn connection(self: &Arc<Self>) -> Option<OpenConnection> {
        let most = self.most.load(Relaxed);
        let taken = self.connections.fetch_update(Relaxed, Relaxed, |count| (count < most).then_some(count + 1));
        taken.is_ok().then(|| OpenConnection(self.clone()))
    }

    /// The most connections and requests in flight together, if `requests` in flight are too many.
    pub fn exceeded(&self, requests: usize) -> Option<usize> {
        let most = self.most.load(Relaxed);
        (self.connections.load(Relaxed).saturating_add(requests) > most).then_some(most)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_requests_share_the_descriptors() {
        let descriptors = Arc::new(Descriptors::default());
        assert_eq!(descriptors.exceeded(usize::MAX), None);
        descriptors.set_limit(16);
        let open: Vec<_> = (0..10).filter_map(|_| descriptors.connection()).collect();
        assert_eq!((descriptors.exceeded(4), descriptors.exceeded(5)), (None, Some(14)));
        let more: Vec<_> = (0..10).filter_map(|_| descriptors.connection()).collect();
        assert_eq!(more.len(), 4);
        drop((open, more));
        assert_eq!(descriptors.exceeded(14), None);
    }
}
