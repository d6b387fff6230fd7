//! Usage, budgets, revocations and owners of objects on disk: a file of rows for each day, one for objects, and one for the rest. Files are
//! written whole and renamed into place, so that a crash loses the seconds since the last write at most, and never a file. Only the file of
//! objects is appended to.

use std::{
    collections::BTreeMap,
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use signalbox_quota::{MOST_OBJECTS, Owned, Owners, Row, Tally, UsageLedger, calendar};
use signalbox_store::private_file;
use signalbox_telemetry::StoreWrites;
use signalbox_types::Name;

/// The file of budgets and revocations.
const STATE: &str = "standing.json";
/// The file of owners of objects at providers.
const OBJECTS: &str = "objects.jsonl";

/// The folder of usage cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UsageStoreError {
    /// An I/O error.
    #[error("'{path}': {error}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Another process uses the folder.
    #[error("'{0}' is in use by another gateway: each needs a folder of its own")]
    InUse(PathBuf),
    /// A file is damaged.
    #[error("'{path}' cannot be read ({error}): repair it, or move it away")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the parser.
        error: serde_json::Error,
    },
}

/// The content of a folder.
#[derive(Default)]
pub(super) struct StoredUsage {
    pub(super) rows: Vec<Row>,
    pub(super) state: StoredState,
    pub(super) objects: Vec<Owned>,
}

/// Budgets and revocations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredState {
    /// Id under which this gateway reports its spending to the limit server.
    #[serde(default, rename = "ledger")]
    pub(super) gateway_id: Option<Name>,
    /// Spending of teams.
    pub(super) teams: BTreeMap<Name, Tally>,
    /// Spending of keys with a budget of their own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) keys: BTreeMap<Name, Tally>,
    /// Ids of revoked keys, by the key's hash.
    #[serde(with = "hashes")]
    pub(super) revoked: BTreeMap<[u8; 32], Name>,
}

/// Hashes as hex text.
mod hashes {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use signalbox_types::Name;

