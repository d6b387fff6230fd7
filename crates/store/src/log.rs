//! Interface of the log: non-blocking commands, and recovery of stored records.

use std::{
    io::{self, Read},
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed, mpsc::sync_channel},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;

use super::{
    error::StoreError,
    folder::Folder,
    frame::{HEAD, Head, HeadRead},
    limits::{Figures, Limits},
    live::Live,
    log_file::LogFile,
    queue::{Command, Queue},
    record::{Key, Record},
    writer::{Counts, Writer},
};

/// Records on disk. Only [`flush`](Self::flush) and [`close`](Self::close) wait for the disk.
#[derive(Debug)]
pub struct Log {
    secret: [u8; 32],
    queue: Arc<Queue>,
    counts: Arc<Counts>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Log {
    /// Locks a folder, creates it if it is missing, and starts reading its contents on a separate thread. Until that is
    /// done, commands wait in the queue.
    ///
    /// # Errors
    ///
    /// [`StoreError`]. A file with a damaged head counts as missing and is started anew.
    pub fn open(folder: &Path, limits: Limits) -> Result<(Self, Recovery), StoreError> {
        Self::open_at(folder, limits, now)
    }

    /// Like [`Log::open`], with another clock.
    pub(super) fn open_at(folder: &Path, limits: Limits, clock: fn() -> u64) -> Result<(Self, Recovery), StoreError> {
        let folder = Folder::open(folder)?;
        let path = folder.log();
        let failed = |problem: io::Error| StoreError::io(&path, &problem);
        let mut file = folder.open_log().map_err(failed)?;
        let mut bytes = [0; HEAD];
        let length = file.metadata().map_err(failed)?.len();
        let read = if length < HEAD as u64 { Ok(()) } else { file.read_exact(&mut bytes) };
        read.map_err(failed)?;
        let head = match Head::read(&bytes) {
            HeadRead::Ours(head) => head,
            HeadRead::Version(version) => return Err(StoreError::Version { file: path, version }),
            HeadRead::Damaged => {
                if length > 0 {
                    tracing::warn!(file = %path.display(), "cache log: damaged head, starting a new file");
                }
                let mut random = [0; 48];
                getrandom::fill(&mut random).map_err(|problem| failed(io::Error::other(problem.to_string())))?;
                let (mut secret, mut name) = ([0; 32], [0; 16]);
                secret.copy_from_slice(&random[..32]);
                name.copy_from_slice(&random[32..]);
                let head = Head { secret, file: name };
                let again = file.try_clone().map_err(failed)?;
                LogFile::create(again, &head, Live::new(0, 0)).and_then(|mut log| log.sync()).map_err(failed)?;
                head
            }
        };
        let queue = Arc::new(Queue::new(limits.queue));
        let counts = Arc::new(Counts::default());
        let writer = Writer { folder, head, limits, queue: queue.clone(), counts: counts.clone(), clock };
        let thread = thread::Builder::new().name("cache-log".into()).spawn(move || writer.run(file)).map_err(failed)?;
        let recovery = Recovery { queue: queue.clone() };
        Ok((Self { secret: head.secret, queue, counts, thread: Mutex::new(Some(thread)) }, recovery))
    }

    /// Deletes a log whose writer has failed, so that another can be opened in its folder.
    ///
    /// # Errors
    /// [`StoreError`] where another process uses the folder, or the file is there and cannot be deleted.
    pub fn discard(folder: &Path) -> Result<(), StoreError> {
        match Folder::open(folder)?.delete() {
            Err(problem) if problem.kind() != io::ErrorKind::NotFound => Err(StoreError::io(folder, &problem)),
            _ => Ok(()),
        }
    }

    /// A random key created with the log, with the same lifetime: for hashes stored in the log that nobody outside can
    /// compute.
    pub fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// Stores a record and replaces an earlier one of its kind and key. Returns false if the queue is full.
    pub fn put(&self, record: Record) -> bool {
        let taken = self.queue.push(Command::Put(record));
        if !taken {
            self.counts.dropped.fetch_add(1, Relaxed);
        }
        taken
    }

    /// Deletes a record. Returns false if the writer is gone; the file is then deleted or could not be read.
    pub fn remove(&self, kind: u8, key: [u8; 32]) -> bool {
        self.queue.push(Command::Remove(Key { kind, key }))
    }

    /// Deletes all records with these tags, where a zero tag matches any. Returns as [`remove`](Self::remove).
    pub fn remove_scope(&self, scope: [u8; 32]) -> bool {
        self.queue.push(Command::RemoveScope(scope))
    }

    /// Deletes all records. Returns as [`remove`](Self::remove).
    pub fn clear(&self) -> bool {
        self.queue.push(Command::Clear)
    }

    /// Waits until all earlier commands are on disk. Returns false if they are not. Must not run on a worker of the
    /// runtime.
    pub fn flush(&self) -> bool {
        let (answer, answered) = sync_channel(1);
        self.queue.push(Command::Flush(answer)) && answered.recv().is_ok()
    }

    /// Writes waiting commands and unlocks the folder; accepts none from then on. Must not run on a worker of the
    /// runtime. (Dropping a log does the same in the background.)
    pub fn close(&self) {
        self.queue.close();
        if let Some(thread) = self.thread.lock().take() {
            // A panic there was reported by its own message.
            let _ = thread.join();
        }
    }

    /// Current counters.
    pub fn figures(&self) -> Figures {
        let Counts { records, bytes, dropped, damaged, doubtful, evicted, compactions, failed } = &*self.counts;
        Figures {
            records: records.load(Relaxed),
            bytes: bytes.load(Relaxed),
            dropped: dropped.load(Relaxed),
            damaged: damaged.load(Relaxed),
            doubtful: doubtful.load(Relaxed),
            evicted: evicted.load(Relaxed),
            compactions: compactions.load(Relaxed),
            failed: failed.load(Relaxed),
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Records present when the log was opened, oldest first, in pieces of about 256 KB. Each step waits for the disk and
/// must not run on a worker of the runtime.
///
/// Excludes records that are deleted, replaced or expired by the time their piece is read. The caller must apply later
/// deletions to pieces it already holds. A piece is shorter at the end of the log.
#[derive(Debug)]
pub struct Recovery {
    queue: Arc<Queue>,
}

impl Iterator for Recovery {
    type Item = Vec<Record>;

    fn next(&mut self) -> Option<Vec<Record>> {
        let (answer, answered) = sync_channel(1);
        if !self.queue.push(Command::More(answer)) {
            return None;
        }
        answered.recv().ok().filter(|piece| !piece.is_empty())
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
