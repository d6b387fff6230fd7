//! Usage, budgets, revocations and owners of objects on disk: a file of rows for each day, one for objects, and one for the rest. Each is written
//! whole and put in place in one step, so that the end of the process costs the seconds since the last time at most, and never a file; only owners
//! are added at the end of theirs.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    quota::{
        Amount, Budget, BudgetAccount, MOST_OBJECTS, Owned, Owners, Period, Row, Tally, UsageLedger, Used, calendar,
    },
    types::Name,
};

/// What is neither of a day nor of the present: budgets and revocations.
const STANDING: &str = "standing.json";
/// Which key each object at a provider belongs to.
const OBJECTS: &str = "objects.jsonl";

/// Usage cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The system says no.
    #[error("'{path}': {error}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Two would overwrite each other's.
    #[error("'{0}' is in use by another gateway: each needs a folder of its own")]
    InUse(PathBuf),
    /// It is not what was written.
    #[error("'{path}' cannot be read ({error}): mend it, or move it away")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: serde_json::Error,
    },
}

/// What was there.
#[derive(Default)]
pub(super) struct Found {
    pub(super) rows: Vec<Row>,
    pub(super) standing: Standing,
    pub(super) objects: Vec<Owned>,
}

/// What is neither of a day nor of the present.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Standing {
    /// What gateways that count together call the account of what teams have spent here.
    #[serde(default)]
    pub(super) ledger: Option<Name>,
    /// What teams have spent.
    pub(super) teams: BTreeMap<Name, Tally>,
    /// Ids of keys by their hashes.
    #[serde(with = "hashes")]
    pub(super) revoked: BTreeMap<[u8; 32], Name>,
}

/// Hashes as text.
mod hashes {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    use crate::types::Name;

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

/// The folder.
pub(super) struct UsageStore {
    folder: PathBuf,
    /// What its file for budgets and revocations says.
    standing: Vec<u8>,
    /// Lines in its file of objects; `None` where that is to be written anew.
    objects: Option<usize>,
    /// Whether the last writing failed: it is told once.
    failed: bool,
    /// Held until it is closed, which the end of the process does too.
    _lock: File,
}

impl UsageStore {
    /// Makes it where there is none, takes hold of it, and reads what is there from the day of `first` on.
    pub(super) fn open(folder: &Path, first: i64) -> Result<(Self, Found), KeepError> {
        let failed = |error| KeepError::Io { path: folder.into(), error };
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(folder).map_err(failed)?;
        let lock = options().create(true).open(folder.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(KeepError::InUse(folder.into())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut found = Found::default();
        let first = calendar::date(first).to_string();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if day(&path).is_some_and(|day| *day >= *first) {
                read_rows(&path, &mut found.rows)?;
            }
        }
        let path = folder.join(STANDING);
        let standing = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(KeepError::Io { path, error }),
        };
        found.standing = read_standing(&standing).map_err(|error| KeepError::Unreadable { path, error })?;
        let objects = read_objects(&folder.join(OBJECTS), &mut found.objects).map_err(failed)?;
        Ok((Self { folder: folder.into(), standing, objects, failed: false, _lock: lock }, found))
    }

    /// Writes what has changed.
    pub(super) fn write(&mut self, book: &UsageLedger, standing: &Standing, owners: &Owners) {
        let changed = book.take_changed();
        let result = changed.iter().try_for_each(|day| self.write_day(book, day)).and_then(|()| {
            let standing = serde_json::to_vec_pretty(standing)?;
            if standing != self.standing {
                self.put(STANDING, &standing)?;
                self.standing = standing;
            }
            self.write_objects(owners)
        });
        match result {
            Ok(()) => self.failed = false,
            Err(error) => {
                book.put_back(changed);
                if !std::mem::replace(&mut self.failed, true) {
                    tracing::error!(%error, folder = %self.folder.display(), "usage cannot be written (usage.path); it is tried again");
                }
            }
        }
    }

    fn write_day(&self, book: &UsageLedger, day: &Name) -> io::Result<()> {
        let mut text = Vec::new();
        for row in book.day(day) {
            serde_json::to_writer(&mut text, &row)?;
            text.push(b'\n');
        }
        self.put(&format!("usage-{day}.jsonl"), &text)
    }