    pub(super) fn serialize<S: Serializer>(
        revoked: &BTreeMap<[u8; 32], Name>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer
            .collect_map(revoked.iter().map(|(hash, id)| (blake3::Hash::from_bytes(*hash).to_hex().to_string(), id)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<[u8; 32], Name>, D::Error> {
        let read = BTreeMap::<String, Name>::deserialize(deserializer)?;
        let hash = |(hash, id): (String, Name)| Some((*blake3::Hash::from_hex(hash).ok()?.as_bytes(), id));
        Ok(read.into_iter().filter_map(hash).collect())
    }
}

/// An open folder.
pub(super) struct UsageStore {
    folder: PathBuf,
    /// The content of the file of budgets and revocations.
    state: Vec<u8>,
    /// Lines in the file of objects; `None` where it has to be rewritten.
    objects: Option<usize>,
    /// Outcome of the writes, for operators.
    writes: StoreWrites,
    /// Locked until closed, at the latest with the process.
    _lock: File,
}

impl UsageStore {
    /// Opens and locks a folder, or creates it, and reads its content from the day of `first` on.
    pub(super) fn open(folder: &Path, first: i64, writes: StoreWrites) -> Result<(Self, StoredUsage), UsageStoreError> {
        let failed = |error| UsageStoreError::Io { path: folder.into(), error };
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(folder).map_err(failed)?;
        let lock = private_file().create(true).open(folder.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(UsageStoreError::InUse(folder.into())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut found = StoredUsage::default();
        let first = calendar::date(first).to_string();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if day(&path).is_some_and(|day| *day >= *first) {
                read_rows(&path, &mut found.rows)?;
            }
        }
        let path = folder.join(STATE);
        let state = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(UsageStoreError::Io { path, error }),
        };
        found.state = read_state(&state).map_err(|error| UsageStoreError::Unreadable { path, error })?;
        let objects = read_objects(&folder.join(OBJECTS), &mut found.objects).map_err(failed)?;
        writes.wrote();
        Ok((Self { folder: folder.into(), state, objects, writes, _lock: lock }, found))
    }

    /// Forgets what was written of budgets and revocations, so that the next write writes them again.
    pub(super) fn doubt_state(&mut self) {
        self.state.clear();
    }

    /// Writes changes.
    ///
    /// # Errors
    /// [`io::Error`] where not all of them are on disk. They are written with the next call.
    pub(super) fn write(&mut self, book: &UsageLedger, state: &StoredState, owners: &Owners) -> io::Result<()> {
        let changed = book.take_changed();
        let result = changed.iter().try_for_each(|day| self.write_day(book, day)).and_then(|()| {
            let state = serde_json::to_vec_pretty(state)?;
            if state != self.state {
                self.put(STATE, &state)?;
                self.state = state;
            }
            self.write_objects(owners)
        });
        let folder = self.folder.display();
        match &result {
            Ok(()) if self.writes.wrote() => tracing::info!(%folder, "usage: is written again"),
            Ok(()) => {}
            Err(error) => {
                book.put_back(changed);
                if self.writes.failed(error) {
                    tracing::error!(%error, %folder, "usage: could not be written, will be retried (usage.path)");
                }
            }
        }
        result
    }

    fn write_day(&self, book: &UsageLedger, day: &Name) -> io::Result<()> {
        let mut text = Vec::new();
        for row in book.day(day) {
            serde_json::to_writer(&mut text, &row)?;
            text.push(b'\n');
        }
        self.put(&format!("usage-{day}.jsonl"), &text)
    }

    /// Appends new objects; rewrites the file where it has grown long or the last write failed.
    fn write_objects(&mut self, owners: &Owners) -> io::Result<()> {
        let (lines, mut new) = (self.objects.take(), owners.take_new());
        let lines = lines.filter(|lines| lines + new.len() <= 2 * MOST_OBJECTS);
        if lines.is_none() {
            new = owners.all();
        } else if new.is_empty() {
            self.objects = lines;
            return Ok(());
        }
        let mut text = Vec::new();
        for owned in &new {
            serde_json::to_writer(&mut text, owned)?;
            text.push(b'\n');
        }
        if lines.is_none() {
            self.put(OBJECTS, &text)?;
        } else {
            let mut file = private_file().create(true).append(true).open(self.folder.join(OBJECTS))?;
            file.write_all(&text)?;
            file.sync_all()?;
        }
        self.objects = Some(lines.unwrap_or(0) + new.len());
        Ok(())
    }

    fn put(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let draft = self.folder.join("draft");
        let mut file = private_file().create(true).truncate(true).open(&draft)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(draft, self.folder.join(name))
    }
}

/// The day of a file of rows.
fn day(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_prefix("usage-")?.strip_suffix(".jsonl")
}

fn read_rows(path: &Path, rows: &mut Vec<Row>) -> Result<(), UsageStoreError> {
    let text = fs::read_to_string(path).map_err(|error| UsageStoreError::Io { path: path.into(), error })?;
    rows_of(&text, rows).map_err(|error| UsageStoreError::Unreadable { path: path.into(), error })
}

fn rows_of(text: &str, rows: &mut Vec<Row>) -> serde_json::Result<()> {
    for line in text.lines().filter(|line| !line.is_empty()) {
        rows.push(serde_json::from_str(line)?);
    }
    Ok(())
}

/// Reads the file of objects and returns its number of lines; `None` where a crash has cut a line short.
fn read_objects(path: &Path, objects: &mut Vec<Owned>) -> io::Result<Option<usize>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(0)),
        Err(error) => return Err(error),
    };
    let mut is_whole = true;
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(owned) => objects.push(owned),
            Err(_) => is_whole = false,
        }
    }
    Ok((is_whole && text.last().is_none_or(|byte| *byte == b'\n')).then_some(objects.len()))
}

fn read_state(bytes: &[u8]) -> serde_json::Result<StoredState> {
    if bytes.is_empty() { Ok(StoredState::default()) } else { serde_json::from_slice(bytes) }
}

