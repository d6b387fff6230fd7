//! Writer of the journal and the access log: records as lines, written by a separate thread, so that no request waits
//! for a disk.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use prometheus_client::metrics::counter::Counter;

use super::{
    rotating::{Lost, Rotating, Sink},
    stores::{Store, StoreWrites, Stores},
};

/// Most lines that wait to be written.
const QUEUE_LINES: usize = 8192;
/// Most bytes that wait to be written.
const QUEUE_BYTES: usize = 16 * 1024 * 1024;
/// Time for which the writer collects lines before it writes them. Producers need not wake it meanwhile, which costs
/// more than anything else about a line, and one disk write serves all.
const GATHER: Duration = Duration::from_millis(20);

/// Time between two attempts to write again after a failure, while no line comes.
const RETRY: Duration = Duration::from_secs(1);

/// Longest wait at shutdown for the last lines to reach a standard output that may have no reader.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A record that becomes a line.
pub trait Entry: Send + Sync {
    /// Appends it to `line`, without a line break. Called on the journal's thread.
    fn write(&self, line: &mut Vec<u8>) -> serde_json::Result<()>;

    /// Approximate size in memory, in bytes.
    fn weight(&self) -> usize;
}

/// Counters of a journal. [`Metrics::journal`](super::Metrics::journal) returns the exported ones.
#[derive(Clone, Debug, Default)]
pub struct JournalCounters {
    pub(super) dropped: Counter,
    pub(super) errors: Counter,
    pub(super) writes: StoreWrites,
}

impl JournalCounters {
    /// Counters of the journal that is `store`.
    pub(super) fn of(stores: &Stores, store: Store) -> Self {
        Self { writes: stores.of(store).clone(), ..Self::default() }
    }

    /// Lines that were not written.
    pub fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    /// Outcome of the writes.
    pub fn writes(&self) -> &StoreWrites {
        &self.writes
    }

    /// Failures to write or to rotate.
    pub fn errors(&self) -> u64 {
        self.errors.get()
    }
}

/// An open journal. Share it in an `Arc` and [`Journal::close`] it at the end. If it is dropped instead, its thread
/// still writes the queued lines, but nothing waits for that.
#[derive(Debug)]
pub struct Journal {
    queue: SyncSender<Message>,
    queued_bytes: Arc<AtomicUsize>,
    closed: AtomicBool,
    counters: JournalCounters,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// True if closing waits for all queued lines: a file accepts them, but standard output may have no reader.
    waits: bool,
}

enum Message {
    Line(Arc<dyn Entry>),
    Reopen,
    Close,
}

impl Journal {
    /// Opens the file at `path`, readable by its owner only, and starts the writer. At `max_size` bytes the file is
    /// rotated to `path.1`, and so on up to `path.{keep}`. Fails if the file cannot be opened. Later failures are
    /// counted in `counters` and logged once, until writing works again.
    pub fn open(path: &Path, max_size: u64, keep: u32, counters: JournalCounters) -> io::Result<Self> {
        let file = Rotating::open(path.to_owned(), max_size, keep)?;
        Self::begin("journal", Sink::File(file), counters)
    }

    /// Opens an access log: in the file at `path`, or on standard output.
    pub fn access(path: Option<&Path>, max_size: u64, keep: u32, counters: JournalCounters) -> io::Result<Self> {
        let sink = match path {
            Some(path) => Sink::File(Rotating::open(path.to_owned(), max_size, keep)?),
            None => Sink::stdout(),
        };
        Self::begin("access log", sink, counters)
    }

    fn begin(name: &'static str, file: Sink, counters: JournalCounters) -> io::Result<Self> {
        let waits = matches!(file, Sink::File(_));
        let (queue, lines) = sync_channel(QUEUE_LINES);
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        let writer = Writer {
            name,
            file,
            line: Vec::new(),
            queued_bytes: Arc::clone(&queued_bytes),
            counters: counters.clone(),
        };
        counters.writes.wrote();
        let writer = thread::Builder::new().name(name.into()).spawn(move || writer.run(&lines))?;
        let (closed, writer) = (AtomicBool::new(false), Mutex::new(Some(writer)));
        Ok(Self { queue, queued_bytes, closed, counters, writer, waits })
    }

    /// Queues `entry`. Never blocks: with a full queue the entry is dropped and counted.
    pub fn write(&self, entry: Arc<dyn Entry>) {
        let weight = entry.weight();
        let fits = self.queued_bytes.fetch_add(weight, Ordering::Relaxed) + weight <= QUEUE_BYTES;
        let open = !self.closed.load(Ordering::Relaxed);
        if !(fits && open && self.queue.try_send(Message::Line(entry)).is_ok()) {
            self.queued_bytes.fetch_sub(weight, Ordering::Relaxed);
            self.counters.dropped.inc();
        }
    }

    /// Opens the file again by its name, for programs that rotate it. A full queue leaves that to the next write.
    pub fn reopen(&self) {
        let _ = self.queue.try_send(Message::Reopen);
    }

    /// Current counters.
    pub fn counters(&self) -> &JournalCounters {
        &self.counters
    }

