//! Writer thread, which alone accesses the file: reads it once, then executes the queue's commands.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::SyncSender,
    },
};

use super::{
    folder::Folder,
    frame::{Act, FRAME, Frame, HEAD, Head},
    limits::{Limits, SWEEP},
    live::Live,
    log_file::LogFile,
    queue::{Command, Queue},
    record::{Key, Record},
};

/// Bytes of records that are returned or copied at once, so that new commands do not wait long.
const PIECE: u64 = 256 * 1024;
/// Bytes collected before they are written.
const GATHERED: usize = 256 * 1024;
/// Least garbage that is worth a compaction.
const LITTLE: u64 = 64 * 1024;

/// Counters of a log, for metrics.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) records: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) damaged: AtomicU64,
    pub(super) doubtful: AtomicU64,
    pub(super) evicted: AtomicU64,
    pub(super) compactions: AtomicU64,
    pub(super) failed: AtomicBool,
}

/// State of the thread.
pub(super) struct Writer {
    pub(super) folder: Folder,
    pub(super) head: Head,
    pub(super) limits: Limits,
    pub(super) queue: Arc<Queue>,
    pub(super) counts: Arc<Counts>,
    pub(super) clock: fn() -> u64,
}

/// A copy of the live records that will replace the log. Until then it receives all commands too.
struct Compaction {
    next: LogFile,
    keys: VecDeque<Key>,
    /// Length of the log when the compaction started: later frames are in the copy already.
    began: u64,
}

struct State {
    log: LogFile,
    /// Keys present when the log was opened that have not been returned yet.
    recovered: VecDeque<Key>,
    compaction: Option<Compaction>,
    swept: u64,
}

