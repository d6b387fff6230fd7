//! The log of a policy: opened, closed and opened anew as policies come and go.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use tokio::runtime::Handle;

use super::{load::load, off::Off, shelf::Shelf};
use crate::{
    cache::Purge,
    gateway::{Desk, shared},
    measure::lock,
    policy::{Caching, Persist, Policy},
    store::{Limits, Log, Recovery, StoreError},
};

/// Least bytes of answers that may wait to be written.
const QUEUE: usize = 16 << 20;

/// Has the answers kept on disk that `policy` wants there: opens its log and begins to read it back, or goes on with the one that is open.
/// A folder that another gateway has is left alone, and tried again when this is called again. Waits for the disk; within a runtime.
///
/// # Errors
/// [`StoreError`] where the folder cannot be used. The log before stays open then, unless it was in the same folder.
pub fn keep_on_disk(desk: &Arc<Desk>, policy: &Policy) -> Result<(), StoreError> {
    let kept = &desk.disk;
    let _alone = lock(&kept.changing);
    let off = Arc::new(Off::of(policy));
    let others = *kept.off.swap(off.clone()) != *off;
    // What simulated engines say is not to be there when the real ones are.
    let caching = policy.caching.as_ref().filter(|_| !policy.simulated);
    let Some((caching, spec)) = caching.and_then(|caching| Some((caching, caching.persist.as_ref()?))) else {
        kept.close();
        return Ok(());
    };
    let shared = caching.shared.as_ref().map(shared::keys);
    let same = |shelf: &Shelf| shelf.spec == *spec && shelf.is_named_by(shared.as_ref());
    if let Some(shelf) = kept.shelf.load().as_ref().filter(|shelf| same(shelf)) {
        if others {
            shelf.keep_off(&off);
        }
        return Ok(());
    }
    if kept.shelf.load().as_ref().is_some_and(|shelf| shelf.spec.path == spec.path) {
        kept.close();
    }
    match Log::open(&spec.path, limits(caching, spec)) {
        Ok((log, recovery)) => {
            kept.close();
            open(desk, caching, Shelf::new(log, spec.clone(), shared), recovery);
            Ok(())
        }
        Err(problem @ StoreError::InUse { .. }) => {
            kept.close();
            if !kept.told.swap(true, Relaxed) {
                tracing::warn!(
                    "kept answers are in memory only until their folder is free: {problem} (cache.persist.path)"
                );
            }
            Ok(())
        }
        Err(problem) => Err(problem),
    }
}

fn open(desk: &Arc<Desk>, caching: &Caching, shelf: Shelf, recovery: Recovery) {
    let kept = &desk.disk;
    kept.told.store(false, Relaxed);
    if desk.cache.adopt(shelf.keys.clone()) {
        // They were found by keys of the same kind.
        desk.meanings.purge(&Purge::default());
    }
    let shelf = Arc::new(shelf);
    kept.shelf.store(Some(shelf.clone()));
    let (desk, caching) = (desk.clone(), caching.clone());
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || load(&desk, &caching, &shelf, recovery, &runtime));
}

fn limits(caching: &Caching, spec: &Persist) -> Limits {
    // An answer comes with its text, its vector and the frame around it, and a few at once are to find room.
    let largest = caching.exact.unwrap_or_default().largest.saturating_mul(4);
    Limits { bytes: spec.max_size, age: spec.retention, queue: QUEUE.max(largest) }
}