/// Parses any bytes as rows of a day and as budgets and revocations. The entry point of a fuzzer.
///
/// # Panics
/// If the parsed data changes or cannot be parsed after it was written again.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_usage(bytes: &[u8]) {
    use signalbox_quota::{Amount, Budget, BudgetAccount, Period, Used};

    if let Ok(state) = read_state(bytes) {
        let written = serde_json::to_vec_pretty(&state).unwrap_or_default();
        assert!(read_state(&written).is_ok_and(|again| again == state), "budgets and revocations change on disk");
        let budget = Budget { amount: Amount::Tokens(u64::MAX), per: Period::Month };
        for tally in state.teams.values().chain(state.keys.values()) {
            let _ = BudgetAccount::new(budget, Some(*tally), tally.since).standing(tally.since);
        }
    }
    let mut rows = Vec::new();
    if rows_of(&String::from_utf8_lossy(bytes), &mut rows).is_err() {
        return;
    }
    let book = UsageLedger::default();
    book.restore(rows.clone());
    book.restore(rows.clone());
    for day in rows.iter().map(|row| &row.entry.day) {
        let kept = book.day(day);
        let lines: Vec<_> = kept.iter().filter_map(|row| serde_json::to_string(row).ok()).collect();
        let mut again = Vec::new();
        assert!(rows_of(&lines.join("\n"), &mut again).is_ok(), "a day cannot be read again: {lines:?}");
        let counted = |row: &Row| (row.entry.clone(), Used { cost_usd: 0.0, ..row.used });
        assert!(kept.iter().map(counted).eq(again.iter().map(counted)), "a day changes on disk");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_quota::Entry;
    use signalbox_quota::Used;
    use signalbox_types::object::ObjectKind;

    fn add(book: &UsageLedger, day: &str) {
        let entry = Entry { day: day.into(), key: "web".into(), ..Entry::default() };
        book.add(entry, &Used { requests: 1, ..Used::default() });
    }

    #[test]
    fn written_data_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("usage");
        let (mut store, found) = UsageStore::open(&folder, 0, StoreWrites::default()).unwrap();
        assert!(found.rows.is_empty());
        assert!(matches!(UsageStore::open(&folder, 0, StoreWrites::default()), Err(UsageStoreError::InUse(_))));
        let book = UsageLedger::default();
        add(&book, "2026-11-20");
        add(&book, "2026-11-21");
        let tally = Tally { since: 7, tokens: 8, picodollars: 9 };
        let state = StoredState {
            gateway_id: Some("one".into()),
            teams: BTreeMap::from([("search".into(), tally)]),
            keys: BTreeMap::from([("web".into(), tally)]),
            revoked: BTreeMap::from([([3; 32], "old".into())]),
        };
        let owners = Owners::default();
        owners.note("file-1", ObjectKind::File, &"web".into(), None);
        store.write(&book, &state, &owners).unwrap();
        owners.note("file-2", ObjectKind::File, &"web".into(), None);
        store.write(&book, &state, &owners).unwrap();
        drop(store);
        let (_, found) = UsageStore::open(&folder, 1_795_219_200, StoreWrites::default()).unwrap();
        assert_eq!((found.rows.len(), &found.state), (1, &state), "the day before is over");
        assert_eq!(found.objects, owners.all());
        fs::write(folder.join("usage-2026-11-21.jsonl"), "{\"day\":").unwrap();
        assert!(matches!(
            UsageStore::open(&folder, 0, StoreWrites::default()),
            Err(UsageStoreError::Unreadable { .. })
        ));
    }

    #[test]
    fn a_failed_write_is_retried() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("usage");
        let (mut store, _) = UsageStore::open(&folder, 0, StoreWrites::default()).unwrap();
        let book = UsageLedger::default();
        add(&book, "2026-11-21");
        fs::create_dir(folder.join("draft")).unwrap();
        let owners = Owners::default();
        owners.note("file-1", ObjectKind::File, &"web".into(), None);
        assert!(store.write(&book, &StoredState::default(), &owners).is_err() && store.writes.failure().is_some());
        fs::remove_dir(folder.join("draft")).unwrap();
        store.write(&book, &StoredState::default(), &owners).unwrap();
        assert!(store.writes.failure().is_none());
        drop(store);
        let (_, found) = UsageStore::open(&folder, 0, StoreWrites::default()).unwrap();
        assert_eq!((found.rows.len(), found.objects), (1, owners.all()));
    }

    #[test]
    fn a_truncated_line_loses_only_itself() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = UsageStore::open(dir.path(), 0, StoreWrites::default()).unwrap();
        let owners = Owners::default();
        owners.note("file-1", ObjectKind::File, &"web".into(), None);
        store.write(&UsageLedger::default(), &StoredState::default(), &owners).unwrap();
        let path = dir.path().join(OBJECTS);
        let mut text = fs::read(&path).unwrap();
        text.extend_from_slice(b"{\"id\":\"0");
        fs::write(&path, text).unwrap();
        drop(store);
        let (mut store, found) = UsageStore::open(dir.path(), 0, StoreWrites::default()).unwrap();
        assert_eq!(found.objects, owners.all());
        owners.note("file-2", ObjectKind::File, &"web".into(), None);
        store.write(&UsageLedger::default(), &StoredState::default(), &owners).unwrap();
        drop(store);
        assert_eq!(UsageStore::open(dir.path(), 0, StoreWrites::default()).unwrap().1.objects, owners.all());
    }
}