/// Closes the queue when the thread ends for any reason.
struct Ends(Arc<Queue>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Writer {
    /// Runs until the queue is closed and empty.
    pub(super) fn run(mut self, log: File) {
        let _ends = Ends(self.queue.clone());
        if let Err(problem) = self.work(log) {
            // Deletions can no longer be recorded. Without its file the cache starts cold; with it, it could return
            // deleted records.
            self.counts.failed.store(true, Relaxed);
            self.folder.discard_next();
            let log = self.folder.log();
            tracing::warn!(
                log = %log.display(), error = %problem,
                "cache log: writing failed, the log is deleted and answers are not persisted until writing works again: check the disk's space and health"
            );
            if let Err(error) = self.folder.delete() {
                tracing::error!(
                    log = %log.display(), %error,
                    "cache log: the log could not be deleted: delete it before the restart, it may hold answers that were purged"
                );
            }
        }
    }

    fn live(&self) -> Live {
        Live::new(self.limits.bytes, u64::try_from(self.limits.age.as_millis()).unwrap_or(u64::MAX))
    }

    fn work(&mut self, log: File) -> io::Result<()> {
        let (mut log, damaged) = LogFile::read(log, &self.head, self.live())?;
        self.counts.damaged.store(damaged, Relaxed);
        let now = (self.clock)();
        log.live.expire(now);
        let recovered = log.live.keys();
        let mut state = State { log, recovered, compaction: None, swept: now };
        self.publish(&state);
        loop {
            let commands = self.queue.take(state.compaction.is_none());
            let Some(commands) = commands else { break };
            for order in commands {
                self.execute(&mut state, order)?;
            }
            state.write()?;
            let now = (self.clock)();
            if now.saturating_sub(state.swept) >= SWEEP.as_millis() as u64 {
                state.log.live.expire(now);
                state.swept = now;
            }
            self.compact(&mut state)?;
            self.publish(&state);
        }
        state.log.sync()
    }

    fn publish(&self, state: &State) {
        let live = &state.log.live;
        self.counts.records.store(live.len() as u64, Relaxed);
        self.counts.bytes.store(state.log.length(), Relaxed);
        self.counts.doubtful.store(live.doubtful, Relaxed);
        self.counts.evicted.store(live.evicted, Relaxed);
    }

    fn execute(&self, state: &mut State, command: Command) -> io::Result<()> {
        match command {
            // It would evict all others, and then itself.
            Command::Put(record) if (FRAME + record.payload.len()) as u64 > self.limits.bytes => {
                self.counts.dropped.fetch_add(1, Relaxed);
            }
            Command::Put(record) => {
                state.files().for_each(|log| log.put(&record));
                if state.log.waiting() >= GATHERED {
                    state.write()?;
                }
            }
            Command::Remove(key) => state.delete(&Frame::bare(Act::Remove, key)),
            Command::RemoveScope(scope) => state.delete(&Frame::scope(scope)),
            Command::Clear => state.delete(&Frame::bare(Act::Clear, Key { kind: 0, key: [0; 32] })),
            Command::More(answer) => {
                state.write()?;
                hand_out(state, &answer, (self.clock)())?;
            }
            Command::Flush(answer) => {
                state.log.sync()?;
                self.publish(state);
                // The caller may have stopped waiting.
                let _ = answer.send(());
            }
        }
        Ok(())
    }

    /// Starts a compaction if one is due, or continues it.
    fn compact(&self, state: &mut State) -> io::Result<()> {
        let Some(compaction) = &mut state.compaction else {
            let garbage = state.log.length() - HEAD as u64 - state.log.live.bytes();
            if state.log.live.wiped || garbage > LITTLE.max(state.log.length() / 2) {
                let mut file = [0; 16];
                getrandom::fill(&mut file).map_err(|problem| io::Error::other(problem.to_string()))?;
                let head = Head { secret: self.head.secret, file };
                let next = LogFile::create(self.folder.create_next()?, &head, self.live())?;
                let (keys, began) = (state.log.live.keys(), state.log.length());
                state.compaction = Some(Compaction { next, keys, began });
            }
            return Ok(());
        };
        let mut copied = 0;
        while copied < PIECE {
            let Some(key) = compaction.keys.pop_front() else {
                return self.finish(state);
            };
            let Some(place) = state.log.live.place(&key).filter(|place| place.at < compaction.began).copied() else {
                continue;
            };
            copied += place.total;
            if let Some(record) = state.log.record(&key)? {
                compaction.next.put(&record);
                if let Some(copy) = compaction.next.live.place(&key) {
                    copy.recovered = place.recovered;
                }
            }
        }
        compaction.next.write()
    }

    fn finish(&self, state: &mut State) -> io::Result<()> {
        if let Some(Compaction { mut next, .. }) = state.compaction.take() {
            next.sync()?;
            self.folder.replace()?;
            next.live.evicted += state.log.live.evicted;
            next.live.doubtful += state.log.live.doubtful;
            state.log = next;
            self.counts.compactions.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}

impl State {
    fn files(&mut self) -> impl Iterator<Item = &mut LogFile> {
        std::iter::once(&mut self.log).chain(self.compaction.as_mut().map(|compaction| &mut compaction.next))
    }

    fn delete(&mut self, frame: &Frame) {
        self.files().for_each(|log| log.delete(frame));
    }

    fn write(&mut self) -> io::Result<()> {
        self.files().try_for_each(LogFile::write)
    }
}

/// Returns the next recovered records that are live; an empty piece at the end.
fn hand_out(state: &mut State, answer: &SyncSender<Vec<Record>>, now: u64) -> io::Result<()> {
    let (mut piece, mut bytes) = (Vec::new(), 0);
    while bytes < PIECE {
        let Some(key) = state.recovered.pop_front() else { break };
        let counts = |log: &mut LogFile| {
            let place = log.live.place(&key).filter(|place| place.recovered && place.expires > now)?;
            place.recovered = false;
            Some(())
        };
        let mut found = false;
        state.files().for_each(|log| found |= counts(log).is_some());
        if let Some(record) = found.then(|| state.log.record(&key)).transpose()?.flatten() {
            bytes += FRAME as u64 + record.payload.len() as u64;
            piece.push(record);
        }
    }
    let _ = answer.send(piece);
    Ok(())
}
