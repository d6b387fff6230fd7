//! The warm start: kept answers are read back piece by piece while requests are served.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use tokio::runtime::Handle;

use super::shelf::{MEANING, RECORD, Shelf};
use crate::{
    cache::{
        ExactKey, Kept,
        codec::{read_record, read_semantic},
        eligible,
    },
    gateway::{Desk, wall::now},
    policy::Caching,
    store::{Record, Recovery},
};

/// What became of a record.
enum Found {
    Record,
    Meaning,
    /// Purged, out of date, in the way of a newer one, or for a cache that the policy does not have.
    Gone,
    /// To stay off the disk, where it went before the policy said so.
    Off,
    /// Of another embedder or release, or damaged.
    Passed,
}

/// Reads everything back. Takes as long as it takes: on a thread that may block, of `runtime`.
pub(super) fn load(desk: &Desk, caching: &Caching, shelf: &Shelf, recovery: Recovery, runtime: &Handle) {
    let began = Instant::now();
    let counts = desk.disk.loaded();
    let (mut records, mut meanings, mut passed, mut off) = (0, 0, 0, false);
    for record in recovery.flatten() {
        match take(desk, caching, shelf, &record, runtime) {
            Found::Record => records += 1,
            Found::Meaning => meanings += 1,
            Found::Passed => {
                passed += 1;
                // Nobody could ever use it.
                shelf.log.remove(record.kind, record.key);
            }
            Found::Off => off = true,
            Found::Gone => {}
        }
        counts.millis.store(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX), Relaxed);
    }
    shelf.loaded();
    if off {
        shelf.keep_off(&desk.disk.off.load());
    }
    counts.records.fetch_add(records, Relaxed);
    counts.meanings.fetch_add(meanings, Relaxed);
    counts.passed.fetch_add(passed, Relaxed);
    let folder = shelf.spec.path.display();
    let seconds = began.elapsed().as_secs_f64();
    tracing::info!(%folder, exact = records, semantic = meanings, passed, seconds, "kept answers were read from disk");
}

fn take(desk: &Desk, caching: &Caching, shelf: &Shelf, record: &Record, runtime: &Handle) -> Found {
    // The clock of the wall may have been set meanwhile: then it looks newer, never older, and its time is bounded by the policy's.
    let age = Duration::from_millis(now().saturating_sub(record.written));
    let left = Duration::from_millis(record.expires.saturating_sub(now()));
    let moment = desk.clock.now();
    let kept = Kept::aged(moment, age);
    match (record.kind, caching.exact, caching.semantic) {
        (RECORD, Some(exact), _) => {
            let Ok(answer) = read_record(&shelf.keys, &record.payload) else { return Found::Passed };
            let key = ExactKey::from_bytes(record.key);
            let (left, answer) = (left.min(exact.ttl.saturating_sub(age)), Arc::new(answer));
            if desk.disk.is_off(&answer) {
                return Found::Off;
            }
            let take = || !left.is_zero() && desk.cache.exact.restore(key, answer.clone(), kept, left, moment);
            if shelf.unless_purged(&key, &answer, take) == Some(true) { Found::Record } else { Found::Gone }
        }
        (MEANING, _, Some(semantic)) => {
            let Ok(meaning) = read_semantic(&shelf.keys, &record.payload) else { return Found::Passed };
            if desk.disk.is_off(&meaning.record) {
                return Found::Off;
            }
            let ttl = semantic.ttl_of(eligible::is_volatile(&meaning.text));
            let left = left.min(ttl.saturating_sub(age));
            if left.is_zero() {
                return Found::Gone;
            }
            let (key, answer) = (meaning.exact, meaning.record.clone());
            let Some((compat, new)) = runtime.block_on(desk.meanings.remade(meaning, kept)) else {
                return Found::Passed;
            };
            let take = || desk.meanings.entries.restore(compat, new, left, moment).is_some();
            if shelf.unless_purged(&key, &answer, take) == Some(true) { Found::Meaning } else { Found::Gone }
        }
        (RECORD | MEANING, ..) => Found::Gone,
        _ => Found::Passed,
    }
}
