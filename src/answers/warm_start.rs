//! The log of kept answers that a policy asks for: opened, closed and opened anew as policies change. Its answers are read back in the
//! background while requests are served.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use tokio::runtime::Handle;

use super::{
    local::LocalAnswers,
    peer_keys,
    persist::{Excluded, MEANING, PersistLog, RECORD},
};
use crate::{
    cache::{
        ExactKey, Kept, Purge,
        codec::{read_record, read_semantic},
        eligible,
    },
    measure::lock,
    policy::{Caching, Persist, Policy},
    store::{Limits, Log, Record, Recovery, StoreError},
    types::{Clock, wall_clock::now},
};

/// Least bytes of answers that may wait to be written.
const QUEUE: usize = 16 << 20;

/// Has the answers kept on disk that `policy` wants there: opens its log and begins to read it back, or goes on with the one that is open.
/// A folder that another gateway has is left alone, and tried again when this is called again. Waits for the disk; within a runtime.
///
/// # Errors
/// [`StoreError`] where the folder cannot be used. The log before stays open then, unless it was in the same folder.
pub(super) fn keep_on_disk(local: &Arc<LocalAnswers>, clock: Clock, policy: &Policy) -> Result<(), StoreError> {
    let kept = &local.disk;
    let _alone = lock(&kept.changing);
    let off = Arc::new(Excluded::of(policy));
    let others = *kept.off.swap(off.clone()) != *off;
    // What simulated engines say is not to be there when the real ones are.
    let caching = policy.caching.as_ref().filter(|_| !policy.simulated);
    let Some((caching, spec)) = caching.and_then(|caching| Some((caching, caching.persist.as_ref()?))) else {
        kept.close();
        return Ok(());
    };
    let shared = caching.shared.as_ref().map(peer_keys::keys);
    let same = |log: &PersistLog| log.spec == *spec && log.is_named_by(shared.as_ref());
    if let Some(log) = kept.log.load().as_ref().filter(|log| same(log)) {
        if others {
            log.keep_off(&off);
        }
        return Ok(());
    }
    if kept.log.load().as_ref().is_some_and(|log| log.spec.path == spec.path) {
        kept.close();
    }
    match Log::open(&spec.path, limits(caching, spec)) {
        Ok((log, recovery)) => {
            kept.close();
            open((local, clock), caching, PersistLog::new(log, spec.clone(), shared), recovery);
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

fn open((local, clock): (&Arc<LocalAnswers>, Clock), caching: &Caching, log: PersistLog, recovery: Recovery) {
    let kept = &local.disk;
    kept.told.store(false, Relaxed);
    if local.cache.adopt(log.keys.clone()) {
        // They were found by keys of the same kind.
        local.semantic.purge(&Purge::default());
    }
    let log = Arc::new(log);
    kept.log.store(Some(log.clone()));
    let (local, caching) = (local.clone(), caching.clone());
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || load((&local, clock), &caching, &log, recovery, &runtime));
}

fn limits(caching: &Caching, spec: &Persist) -> Limits {
    // An answer comes with its text, its vector and the frame around it, and a few at once are to find room.
    let largest = caching.exact.unwrap_or_default().largest.saturating_mul(4);
    Limits { bytes: spec.max_size, age: spec.retention, queue: QUEUE.max(largest) }
}

/// What became of a record.
enum Found {
    Record,
    Meaning,
    /// Purged, out of date, in the way of a newer one, or for a cache that the policy does not have.
    Gone,
    /// To stay off the disk, where it went before the policy said so.
    Excluded,
    /// Of another embedder or release, or damaged.
    Passed,
}

/// Reads everything back. Takes as long as it takes: on a thread that may block, of `runtime`.
fn load(
    (local, clock): (&LocalAnswers, Clock),
    caching: &Caching,
    log: &PersistLog,
    recovery: Recovery,
    runtime: &Handle,
) {
    let began = Instant::now();
    let counts = local.disk.loaded();
    let (mut records, mut meanings, mut passed, mut off) = (0, 0, 0, false);
    for record in recovery.flatten() {
        match take((local, clock), caching, log, &record, runtime) {
            Found::Record => records += 1,
            Found::Meaning => meanings += 1,
            Found::Passed => {
                passed += 1;
                // Nobody could ever use it.
                log.log.remove(record.kind, record.key);
            }
            Found::Excluded => off = true,
            Found::Gone => {}
        }
        counts.millis.store(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX), Relaxed);
    }
    log.loaded();
    if off {
        log.keep_off(&local.disk.off.load());
    }
    counts.records.fetch_add(records, Relaxed);
    counts.meanings.fetch_add(meanings, Relaxed);
    counts.passed.fetch_add(passed, Relaxed);
    let folder = log.spec.path.display();
    let seconds = began.elapsed().as_secs_f64();
    tracing::info!(%folder, exact = records, semantic = meanings, passed, seconds, "kept answers were read from disk");
}

fn take(
    (local, clock): (&LocalAnswers, Clock),
    caching: &Caching,
    log: &PersistLog,
    record: &Record,
    runtime: &Handle,
) -> Found {
    // The clock of the wall may have been set meanwhile: then it looks newer, never older, and its time is bounded by the policy's.
    let age = Duration::from_millis(now().saturating_sub(record.written));
    let left = Duration::from_millis(record.expires.saturating_sub(now()));
    let moment = clock.now();
    let kept = Kept::aged(moment, age);
    match (record.kind, caching.exact, caching.semantic) {
        (RECORD, Some(exact), _) => {
            let Ok(answer) = read_record(&log.keys, &record.payload) else { return Found::Passed };
            let key = ExactKey::from_bytes(record.key);
            let (left, answer) = (left.min(exact.ttl.saturating_sub(age)), Arc::new(answer));
            if local.disk.is_off(&answer) {
                return Found::Excluded;
            }
            let take = || !left.is_zero() && local.cache.exact.restore(key, answer.clone(), kept, left, moment);
            if log.unless_purged(&key, &answer, take) == Some(true) { Found::Record } else { Found::Gone }
        }
        (MEANING, _, Some(semantic)) => {
            let Ok(meaning) = read_semantic(&log.keys, &record.payload) else { return Found::Passed };
            if local.disk.is_off(&meaning.record) {
                return Found::Excluded;
            }
            let ttl = semantic.ttl_of(eligible::is_volatile(&meaning.text));
            let left = left.min(ttl.saturating_sub(age));
            if left.is_zero() {
                return Found::Gone;
            }
            let (key, answer) = (meaning.exact, meaning.record.clone());
            let Some((compat, new)) = runtime.block_on(local.semantic.remade(meaning, kept)) else {
                return Found::Passed;
            };
            let take = || local.semantic.entries.restore(compat, new, left, moment).is_some();
            if log.unless_purged(&key, &answer, take) == Some(true) { Found::Meaning } else { Found::Gone }
        }
        (RECORD | MEANING, ..) => Found::Gone,
        _ => Found::Passed,
    }
}
