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
    book::Book,
    folder::Folder,
    frame::{Act, FRAME, Frame, HEAD, Head},
    limits::{Limits, SWEEP},
    live::Live,
    queue::{Order, Queue},
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
    next: Book,
    keys: VecDeque<Key>,
    /// Length of the log when the compaction started: later frames are in the copy already.
    began: u64,
}

struct State {
    book: Book,
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
            let deleted = self.folder.delete();
            tracing::warn!(folder = %self.folder.log().display(), %problem, ?deleted, "cache records are not kept any more");
        }
    }

    fn live(&self) -> Live {
        Live::new(self.limits.bytes, u64::try_from(self.limits.age.as_millis()).unwrap_or(u64::MAX))
    }

    fn work(&mut self, log: File) -> io::Result<()> {
        let (mut book, damaged) = Book::read(log, &self.head, self.live())?;
        self.counts.damaged.store(damaged, Relaxed);
        let now = (self.clock)();
        book.live.expire(now);
        let recovered = book.live.keys();
        let mut state = State { book, recovered, compaction: None, swept: now };
        self.tell(&state);
        loop {
            let orders = self.queue.take(state.compaction.is_none());
            let Some(orders) = orders else { break };
            for order in orders {
                self.order(&mut state, order)?;
            }
            state.write()?;
            let now = (self.clock)();
            if now.saturating_sub(state.swept) >= SWEEP.as_millis() as u64 {
                state.book.live.expire(now);
                state.swept = now;
            }
            self.compact(&mut state)?;
            self.tell(&state);
        }
        state.book.sync()
    }

    fn tell(&self, state: &State) {
        let live = &state.book.live;
        self.counts.records.store(live.len() as u64, Relaxed);
        self.counts.bytes.store(state.book.length(), Relaxed);
        self.counts.doubtful.store(live.doubtful, Relaxed);
        self.counts.evicted.store(live.evicted, Relaxed);
    }

    fn order(&self, state: &mut State, order: Order) -> io::Result<()> {
        match order {
            // It would evict all others, and then itself.
            Order::Put(record) if (FRAME + record.payload.len()) as u64 > self.limits.bytes => {
                self.counts.dropped.fetch_add(1, Relaxed);
            }
            Order::Put(record) => {
                state.books().for_each(|book| book.put(&record));
                if state.book.waiting() >= GATHERED {
                    state.write()?;
                }
            }
            Order::Remove(key) => state.delete(&Frame::bare(Act::Remove, key)),
            Order::RemoveScope(scope) => state.delete(&Frame::scope(scope)),
            Order::Clear => state.delete(&Frame::bare(Act::Clear, Key { kind: 0, key: [0; 32] })),
            Order::More(answer) => {
                state.write()?;
                hand_out(state, &answer, (self.clock)())?;
            }
            Order::Flush(answer) => {
                state.book.sync()?;
                self.tell(state);
                // The caller may have stopped waiting.
                let _ = answer.send(());
            }
        }
        Ok(())
    }

    /// Starts a compaction if one is due, or continues it.
    fn compact(&self, state: &mut State) -> io::Result<()> {
        let Some(compaction) = &mut state.compaction else {
            let garbage = state.book.length() - HEAD as u64 - state.book.live.bytes();
            if state.book.live.wiped || garbage > LITTLE.max(state.book.length() / 2) {
                let mut file = [0; 16];
                getrandom::fill(&mut file).map_err(|problem| io::Error::other(problem.to_string()))?;
                let head = Head { secret: self.head.secret, file };
                let next = Book::create(self.folder.create_next()?, &head, self.live())?;
                let (keys, began) = (state.book.live.keys(), state.book.length());
                state.compaction = Some(Compaction { next, keys, began });
            }
            return Ok(());
        };
        let mut copied = 0;
        while copied < PIECE {
            let Some(key) = compaction.keys.pop_front() else {
                return self.finish(state);
            };
            let Some(place) = state.book.live.place(&key).filter(|place| place.at < compaction.began).copied() else {
                continue;
            };
            copied += place.total;
            if let Some(record) = state.book.record(&key)? {
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
            next.live.evicted += state.book.live.evicted;
            next.live.doubtful += state.book.live.doubtful;
            state.book = next;
            self.counts.compactions.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}

impl State {
    fn books(&mut self) -> impl Iterator<Item = &mut Book> {
        std::iter::once(&mut self.book).chain(self.compaction.as_mut().map(|compaction| &mut compaction.next))
    }

    fn delete(&mut self, frame: &Frame) {
        self.books().for_each(|book| book.delete(frame));
    }

    fn write(&mut self) -> io::Result<()> {
        self.books().try_for_each(Book::write)
    }
}

/// Returns the next recovered records that are live; an empty piece at the end.
fn hand_out(state: &mut State, answer: &SyncSender<Vec<Record>>, now: u64) -> io::Result<()> {
    let (mut piece, mut bytes) = (Vec::new(), 0);
    while bytes < PIECE {
        let Some(key) = state.recovered.pop_front() else { break };
        let counts = |book: &mut Book| {
            let place = book.live.place(&key).filter(|place| place.recovered && place.expires > now)?;
            place.recovered = false;
            Some(())
        };
        let mut found = false;
        state.books().for_each(|book| found |= counts(book).is_some());
        if let Some(record) = found.then(|| state.book.record(&key)).transpose()?.flatten() {
            bytes += FRAME as u64 + record.payload.len() as u64;
            piece.push(record);
        }
    }
    let _ = answer.send(piece);
    Ok(())
}
