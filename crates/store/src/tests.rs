//! Logs that are cut, corrupted, left half compacted and opened twice return exactly the stored records, or nothing.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use proptest::prelude::*;

use super::{Figures, Limits, Log, Record, StoreError};

const LIMITS: Limits = Limits { bytes: 1 << 30, age: Duration::from_hours(1), queue: 1 << 28 };
const NOW: u64 = 1_000_000;

fn open(folder: &Path) -> (Log, Vec<Record>) {
    let (log, recovery) = Log::open_at(folder, LIMITS, || NOW).expect("a log");
    let records = recovery.flatten().collect();
    (log, records)
}

fn record(key: u8, scope: u8, payload: &[u8]) -> Record {
    Record {
        kind: 1,
        key: [key; 32],
        scope: [scope; 32],
        written: NOW,
        expires: NOW + 1000,
        payload: payload.to_vec().into(),
    }
}

fn figures(log: &Log) -> Figures {
    assert!(log.flush());
    log.figures()
}

/// Records of a log, by key.
fn kept(folder: &Path) -> BTreeMap<u8, Vec<u8>> {
    let (log, records) = open(folder);
    log.close();
    records.into_iter().map(|record| (record.key[0], record.payload.to_vec())).collect()
}

fn file(folder: &Path) -> std::path::PathBuf {
    folder.join("log")
}

/// Three records, one of them replaced, and finally one deleted.
fn sample(folder: &Path) -> Vec<u8> {
    let (log, _) = open(folder);
    for record in [record(1, 1, b"one"), record(2, 1, b"two"), record(3, 2, &[7; 30]), record(1, 1, b"another")] {
        assert!(log.put(record));
    }
    log.remove(1, [2; 32]);
    log.close();
    fs::read(file(folder)).unwrap()
}

#[test]
fn records_and_the_secret_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (log, records) = open(folder.path());
    assert!(records.is_empty());
    let secret = *log.secret();
    let many: Vec<Record> = (0..200).map(|key| record(key, 0, &vec![key; 5000])).collect();
    for record in &many {
        assert!(log.put(record.clone()));
    }
    log.close();
    let (log, records) = open(folder.path());
    assert_eq!(records, many);
    assert_eq!(*log.secret(), secret);
    assert_eq!(log.figures().records, 200);
}

#[test]
fn a_file_truncated_anywhere_returns_its_intact_records_and_continues() {
    let folder = tempfile::tempdir().unwrap();
    let whole = sample(folder.path());
    for length in 0..whole.len() {
        fs::write(file(folder.path()), &whole[..length]).unwrap();
        let (log, records) = open(folder.path());
        for found in &records {
            let known: &[&[u8]] = match found.key[0] {
                1 => &[b"one", b"another"],
                2 => &[b"two"],
                _ => &[&[7; 30]],
            };
            assert!(known.contains(&&*found.payload), "{length}: {found:?}");
        }
        assert!(log.put(record(9, 1, b"after")));
        log.close();
        let after = kept(folder.path());
        assert_eq!(after.len(), records.len() + 1, "{length}");
        assert_eq!(after[&9], b"after");
    }
}

#[test]
fn a_flipped_bit_changes_no_record_and_restores_no_deleted_one() {
    let folder = tempfile::tempdir().unwrap();
    let whole = sample(folder.path());
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(file(folder.path()), &damaged).unwrap();
        match Log::open_at(folder.path(), LIMITS, || NOW) {
            Err(problem) => assert!(at == 7 && matches!(problem, StoreError::Version { .. }), "{at}: {problem}"),
            Ok((log, recovery)) => {
                for found in recovery.flatten() {
                    let good = match found.key[0] {
                        1 => &b"another"[..],
                        3 => &[7; 30],
                        _ => panic!("{at}: {found:?} was deleted"),
                    };
                    assert_eq!(found.payload, good, "{at}");
                }
                log.close();
            }
        }
    }
}

