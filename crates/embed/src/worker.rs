//! Runs an embedder off the runtime: a few threads, a bounded queue, and a deadline for each text.
//!
//! The text with the earliest deadline comes first, so that lookups do not wait for background work. A text whose
//! caller has left is never started. A caller that finds the queue full, or whose deadline passes, continues without a
//! vector. So does, at once, a caller before whom so many texts wait that its deadline would pass.

use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use tokio::{sync::oneshot, time::Instant};

use signalbox_cache::{EmbedError, Embedder};

/// Creates the embedder. Called on the worker's first thread at the first text, so that nothing is loaded earlier.
type Make = dyn Fn() -> Result<Arc<dyn Embedder>, EmbedError> + Send + Sync;

/// Limits of a worker.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Threads, each with its own text or batch.
    pub threads: usize,
    /// Texts that may wait.
    pub queue: usize,
    /// Texts per call of the embedder. More than one pays only if the embedder processes them together, or is remote.
    pub batch: usize,
}

impl Limits {
    /// One thread per four processors, and a queue for a fraction of a second of work.
    pub fn for_processors(processors: usize) -> Self {
        let threads = (processors / 4).max(1);
        Self { threads, queue: 64 * threads, batch: 1 }
    }
}

/// Threads that embed. They start at the first text and end when the worker is dropped.
pub struct Worker {
    shared: Arc<Shared>,
    limits: Limits,
}

/// Reason why there is no vector.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WorkerError {
    /// The queue is full, or too long for the deadline.
    #[error("too many texts to embed wait already")]
    Full,
    /// The deadline passed.
    #[error("the text was not embedded in time")]
    Late,
    /// The embedder failed.
    #[error(transparent)]
    Failed(#[from] EmbedError),
}

/// Outcomes of texts so far.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Vectors in time.
    pub done: u64,
    /// Texts that found the queue full, or too long for their deadline.
    pub full: u64,
    /// Texts whose deadline passed.
    pub late: u64,
    /// Texts that the embedder failed on.
    pub failed: u64,
}

#[derive(Default)]
struct Tally {
    done: AtomicU64,
    full: AtomicU64,
    late: AtomicU64,
    failed: AtomicU64,
}

struct Job {
    text: Box<str>,
    deadline: Instant,
    reply: oneshot::Sender<Result<Vec<f32>, EmbedError>>,
}

struct Shared {
    make: Box<Make>,
    queue: Mutex<Queue>,
    more: Condvar,
    tally: Tally,
    /// Recent mean of a call of the embedder, in nanoseconds; 0 before the first.
    pace: AtomicU64,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    started: bool,
    closed: bool,
}