    /// Adds the objects that are new; writes all anew where the file has grown long, or that failed before.
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
            let mut file = options().create(true).append(true).open(self.folder.join(OBJECTS))?;
            file.write_all(&text)?;
            file.sync_all()?;
        }
        self.objects = Some(lines.unwrap_or(0) + new.len());
        Ok(())
    }

    fn put(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let draft = self.folder.join("draft");
        let mut file = options().create(true).truncate(true).open(&draft)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(draft, self.folder.join(name))
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// The day that a file is about.
fn day(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_prefix("usage-")?.strip_suffix(".jsonl")
}

fn read_rows(path: &Path, rows: &mut Vec<Row>) -> Result<(), KeepError> {
    let text = fs::read_to_string(path).map_err(|error| KeepError::Io { path: path.into(), error })?;
    rows_of(&text, rows).map_err(|error| KeepError::Unreadable { path: path.into(), error })
}

fn rows_of(text: &str, rows: &mut Vec<Row>) -> serde_json::Result<()> {
    for line in text.lines().filter(|line| !line.is_empty()) {
        rows.push(serde_json::from_str(line)?);
    }
    Ok(())
}

/// How many lines there are; `None` where the end of the process has cut one short.
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

fn read_standing(bytes: &[u8]) -> serde_json::Result<Standing> {
    if bytes.is_empty() { Ok(Standing::default()) } else { serde_json::from_slice(bytes) }
}

/// Reads any bytes as files of usage: as rows of a day, and as budgets and revocations. An entry for fuzzers, which must never panic.
///
/// # Panics
/// Where what was read and added up could not be read again.
pub fn fuzz_usage(bytes: &[u8]) {
    if let Ok(standing) = read_standing(bytes) {
        let written = serde_json::to_vec_pretty(&standing).unwrap_or_default();
        assert!(read_standing(&written).is_ok_and(|again| again == standing), "budgets and revocations change on disk");
        let budget = Budget { amount: Amount::Tokens(u64::MAX), per: Period::Month };
        for tally in standing.teams.values() {
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
    use crate::{quota::Entry, types::object::ObjectKind};

    fn add(book: &UsageLedger, day: &str) {
        let entry = Entry { day: day.into(), key: "web".into(), ..Entry::default() };
        book.add(entry, &Used { requests: 1, ..Used::default() });
    }

    #[test]
    fn what_was_written_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("usage");
        let (mut shelf, found) = UsageStore::open(&folder, 0).unwrap();
        assert!(found.rows.is_empty());
        assert!(matches!(UsageStore::open(&folder, 0), Err(KeepError::InUse(_))));
        let book = UsageLedger::default();
        add(&book, "2026-11-20");
        add(&book, "2026-11-21");
        let tally = Tally { since: 7, tokens: 8, picodollars: 9 };
        let standing = Standing {
            ledger: Some("one".into()),
            teams: BTreeMap::from([("search".into(), tally)]),
            revoked: BTreeMap::from([([3; 32], "old".into())]),
        };
        let owners = Owners::default();
        owners.note("file-1", ObjectKind::File, &"web".into());
        shelf.write(&book, &standing, &owners);
        owners.note("file-2", ObjectKind::File, &"web".into());
        shelf.write(&book, &standing, &owners);
        drop(shelf);
        let (_, found) = UsageStore::open(&folder, 1_795_219_200).unwrap();
        assert_eq!((found.rows.len(), &found.standing), (1, &standing), "the day before is over");
        assert_eq!(found.objects, owners.all());
        fs::write(folder.join("usage-2026-11-21.jsonl"), "{\"day\":").unwrap();
        assert!(matches!(UsageStore::open(&folder, 0), Err(KeepError::Unreadable { .. })));
    }

    #[test]
    fn what_could_not_be_written_is_written_later() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("usage");
        let (mut shelf, _) = UsageStore::open(&folder, 0).unwrap();
        let book = UsageLedger::default();
        add(&book, "2026-11-21");
        fs::create_dir(folder.join("draft")).unwrap();
        let owners = Owners::default();
        owners.note("file-1", ObjectKind::File, &"web".into());
        shelf.write(&book, &Standing::default(), &owners);
        fs::remove_dir(folder.join("draft")).unwrap();
        shelf.write(&book, &Standing::default(), &owners);
        drop(shelf);
        let (_, found) = UsageStore::open(&folder, 0).unwrap();
        assert_eq!((found.rows.len(), found.objects), (1, owners.all()));
    }

    #[test]
    fn a_line_that_was_cut_short_costs_only_itself() {
        let dir = tempfile::tempdir().unwrap();
        let (mut shelf, _) = UsageStore::open(dir.path(), 0).unwrap();
        let owners = Owners::default();
        owners.note("file-1", ObjectKind::File, &"web".into());
        shelf.write(&UsageLedger::default(), &Standing::default(), &owners);
        let path = dir.path().join(OBJECTS);
        let mut text = fs::read(&path).unwrap();
        text.extend_from_slice(b"{\"id\":\"0");
        fs::write(&path, text).unwrap();
        drop(shelf);
        let (mut shelf, found) = UsageStore::open(dir.path(), 0).unwrap();
        assert_eq!(found.objects, owners.all());
        owners.note("file-2", ObjectKind::File, &"web".into());
        shelf.write(&UsageLedger::default(), &Standing::default(), &owners);
        drop(shelf);
        assert_eq!(UsageStore::open(dir.path(), 0).unwrap().1.objects, owners.all());
    }
}