#[test]
fn damage_that_hides_a_deletion_drops_earlier_records() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = open(folder.path());
    log.put(record(1, 1, b"one"));
    log.put(record(2, 1, b"two"));
    assert!(log.flush());
    let start = fs::metadata(file(folder.path())).unwrap().len() as usize;
    log.remove(1, [2; 32]);
    assert!(log.flush());
    let end = fs::metadata(file(folder.path())).unwrap().len() as usize;
    log.put(record(3, 1, b"three"));
    log.close();
    let mut bytes = fs::read(file(folder.path())).unwrap();
    bytes[start..end].fill(0);
    fs::write(file(folder.path()), &bytes).unwrap();
    let (log, records) = open(folder.path());
    assert_eq!(records, [record(3, 1, b"three")]);
    let figures = log.figures();
    assert_eq!((figures.doubtful, figures.damaged), (2, (end - start) as u64));
}

#[test]
fn a_frame_inside_a_payload_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let forged = {
        let other = tempfile::tempdir().unwrap();
        let (log, _) = open(other.path());
        log.put(record(66, 1, b"forged"));
        log.close();
        fs::read(file(other.path())).unwrap()
    };
    let (log, _) = open(folder.path());
    log.put(record(1, 1, &forged));
    log.close();
    let mut bytes = fs::read(file(folder.path())).unwrap();
    bytes[80] ^= 1;
    fs::write(file(folder.path()), &bytes).unwrap();
    assert_eq!(kept(folder.path()), BTreeMap::new());
}

#[test]
fn deletions_survive_compaction_and_their_bytes_leave_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = open(folder.path());
    for key in 0..100 {
        log.put(record(key, key % 2, format!("payload of {key}").repeat(100).as_bytes()));
    }
    assert!(log.flush());
    log.remove(1, [0; 32]);
    log.remove_scope([1; 32]);
    log.put(record(200, 1, b"later"));
    while figures(&log).compactions == 0 {}
    log.put(record(201, 0, b"after"));
    log.close();
    let text = fs::read(file(folder.path())).unwrap();
    assert!(memchr::memmem::find(&text, b"payload of 33").is_none());
    assert!(memchr::memmem::find(&text, b"payload of 34").is_some());
    let kept = kept(folder.path());
    let keys: Vec<u8> = (2..100).step_by(2).chain([200, 201]).collect();
    assert_eq!(kept.keys().copied().collect::<Vec<_>>(), keys);
}

#[test]
fn an_interrupted_compaction_is_discarded() {
    let folder = tempfile::tempdir().unwrap();
    sample(folder.path());
    let before = kept(folder.path());
    fs::write(folder.path().join("log.new"), b"half of a new log").unwrap();
    assert_eq!(kept(folder.path()), before);
    assert!(!folder.path().join("log.new").exists());
}

#[test]
fn records_deleted_during_recovery_are_not_returned() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = open(folder.path());
    for key in 0..20 {
        log.put(record(key, key % 2, &vec![key; 100_000]));
    }
    log.close();
    let (log, mut recovery) = Log::open_at(folder.path(), LIMITS, || NOW).unwrap();
    let first = recovery.next().unwrap();
    assert_eq!(first.len(), 3, "in pieces of 256 KB");
    log.remove_scope([1; 32]);
    log.put(record(4, 0, b"newer"));
    let rest: Vec<u8> = recovery.flatten().map(|record| record.key[0]).collect();
    assert_eq!(rest, [6, 8, 10, 12, 14, 16, 18]);
}

/// A clock that a test can set.
static LATER: AtomicU64 = AtomicU64::new(NOW + 499);

#[test]
fn expired_and_surplus_records_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { bytes: 2000, age: Duration::from_millis(500), ..LIMITS };
    let (log, _) = Log::open_at(folder.path(), limits, || NOW).unwrap();
    log.put(Record { written: NOW - 400, ..record(1, 1, &[0; 200]) });
    for key in 2..10 {
        log.put(record(key, 1, &[0; 200]));
    }
    let figures = figures(&log);
    assert!(figures.records == 6 && figures.evicted == 3, "{figures:?}");
    log.close();
    let count = || {
        let (log, recovery) = Log::open_at(folder.path(), limits, || LATER.load(Ordering::Relaxed)).unwrap();
        let count = recovery.flatten().count();
        log.close();
        count
    };
    assert_eq!(count(), 6);
    LATER.store(NOW + 500, Ordering::Relaxed);
    assert_eq!(count(), 0);
}

