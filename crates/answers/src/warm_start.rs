//! Opening of the log of kept answers, as policies ask for it, and reading of its answers in the background while requests are served.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use tokio::runtime::Handle;

use super::{
    exact::shared_keys,
    local::LocalAnswers,
    persist::{Excluded, PersistLog, RECORD, SEMANTIC},
};
use signalbox_cache::{
    ExactKey, Kept, Purge,
    codec::{read_record, read_semantic},
    eligible,
};
use signalbox_policy::{Caching, Persist, Policy};
use signalbox_store::{Limits, Log, Record, Recovery, StoreError};
use signalbox_types::{Clock, wall_clock::now};

/// Minimum size of the write queue, in bytes.
const QUEUE: usize = 16 << 20;

/// Keeps answers on disk as `policy` says: opens its log and starts to read it back, or continues with the open one. A folder that another
/// gateway uses is not opened; the next call tries again. Waits for the disk. Call it within a runtime.
///
/// # Errors
/// [`StoreError`] where the folder cannot be used. The previous log then stays open, unless it is in the same folder.
pub(super) fn keep_on_disk(local: &Arc<LocalAnswers>, clock: Clock, policy: &Policy) -> Result<(), StoreError> {
    let kept = &local.disk;
    let _changing = kept.changing.lock();
    let excluded = Arc::new(Excluded::of(policy));
    let excluded_changed = *kept.excluded.swap(excluded.clone()) != *excluded;
    // Answers of simulated engines are not written, since they would be served with real engines later.
    let caching = policy.caching.as_ref().filter(|_| !policy.simulated);
    let Some((caching, spec)) = caching.and_then(|caching| Some((caching, caching.persist.as_ref()?))) else {
        kept.close();
        return Ok(());
    };
    let shared = caching.shared.as_ref().map(shared_keys);
    let is_same = |log: &PersistLog| log.spec == *spec && log.uses_keys(shared.as_ref());
    let current = kept.log.load_full().filter(|log| is_same(log));
    match &current {
        Some(log) if !log.log.figures().failed => {
            if excluded_changed {
                log.delete_excluded(&excluded);
            }
            return Ok(());
        }
        // It may hold answers that were purged since its writer failed.
        Some(log) if Log::discard(&log.spec.path).is_err() => return Ok(()),
        _ => {}
    }
    if current.is_none() && kept.log.load().as_ref().is_some_and(|log| log.spec.path == spec.path) {
        kept.close();
    }
    match Log::open(&spec.path, limits(caching, spec)) {
        Ok((log, recovery)) => {
            kept.close();
            open((local, clock), caching, PersistLog::new(log, spec.clone(), shared), recovery);
            Ok(())
        }
        // The next call tries again.
        Err(_) if current.is_some() => Ok(()),
        Err(problem @ StoreError::InUse { .. }) => {
            kept.close();
            if !kept.is_reported.swap(true, Relaxed) {
                tracing::warn!(
                    "kept answers: in memory only until their folder is free: {problem} (cache.persist.path)"
                );
            }
            Ok(())
        }
        Err(problem) => Err(problem),
    }
}

fn open((local, clock): (&Arc<LocalAnswers>, Clock), caching: &Caching, log: PersistLog, recovery: Recovery) {
    let kept = &local.disk;
    kept.is_reported.store(false, Relaxed);
    if local.cache.set_keys(log.keys.clone()) {
        // Semantic entries were stored under the old keys too.
        local.semantic.purge(&Purge::default());
    }
    let log = Arc::new(log);
    kept.log.store(Some(log.clone()));
    let (local, caching) = (local.clone(), caching.clone());
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || load((&local, clock), &caching, &log, recovery, &runtime));
}

fn limits(caching: &Caching, spec: &Persist) -> Limits {
    // A record holds an answer with its text, its vector and a frame, and the queue must hold a few of the largest.
    let largest = caching.exact.unwrap_or_default().largest.saturating_mul(4);
    Limits { bytes: spec.max_size, age: spec.retention, queue: QUEUE.max(largest) }
}

