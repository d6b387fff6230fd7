//! The log as its owner sees it: orders that wait for nothing, and what was there before.

use std::{
    io::{self, Read},
    path::Path,
    sync::{Arc, Mutex, atomic::Ordering::Relaxed, mpsc::sync_channel},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use super::{
    book::Book,
    error::StoreError,
    folder::Folder,
    frame::{HEAD, Head, HeadRead},
    limits::{Figures, Limits},
    live::Live,
    queue::{Order, Queue},
    record::{Key, Record},
    writer::{Counts, Writer},
};
use crate::measure::lock;

/// Records on disk. Nothing here waits for the disk but [`flush`](Self::flush) and [`close`](Self::close).
#[derive(Debug)]
pub struct Log {
    secret: [u8; 32],
    queue: Arc<Queue>,
    counts: Arc<Counts>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Log {
    /// Takes hold of a folder, makes it where there is none, and begins to read what is there on a thread of its own.
    ///
    /// Until that is done orders wait in the queue.
    ///
    /// # Errors
    /// [`StoreError`]; a file whose head is damaged is none, it is begun anew.
    pub fn open(folder: &Path, limits: Limits) -> Result<(Self, Recovery), StoreError> {
        Self::open_at(folder, limits, now)
    }

    /// The same by another clock.
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
                    tracing::warn!(file = %path.display(), "the head of the cache's log is damaged: it is begun anew");
                }
                let mut random = [0; 48];
                getrandom::fill(&mut random).map_err(|problem| failed(io::Error::other(problem.to_string())))?;
                let (mut secret, mut name) = ([0; 32], [0; 16]);
                secret.copy_from_slice(&random[..32]);
                name.copy_from_slice(&random[32..]);
                let head = Head { secret, file: name };
                let again = file.try_clone().map_err(failed)?;
                Book::create(again, &head, Live::new(0, 0)).and_then(|mut book| book.sync()).map_err(failed)?;
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

    /// A random key that was made with the log and lives as long: for hashes that are kept in it, and that nobody outside can work out.
    pub fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// Keeps a record, in place of an earlier one of its kind and key; whether there was room for it in the queue.
    pub fn put(&self, record: Record) -> bool {
        let taken = self.queue.push(Order::Put(record));
        if !taken {
            self.counts.dropped.fetch_add(1, Relaxed);
        }
        taken
    }

    /// Deletes a record. Whether there is a writer to do it; where there is none the file is gone too, or could not be read.
    pub fn remove(&self, kind: u8, key: [u8; 32]) -> bool {
        self.queue.push(Order::Remove(Key { kind, key }))
    }

    /// Deletes all records whose tags are these, where a tag of zeros stands for any; answers like [`remove`](Self::remove).
    pub fn remove_scope(&self, scope: [u8; 32]) -> bool {
        self.queue.push(Order::RemoveScope(scope))
    }

    /// Deletes all records; answers like [`remove`](Self::remove).
    pub fn clear(&self) -> bool {
        self.queue.push(Order::Clear)
    }

    /// Waits until all that was asked for before is on the disk; whether it is. Not for a worker.
    pub fn flush(&self) -> bool {
        let (answer, answered) = sync_channel(1);
        self.queue.push(Order::Flush(answer)) && answered.recv().is_ok()
    }

    /// Writes what waits, and lets the folder go; takes no more from then on. Not for a worker. (A log that is dropped does the same in the
    /// background.)
    pub fn close(&self) {
        self.queue.close();
        if let Some(thread) = lock(&self.thread).take() {
            // A panic there has been told by its own message.
            let _ = thread.join();
        }
    }

    /// What it holds, a moment ago.
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

/// What was there when the log was opened, the oldest first, in pieces of about 256 KB. Each step waits for the disk: not for a worker.
///
/// A record that is deleted, replaced or out of date by the time its piece is made is not in it. A deletion that is asked for later is the
/// caller's to apply to a piece that it holds already. Pieces end early where the log ends.
#[derive(Debug)]
pub struct Recovery {
    queue: Arc<Queue>,
}

impl Iterator for Recovery {
    type Item = Vec<Record>;

    fn next(&mut self) -> Option<Vec<Record>> {
        let (answer, answered) = sync_channel(1);
        if !self.queue.push(Order::More(answer)) {
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