#[test]
fn a_folder_has_one_process_and_no_other_writers() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("cache");
    let (log, _) = open(&inside);
    let problem = Log::open(&inside, LIMITS).unwrap_err();
    assert!(problem.to_string().contains("in use by another process"), "{problem}");
    log.close();
    drop(open(&inside).0);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&inside), 0o700);
        assert_eq!(mode(&file(&inside)), 0o600);
        let shared = folder.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
        let problem = Log::open(&shared, LIMITS).unwrap_err();
        assert!(problem.to_string().contains("is writable by other users"), "{problem}");
    }
}

#[test]
fn records_without_room_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = Log::open_at(folder.path(), Limits { queue: 100, ..LIMITS }, || NOW).unwrap();
    assert!(!log.put(record(1, 1, b"")));
    assert!(log.remove(1, [1; 32]));
    assert_eq!(figures(&log).dropped, 1);
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8, Vec<u8>),
    Remove(u8),
    RemoveScope(u8),
    Clear,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0_u8..12, 1_u8..4, prop::collection::vec(any::<u8>(), 0..2000)).prop_map(|(key, scope, payload)| Step::Put(key, scope, payload)),
        2 => (0_u8..12).prop_map(Step::Remove),
        1 => (1_u8..4).prop_map(Step::RemoveScope),
        1 => Just(Step::Clear),
        2 => Just(Step::Reopen),
    ]
}

#[test]
fn a_zero_tag_in_a_deletion_matches_any() {
    let tags = |tags: [u8; 4]| {
        let mut scope = [0; 32];
        scope.chunks_mut(8).zip(tags).for_each(|(place, tag)| place.fill(tag));
        scope
    };
    let all = [[1, 1, 1, 0], [1, 2, 2, 0], [2, 1, 3, 0], [2, 2, 0, 4]];
    for (pattern, left) in [
        ([1, 0, 0, 0], vec![2, 3]),
        ([0, 1, 0, 0], vec![1, 3]),
        ([2, 2, 0, 0], vec![0, 1, 2]),
        ([0, 0, 3, 0], vec![0, 1, 3]),
        ([1, 1, 2, 0], vec![0, 1, 2, 3]),
        ([0, 0, 0, 0], vec![]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (log, _) = open(folder.path());
        for (at, scope) in (0..).zip(all) {
            log.put(Record { scope: tags(scope), ..record(at, 0, b"") });
        }
        log.remove_scope(tags(pattern));
        log.close();
        assert_eq!(kept(folder.path()).into_keys().collect::<Vec<_>>(), left, "{pattern:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_log_agrees_with_a_map_at_every_reopening(steps in prop::collection::vec(step(), 1..60)) {
        let folder = tempfile::tempdir().unwrap();
        let mut model = BTreeMap::new();
        let (mut log, _) = open(folder.path());
        for step in steps {
            match step {
                Step::Put(key, scope, payload) => {
                    log.put(record(key, scope, &payload));
                    model.insert(key, (scope, payload));
                }
                Step::Remove(key) => {
                    log.remove(1, [key; 32]);
                    model.remove(&key);
                }
                Step::RemoveScope(scope) => {
                    log.remove_scope([scope; 32]);
                    model.retain(|_, (of, _)| *of != scope);
                }
                Step::Clear => {
                    log.clear();
                    model.clear();
                }
                Step::Reopen => {
                    log.close();
                    log = open(folder.path()).0;
                }
            }
        }
        log.close();
        let expected: BTreeMap<u8, Vec<u8>> = model.into_iter().map(|(key, (_, payload))| (key, payload)).collect();
        prop_assert_eq!(kept(folder.path()), expected);
    }

    #[test]
    fn noise_in_a_file_never_changes_a_record(noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>()) {
        let folder = tempfile::tempdir().unwrap();
        let whole = sample(folder.path());
        let mut bytes = whole[..=cut.index(whole.len())].to_vec();
        for (at, byte) in noise {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        fs::write(file(folder.path()), &bytes).unwrap();
        if let Ok((log, recovery)) = Log::open_at(folder.path(), LIMITS, || NOW) {
            for found in recovery.flatten() {
                let known: &[&[u8]] = match found.key[0] {
                    1 => &[b"one", b"another"],
                    2 => &[b"two"],
                    _ => &[&[7; 30]],
                };
                prop_assert!(known.contains(&&*found.payload));
            }
            log.close();
        }
    }
}