impl Worker {
    /// Creates a worker over the embedder of `make`. Starts and loads nothing yet.
    pub fn new(
        limits: Limits,
        make: impl Fn() -> Result<Arc<dyn Embedder>, EmbedError> + Send + Sync + 'static,
    ) -> Self {
        let shared = Shared {
            make: Box::new(make),
            queue: Mutex::default(),
            more: Condvar::new(),
            tally: Tally::default(),
            pace: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared), limits }
    }

    /// Embeds `text` before `deadline`.
    ///
    /// # Errors
    ///
    /// [`WorkerError`]: the queue is full, the deadline passed, or the embedder failed. A caller should treat all of
    /// them as a miss.
    pub async fn embed(&self, text: &str, deadline: Instant) -> Result<Vec<f32>, WorkerError> {
        let result = match self.enqueue(text, deadline) {
            None => Err(WorkerError::Full),
            Some(answer) => match tokio::time::timeout_at(deadline, answer).await {
                Err(_) => Err(WorkerError::Late),
                // It was evicted for a text with an earlier deadline, or no thread is running.
                Ok(Err(_)) => Err(WorkerError::Full),
                Ok(Ok(result)) => result.map_err(WorkerError::Failed),
            },
        };
        let tally = &self.shared.tally;
        let counter = match &result {
            Ok(_) => &tally.done,
            Err(WorkerError::Full) => &tally.full,
            Err(WorkerError::Late) => &tally.late,
            Err(WorkerError::Failed(_)) => &tally.failed,
        };
        counter.fetch_add(1, Relaxed);
        result
    }

    /// Outcomes of texts so far.
    pub fn counts(&self) -> Counts {
        let Tally { done, full, late, failed } = &self.shared.tally;
        Counts {
            done: done.load(Relaxed),
            full: full.load(Relaxed),
            late: late.load(Relaxed),
            failed: failed.load(Relaxed),
        }
    }

    fn enqueue(&self, text: &str, deadline: Instant) -> Option<oneshot::Receiver<Result<Vec<f32>, EmbedError>>> {
        let (reply, answer) = oneshot::channel();
        let job = Job { text: text.into(), deadline, reply };
        let start = {
            let mut queue = self.shared.queue.lock();
            if self.wait(&queue, deadline) > deadline.saturating_duration_since(Instant::now()) {
                return None;
            }
            if queue.jobs.len() >= self.limits.queue {
                // Abandoned texts take no room.
                queue.jobs.retain(|job| !job.reply.is_closed());
                if queue.jobs.len() >= self.limits.queue {
                    let last = (0..queue.jobs.len()).max_by_key(|at| queue.jobs[*at].deadline);
                    let last = last.filter(|at| queue.jobs[*at].deadline > deadline)?;
                    queue.jobs.remove(last);
                }
            }
            queue.jobs.push_back(job);
            !std::mem::replace(&mut queue.started, true)
        };
        if start {
            self.start();
        } else {
            self.shared.more.notify_one();
        }
        Some(answer)
    }

    /// Time until the texts that come before one with this deadline have been started. None of them, no time: so a slow
    /// embedder is still measured.
    fn wait(&self, queue: &Queue, deadline: Instant) -> Duration {
        let ahead = queue.jobs.iter().filter(|job| job.deadline <= deadline && !job.reply.is_closed()).count();
        let calls = ahead / (self.limits.threads.max(1) * self.limits.batch.max(1));
        Duration::from_nanos(self.shared.pace.load(Relaxed).saturating_mul(calls as u64))
    }

    fn start(&self) {
        let mut running = 0;
        for _ in 0..self.limits.threads.max(1) {
            let (shared, batch) = (self.shared.clone(), self.limits.batch.max(1));
            let started = thread::Builder::new().name("embed".to_owned()).spawn(move || shared.run(batch));
            match started {
                Ok(_) => running += 1,
                Err(error) => tracing::error!(%error, "embedder: worker thread failed to start"),
            }
        }
        if running == 0 {
            let mut queue = self.shared.queue.lock();
            queue.started = false;
            queue.jobs.clear();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let left = {
            let mut queue = self.shared.queue.lock();
            queue.closed = true;
            std::mem::take(&mut queue.jobs)
        };
        drop(left);
        self.shared.more.notify_all();
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("limits", &self.limits).field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl Shared {
    fn run(&self, most: usize) {
        let mut embedder = None;
        while let Some(batch) = self.next(most) {
            let embedder = embedder.get_or_insert_with(|| guarded("the embedder", || (self.make)()));
            match embedder {
                Ok(embedder) => {
                    let began = Instant::now();
                    answer(&**embedder, batch);
                    self.took(began.elapsed());
                }
                Err(error) => batch.into_iter().for_each(|job| drop(job.reply.send(Err(error.clone())))),
            }
        }
    }

    /// Adds a call to the mean, with the weight of an eighth. One of two concurrent ones may be lost.
    fn took(&self, time: Duration) {
        let (mean, new) = (self.pace.load(Relaxed), u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        self.pace.store(if mean == 0 { new } else { mean - mean / 8 + new / 8 }, Relaxed);
    }

    /// Waits for the next texts; `None` once the worker is dropped.
    fn next(&self, most: usize) -> Option<Vec<Job>> {
        let mut queue = self.queue.lock();
        loop {
            if queue.closed {
                return None;
            }
            let mut batch = Vec::new();
            while batch.len() < most
                && let Some(next) = (0..queue.jobs.len()).min_by_key(|at| queue.jobs[*at].deadline)
                && let Some(job) = queue.jobs.remove(next)
            {
                if !job.reply.is_closed() {
                    batch.push(job);
                }
            }
            if !batch.is_empty() {
                return Some(batch);
            }
            self.more.wait(&mut queue);
        }
    }
}

/// Embeds a batch. If that fails, embeds each text alone, so that one bad text fails no other.
fn answer(embedder: &dyn Embedder, batch: Vec<Job>) {
    let texts: Vec<&str> = batch.iter().map(|job| &*job.text).collect();
    match guarded(embedder.id(), || embedder.embed(&texts)) {
        Ok(vectors) if vectors.len() == batch.len() => {
            for (job, vector) in batch.into_iter().zip(vectors) {
                // The caller may have left meanwhile.
                drop(job.reply.send(Ok(vector)));
            }
        }
        Ok(_) => {
            let error = EmbedError {
                embedder: embedder.id().to_owned(),
                problem: "it returned another number of vectors than texts".into(),
            };
            for job in batch {
                drop(job.reply.send(Err(error.clone())));
            }
        }
        Err(_) if batch.len() > 1 => {
            // Each may take long, so texts whose callers have left are skipped.
            batch.into_iter().filter(|job| !job.reply.is_closed()).for_each(|job| answer(embedder, vec![job]));
        }
        Err(error) => batch.into_iter().for_each(|job| drop(job.reply.send(Err(error.clone())))),
    }
}

/// Turns a panic of the embedder into an error, so that the thread continues.
fn guarded<T>(name: &str, work: impl FnOnce() -> Result<T, EmbedError>) -> Result<T, EmbedError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(EmbedError { embedder: name.to_owned(), problem: "it panicked".into() }))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

    use super::*;

    /// Reports its input, waits for permission, fails on "bad" and panics on "worse".
    #[derive(Debug)]
    struct Scripted {
        inputs: SyncSender<Vec<String>>,
        gate: Mutex<Receiver<()>>,
    }

    impl Embedder for Scripted {
        fn id(&self) -> &'static str {
            "scripted"
        }

        fn dimensions(&self) -> usize {
            1
        }

        fn max_tokens(&self) -> usize {
            1
        }

        fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
            self.inputs.send(texts.iter().map(|&text| text.to_owned()).collect()).unwrap();
            self.gate.lock().recv().unwrap();
            assert!(!texts.contains(&"worse"), "worse");
            if texts.contains(&"bad") {
                return Err(EmbedError { embedder: "scripted".to_owned(), problem: "bad".into() });
            }
            Ok(texts.iter().map(|text| vec![text.len() as f32]).collect())
        }
    }

    fn scripted(queue: usize, batch: usize) -> (Arc<Worker>, Receiver<Vec<String>>, SyncSender<()>) {
        let (sender, inputs) = sync_channel(100);
        let (open, gate) = sync_channel(100);
        let embedder: Arc<dyn Embedder> = Arc::new(Scripted { inputs: sender, gate: Mutex::new(gate) });
        let worker = Worker::new(Limits { threads: 1, queue, batch }, move || Ok(embedder.clone()));
        (Arc::new(worker), inputs, open)
    }

    fn far() -> Instant {
        Instant::now() + Duration::from_mins(10)
    }

    fn spawn(worker: &Arc<Worker>, text: &'static str) -> tokio::task::JoinHandle<Result<Vec<f32>, WorkerError>> {
        let worker = worker.clone();
        tokio::spawn(async move { worker.embed(text, far()).await })
    }

    /// Next input of the embedder, without blocking the tasks of this test.
    async fn next_input(inputs: &Receiver<Vec<String>>) -> Vec<String> {
        loop {
            match inputs.try_recv() {
                Ok(texts) => return texts,
                Err(TryRecvError::Disconnected) => return Vec::new(),
                Err(TryRecvError::Empty) => tokio::task::yield_now().await,
            }
        }
    }

    async fn waiting(worker: &Worker, texts: usize) {
        while worker.shared.queue.lock().jobs.len() != texts {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn waiting_texts_are_batched_and_a_bad_text_fails_alone() {
        let (worker, inputs, open) = scripted(8, 8);
        let first = spawn(&worker, "a");
        assert_eq!(next_input(&inputs).await, ["a"]);
        let rest = ["bb", "bad", "worse"].map(|text| spawn(&worker, text));
        waiting(&worker, 3).await;
        for _ in 0..5 {
            open.send(()).unwrap();
        }
        assert_eq!(first.await.unwrap().unwrap(), [1.0]);
        let [good, bad, worse] = rest;
        assert_eq!(good.await.unwrap().unwrap(), [2.0]);
        assert!(bad.await.unwrap().unwrap_err().to_string().contains("bad"));
        assert!(worse.await.unwrap().unwrap_err().to_string().contains("panicked"));
        assert_eq!(
            inputs.try_iter().collect::<Vec<_>>(),
            [vec!["bb", "bad", "worse"], vec!["bb"], vec!["bad"], vec!["worse"]]
        );
        assert_eq!(worker.counts(), Counts { done: 2, failed: 2, ..Counts::default() });
    }

    #[tokio::test]
    async fn a_full_queue_and_a_passed_deadline_fail_at_once() {
        let (worker, inputs, open) = scripted(1, 1);
        let first = spawn(&worker, "a");
        assert_eq!(next_input(&inputs).await, ["a"]);
        assert!(matches!(worker.embed("late", Instant::now()).await, Err(WorkerError::Late)));
        // An abandoned text takes no room, and is never started.
        let second = spawn(&worker, "bb");
        while worker.shared.queue.lock().jobs.iter().all(|job| &*job.text != "bb") {
            tokio::task::yield_now().await;
        }
        assert!(matches!(worker.embed("c", far()).await, Err(WorkerError::Full)));
        open.send(()).unwrap();
        open.send(()).unwrap();
        assert_eq!((first.await.unwrap().unwrap(), second.await.unwrap().unwrap()), (vec![1.0], vec![2.0]));
        assert_eq!(inputs.try_iter().collect::<Vec<_>>(), [["bb"]]);
        assert_eq!(worker.counts(), Counts { done: 2, full: 1, late: 1, ..Counts::default() });
    }

    #[tokio::test]
    async fn a_text_that_would_be_late_behind_a_slow_embedder_is_refused_at_once() {
        let (worker, inputs, open) = scripted(64, 1);
        let first = spawn(&worker, "a");
        assert_eq!(next_input(&inputs).await, ["a"]);
        // Each call takes three minutes, and each text has ten.
        worker.shared.pace.store(180_000_000_000, Relaxed);
        let mut accepted = vec![first];
        for ahead in 1..=4 {
            accepted.push(spawn(&worker, "b"));
            waiting(&worker, ahead).await;
        }
        for _ in 0..100 {
            assert!(matches!(worker.embed("c", far()).await, Err(WorkerError::Full)));
        }
        // Background work with a later deadline is not in the way of lookups, and still has time.
        let day = Instant::now() + Duration::from_hours(24);
        let background = tokio::spawn({
            let worker = worker.clone();
            async move { worker.embed("later", day).await }
        });
        waiting(&worker, 5).await;
        (0..6).for_each(|_| open.send(()).unwrap());
        for text in accepted {
            text.await.unwrap().unwrap();
        }
        background.await.unwrap().unwrap();
        assert_eq!(worker.counts(), Counts { done: 6, full: 100, ..Counts::default() });
    }

    #[tokio::test]
    async fn the_earliest_deadline_is_first_and_evicts_the_latest() {
        let (worker, inputs, open) = scripted(3, 1);
        let first = spawn(&worker, "a");
        assert_eq!(next_input(&inputs).await, ["a"]);
        let wait = |text: &'static str, minutes: u64| {
            let worker = worker.clone();
            tokio::spawn(async move { worker.embed(text, Instant::now() + Duration::from_mins(minutes)).await })
        };
        let mut asked = Vec::new();
        for (waiting_now, (text, minutes)) in (1..).zip([("in an hour", 60), ("in a day", 1440), ("soon", 10)]) {
            asked.push(wait(text, minutes));
            waiting(&worker, waiting_now).await;
        }
        asked.push(wait("at once", 1));
        assert!(matches!(asked.remove(1).await.unwrap(), Err(WorkerError::Full)), "in a day");
        let week = Instant::now() + Duration::from_hours(168);
        assert!(matches!(worker.embed("in a week", week).await, Err(WorkerError::Full)));
        for _ in 0..4 {
            open.send(()).unwrap();
        }
        first.await.unwrap().unwrap();
        for asked in asked {
            asked.await.unwrap().unwrap();
        }
        assert_eq!(inputs.try_iter().flatten().collect::<Vec<_>>(), ["at once", "soon", "in an hour"]);
    }

    #[tokio::test]
    async fn an_embedder_that_cannot_be_created_reports_the_reason() {
        let worker = Worker::new(Limits::for_processors(2), || {
            Err(EmbedError { embedder: "none".to_owned(), problem: "no library".into() })
        });
        assert_eq!(worker.counts(), Counts::default());
        assert!(worker.embed("a", far()).await.unwrap_err().to_string().contains("no library"));
    }

    #[tokio::test]
    async fn threads_end_with_the_worker() {
        let (worker, inputs, open) = scripted(1, 1);
        open.send(()).unwrap();
        worker.embed("a", far()).await.unwrap();
        assert_eq!(next_input(&inputs).await, ["a"]);
        drop(worker);
        // The thread drops the embedder, and with it the other end of this channel.
        assert!(next_input(&inputs).await.is_empty());
    }
}
