//! Runs a simulated engine in real time: accepts jobs, sleeps from step to step, and delivers tokens when they are due.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use tokio::{
    sync::{Notify, mpsc},
    time::timeout,
};

use super::{
    engine::Engine,
    job::{Event, Gauges, Job, JobId, Refusal},
    profile::Profile,
    prom::Meters,
};
use signalbox_types::{Clock, Moment};

/// Progress of one of a handle's jobs.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct JobUpdate {
    /// Index of the job, in the order of submission.
    pub(super) choice: usize,
    /// The progress.
    pub(super) progress: Progress,
}

/// Progress of a job.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The token at this index of the answer was computed.
    Token(u32),
    /// The job is complete.
    Finished {
        /// Prompt tokens found in the prefix cache.
        cached_tokens: u32,
    },
}

/// The engine and the requests that wait for it.
pub(super) struct EngineTask {
    clock: Clock,
    inner: Mutex<Inner>,
    wake: Notify,
}

struct Inner {
    engine: Engine,
    waiters: HashMap<JobId, Waiter>,
    meters: Meters,
}

/// Receiver of a job's progress.
struct Waiter {
    updates: mpsc::Sender<JobUpdate>,
    choice: usize,
    prompt_tokens: u32,
    submitted: Moment,
    last: Option<Moment>,
}

/// The jobs of one request. Dropping it cancels those that are not finished, at once.
pub(super) struct JobHandle {
    engine: Arc<EngineTask>,
    jobs: Vec<JobId>,
    updates: mpsc::Receiver<JobUpdate>,
}

impl EngineTask {
    /// An idle engine. It makes no progress until [`EngineTask::run`] is polled.
    pub(super) fn new(profile: Profile, seed: u64) -> Self {
        let inner = Inner { engine: Engine::new(profile, seed), waiters: HashMap::new(), meters: Meters::default() };
        Self { clock: Clock::start(), inner: Mutex::new(inner), wake: Notify::new() }
    }

    /// Runs the engine; never returns.
    pub(super) async fn run(&self) {
        let mut events = Vec::new();
        loop {
            let next = self.advance(&mut events);
            let woken = self.wake.notified();
            match next {
                None => woken.await,
                Some(next) => drop(timeout(next.since(self.clock.now()), woken).await),
            }
        }
    }

    /// Submits the jobs of one request together.
    pub(super) fn submit(self: &Arc<Self>, jobs: Vec<Job>) -> Result<JobHandle, Refusal> {
        // The channel holds every update there can be, so that a slow reader loses none and blocks no other.
        let places: u64 = jobs.iter().map(|job| u64::from(job.output_tokens) + 1).sum();
        let (sender, updates) = mpsc::channel(places.clamp(1, 1 << 40) as usize);
        let mut handle = JobHandle { engine: Arc::clone(self), jobs: Vec::with_capacity(jobs.len()), updates };
        let submitted = self.clock.now();
        for (choice, job) in jobs.into_iter().enumerate() {
            let prompt_tokens = job.prompt_tokens;
            let mut inner = self.inner.lock();
            let id = inner.engine.submit(submitted, job)?;
            inner.waiters.insert(id, Waiter { updates: sender.clone(), choice, prompt_tokens, submitted, last: None });
            handle.jobs.push(id);
        }
        self.wake.notify_one();
        Ok(handle)
    }

    /// Makes every later step take `factor` times as long as the profile says.
    pub(super) fn slow_down(&self, factor: f64) {
        self.inner.lock().engine.slow_down(factor);
    }

    /// Gauges of the engine and measured meters.
    pub(super) fn report(&self) -> (Gauges, Meters) {
        let inner = self.inner.lock();
        (inner.engine.gauges(), inner.meters.clone())
    }

    /// Completes the steps that are due and delivers their events. Returns the time of the next step.
    fn advance(&self, events: &mut Vec<Event>) -> Option<Moment> {
        let mut inner = self.inner.lock();
        inner.engine.advance(self.clock.now(), events);
        for event in events.drain(..) {
            inner.deliver(event);
        }
        inner.engine.next_step_at()
    }
}

impl Inner {
    fn deliver(&mut self, event: Event) {
        let Some(waiter) = self.waiters.get_mut(&event.job()) else { return };
        let progress = match event {
            Event::Preempted { .. } => return,
            Event::Token { index, at, .. } => {
                if let Some(last) = waiter.last.replace(at) {
                    self.meters.itl.record(at.since(last));
                } else {
                    self.meters.ttft.record(at.since(waiter.submitted));
                    self.meters.prompt_tokens += u64::from(waiter.prompt_tokens);
                }
                self.meters.generation_tokens += 1;
                Progress::Token(index)
            }
            Event::Finished { cached_tokens, .. } => {
                if waiter.last.is_none() {
                    self.meters.prompt_tokens += u64::from(waiter.prompt_tokens);
                }
                Progress::Finished { cached_tokens }
            }
        };
        // The channel is never full. It is closed only while its handle is being dropped.
        let _ = waiter.updates.try_send(JobUpdate { choice: waiter.choice, progress });
        if matches!(progress, Progress::Finished { .. }) {
            self.waiters.remove(&event.job());
        }
    }
}

impl JobHandle {
    /// The next update of any of its jobs; `None` when all are finished.
    pub(super) async fn next(&mut self) -> Option<JobUpdate> {
        self.updates.recv().await
    }
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        let mut inner = self.engine.inner.lock();
        for job in &self.jobs {
            inner.engine.cancel(*job);
            inner.waiters.remove(job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(prompt_tokens: u32, output_tokens: u32) -> Job {
        Job { prompt_tokens, output_tokens, ..Job::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_arrive_when_the_model_says_and_the_end_is_reported() {
        let profile = Profile { jitter: 0.0, ..Profile::small() };
        let engine = Arc::new(EngineTask::new(profile, 1));
        let mut handle = engine.submit(vec![job(100, 3), job(100, 1)]).unwrap();
        let start = tokio::time::Instant::now();
        let running = tokio::spawn({
            let engine = Arc::clone(&engine);
            async move { engine.run().await }
        });
        assert_eq!(handle.next().await, Some(JobUpdate { choice: 0, progress: Progress::Token(0) }));
        // Timers fire on whole milliseconds.
        assert!(start.elapsed().as_millis() - profile.idle_ttft(100).as_millis() <= 2);
        let mut updates = Vec::new();
        while let Some(update) = handle.next().await {
            updates.push(update);
        }
        assert_eq!(updates.len(), 5);
        assert_eq!(updates.last(), Some(&JobUpdate { choice: 0, progress: Progress::Finished { cached_tokens: 0 } }));
        let (gauges, meters) = engine.report();
        assert_eq!((gauges.running, meters.prompt_tokens, meters.generation_tokens), (0, 200, 4));
        running.abort();
    }

    #[tokio::test]
    async fn dropping_the_handle_cancels_every_job() {
        let engine = Arc::new(EngineTask::new(Profile { max_sequences: 1, ..Profile::small() }, 1));
        let handle = engine.submit(vec![job(100, 3), job(100, 1)]).unwrap();
        assert_eq!((engine.report().0.running, engine.report().0.waiting), (1, 1));
        drop(handle);
        assert_eq!((engine.report().0.running, engine.report().0.waiting), (0, 0));
        assert!(engine.submit(vec![job(10, 1), job(40_000, 1)]).is_err());
        assert_eq!(engine.report().0.waiting, 0, "what submitted before a refusal is cancelled too");
        assert!(engine.inner.lock().waiters.is_empty());
    }
}