/// The result of reading a record back.
enum Restored {
    Record,
    Semantic,
    /// Purged, expired, older than an answer in memory, or for a cache that the policy does not have.
    Dropped,
    /// Excluded from the disk since it was written.
    Excluded,
    /// Damaged, or of another embedder or release.
    Unusable,
}

/// Reads all records back. Runs on a blocking thread of `runtime`, for seconds if there are many.
fn load(
    (local, clock): (&LocalAnswers, Clock),
    caching: &Caching,
    log: &PersistLog,
    recovery: Recovery,
    runtime: &Handle,
) {
    let began = Instant::now();
    let counts = local.disk.loaded();
    let (mut records, mut semantic, mut unusable, mut is_excluded) = (0, 0, 0, false);
    for record in recovery.flatten() {
        match restore((local, clock), caching, log, &record, runtime) {
            Restored::Record => records += 1,
            Restored::Semantic => semantic += 1,
            Restored::Unusable => {
                unusable += 1;
                // It would be unusable at the next start too.
                log.log.remove(record.kind, record.key);
            }
            Restored::Excluded => is_excluded = true,
            Restored::Dropped => {}
        }
        counts.millis.store(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX), Relaxed);
    }
    log.finish_loading();
    if is_excluded {
        log.delete_excluded(&local.disk.excluded.load());
    }
    counts.records.fetch_add(records, Relaxed);
    counts.semantic.fetch_add(semantic, Relaxed);
    counts.unusable.fetch_add(unusable, Relaxed);
    let folder = log.spec.path.display();
    let seconds = began.elapsed().as_secs_f64();
    tracing::info!(%folder, exact = records, semantic, unusable, seconds, "kept answers: read from disk");
}

/// Restores one record into memory.
fn restore(
    (local, clock): (&LocalAnswers, Clock),
    caching: &Caching,
    log: &PersistLog,
    record: &Record,
    runtime: &Handle,
) -> Restored {
    // If the system clock was set back, the record looks newer than it is; the policy's TTL still bounds its time.
    let age = Duration::from_millis(now().saturating_sub(record.written));
    let left = Duration::from_millis(record.expires.saturating_sub(now()));
    let moment = clock.now();
    let kept = Kept::aged(moment, age);
    match (record.kind, caching.exact, caching.semantic) {
        (RECORD, Some(exact), _) => {
            let Ok(answer) = read_record(&log.keys, &record.payload) else { return Restored::Unusable };
            let key = ExactKey::from_bytes(record.key);
            let (left, answer) = (left.min(exact.ttl.saturating_sub(age)), Arc::new(answer));
            if local.disk.is_excluded(&answer) {
                return Restored::Excluded;
            }
            let insert = || !left.is_zero() && local.cache.exact.restore(key, answer.clone(), kept, left, moment);
            if log.unless_purged(&key, &answer, insert) == Some(true) { Restored::Record } else { Restored::Dropped }
        }
        (SEMANTIC, _, Some(semantic)) => {
            let Ok(entry) = read_semantic(&log.keys, &record.payload) else { return Restored::Unusable };
            if local.disk.is_excluded(&entry.record) {
                return Restored::Excluded;
            }
            let ttl = semantic.ttl_of(eligible::is_volatile(&entry.text));
            let left = left.min(ttl.saturating_sub(age));
            if left.is_zero() {
                return Restored::Dropped;
            }
            let (key, answer) = (entry.exact, entry.record.clone());
            let Some((compat, new)) = runtime.block_on(local.semantic.rebuild(entry, kept)) else {
                return Restored::Unusable;
            };
            let insert = || local.semantic.entries.restore(compat, new, left, moment).is_some();
            if log.unless_purged(&key, &answer, insert) == Some(true) { Restored::Semantic } else { Restored::Dropped }
        }
        (RECORD | SEMANTIC, ..) => Restored::Dropped,
        _ => Restored::Unusable,
    }
}