    /// Writes the queued lines and stops. Blocks until that is done, so call it where blocking is allowed. Later
    /// records are dropped and counted.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        let writer = self.writer.lock().take();
        let Some(writer) = writer else { return };
        if self.waits {
            // Both fail only if the writer has already ended.
            let _ = self.queue.send(Message::Close);
            let _ = writer.join();
            return;
        }
        let until = Instant::now() + LAST_WORDS;
        let mut sent = false;
        while Instant::now() < until && !writer.is_finished() {
            sent = sent || self.queue.try_send(Message::Close).is_ok();
            thread::sleep(GATHER);
        }
    }
}

/// Writer thread's end of the queue.
struct Writer {
    name: &'static str,
    file: Sink,
    line: Vec<u8>,
    queued_bytes: Arc<AtomicUsize>,
    counters: JournalCounters,
}

impl Writer {
    fn run(mut self, queue: &Receiver<Message>) {
        loop {
            // While writing fails, it is tried again without a line.
            let wait = if self.counters.writes.failure().is_some() { RETRY } else { Duration::MAX };
            let message = match queue.recv_timeout(wait) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => {
                    self.retry();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut closing = self.take(message);
            if !closing {
                thread::sleep(GATHER);
            }
            // All queued lines are written together; then the file is up to date for its readers.
            while let Ok(message) = queue.try_recv() {
                closing |= self.take(message);
            }
            let flushed = self.file.flush();
            self.report(flushed);
            if closing {
                return;
            }
        }
    }

    /// Takes a message from the queue. Returns true if it was the last one.
    fn take(&mut self, message: Message) -> bool {
        let entry = match message {
            Message::Line(entry) => entry,
            Message::Close => return true,
            Message::Reopen => {
                let reopened = self.file.reopen();
                self.report(reopened);
                return false;
            }
        };
        self.queued_bytes.fetch_sub(entry.weight(), Ordering::Relaxed);
        self.line.clear();
        if entry.write(&mut self.line).is_err() {
            self.counters.errors.inc();
            self.counters.dropped.inc();
            return false;
        }
        self.line.push(b'\n');
        let pushed = self.file.push(&self.line);
        self.report(pushed);
        false
    }

    /// Tries to write although no line waits.
    fn retry(&mut self) {
        match self.file.probe() {
            Ok(()) => self.works(),
            Err(error) => {
                self.counters.writes.failed(&error);
            }
        }
    }

    fn works(&self) {
        if self.counters.writes.wrote() {
            tracing::info!("{}: writing works again", self.name);
        }
    }

    /// Counts a failure. Logs only the first of consecutive failures, and their end.
    fn report(&mut self, written: Result<u64, Lost>) {
        match written {
            Ok(lines) if lines > 0 => self.works(),
            Ok(_) => {}
            Err(Lost { lines, error }) => {
                self.counters.errors.inc();
                self.counters.dropped.inc_by(lines);
                if self.counters.writes.failed(&error) {
                    tracing::error!(%error, "{}: writing failed, lines are dropped until it works again", self.name);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    impl Entry for serde_json::Value {
        fn write(&self, line: &mut Vec<u8>) -> serde_json::Result<()> {
            serde_json::to_writer(line, self)
        }

        fn weight(&self) -> usize {
            self.as_str().map_or(100, str::len)
        }
    }

    fn entry(text: &str) -> Arc<dyn Entry> {
        Arc::new(serde_json::json!(text))
    }

    fn open(path: &Path, max_size: u64) -> Journal {
        Journal::open(path, max_size, 1, JournalCounters::default()).unwrap()
    }

    #[test]
    fn written_lines_are_in_the_file_after_closing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let journal = open(&path, 1 << 20);
        let lines = |from: u32| (from..from + 1000).map(|n| serde_json::json!({ "n": n })).collect::<Vec<_>>();
        std::thread::scope(|scope| {
            for from in [0, 1000] {
                let journal = &journal;
                scope.spawn(move || lines(from).into_iter().for_each(|line| journal.write(Arc::new(line))));
            }
        });
        journal.close();
        let text = fs::read_to_string(&path).unwrap();
        let mut seen: Vec<u64> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["n"].as_u64().unwrap())
            .collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..2000).collect::<Vec<_>>());
        assert_eq!((journal.counters().dropped(), journal.counters().errors()), (0, 0));
    }

    #[test]
    fn lines_beyond_the_queue_are_dropped_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let journal = open(&dir.path().join("journal.jsonl"), 1 << 20);
        journal.write(entry(&"x".repeat(QUEUE_BYTES + 1)));
        assert_eq!(journal.counters().dropped(), 1);
        journal.write(entry("fits"));
        journal.close();
        journal.write(entry("too late"));
        journal.close();
        assert_eq!((journal.counters().dropped(), journal.counters().errors()), (2, 0));
        assert_eq!(journal.queued_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn failures_are_counted_and_never_reach_the_caller() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        fs::create_dir(&home).unwrap();
        let journal = open(&home.join("journal.jsonl"), 1);
        fs::remove_dir_all(&home).unwrap();
        for _ in 0..3 {
            journal.write(entry("lost"));
        }
        journal.close();
        assert_eq!((journal.counters().dropped(), journal.counters().errors()), (3, 2));
        assert!(journal.counters().writes.failure().is_some());
        assert!(Journal::open(&home.join("journal.jsonl"), 1, 1, JournalCounters::default()).is_err());
    }
}
