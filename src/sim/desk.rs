//! A simulated engine in real time: takes jobs, sleeps from step to step and hands out tokens as they fall due.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, mpsc};

use super::{
    engine::Engine,
    job::{Event, Gauges, Job, JobId, Refusal},
    profile::Profile,
    prom::Meters,
};
use crate::types::{Clock, Moment};

/// What a guest hears about one of its jobs.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Beat {
    /// Which of its jobs, in the order they were given.
    pub(super) choice: usize,
    /// What happened.
    pub(super) news: News,
}

/// What happened to a job.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The token at this place of the answer is computed.
    Token(u32),
    /// Nothing follows.
    Finished {
        /// Prompt tokens found in the prefix cache.
        cached_tokens: u32,
    },
}

/// The engine and everyone who waits for it.
pub(super) struct Desk {
    clock: Clock,
    room: Mutex<Room>,
    wake: Notify,
}

struct Room {
    engine: Engine,
    guests: HashMap<JobId, Guest>,
    meters: Meters,
}

/// Who waits for a job.
struct Guest {
    beats: mpsc::Sender<Beat>,
    choice: usize,
    prompt_tokens: u32,
    came: Moment,
    last: Option<Moment>,
}

/// A place at the desk for the jobs of one request. Dropping it cancels those that are not finished, at once.
pub(super) struct Seat {
    desk: Arc<Desk>,
    jobs: Vec<JobId>,
    beats: mpsc::Receiver<Beat>,
}

impl Desk {
    /// A desk with an idle engine. Nothing moves until [`Desk::run`] does.
    pub(super) fn new(profile: Profile, seed: u64) -> Self {
        let room = Room { engine: Engine::new(profile, seed), guests: HashMap::new(), meters: Meters::default() };
        Self { clock: Clock::start(), room: Mutex::new(room), wake: Notify::new() }
    }

    /// Keeps the engine going; never ends.
    pub(super) async fn run(&self) {
        let mut events = Vec::new();
        loop {
            match self.turn(&mut events) {
                None => self.wake.notified().await,
                Some(next) => {
                    tokio::select! {
                        () = tokio::time::sleep(next.since(self.clock.now())) => {}
                        () = self.wake.notified() => {}
                    }
                }
            }
        }
    }

    /// Submits the jobs of one request together.
    pub(super) fn seat(self: &Arc<Self>, jobs: Vec<Job>) -> Result<Seat, Refusal> {
        // As many places as there can be beats, so that a reader who lags loses none and holds up nobody.
        let places: u64 = jobs.iter().map(|job| u64::from(job.output_tokens) + 1).sum();
        let (sender, beats) = mpsc::channel(places.clamp(1, 1 << 40) as usize);
        let mut seat = Seat { desk: Arc::clone(self), jobs: Vec::with_capacity(jobs.len()), beats };
        let came = self.clock.now();
        for (choice, job) in jobs.into_iter().enumerate() {
            let prompt_tokens = job.prompt_tokens;
            let mut room = self.room();
            let id = room.engine.submit(came, job)?;
            room.guests.insert(id, Guest { beats: sender.clone(), choice, prompt_tokens, came, last: None });
            seat.jobs.push(id);
        }
        self.wake.notify_one();
        Ok(seat)
    }

    /// Makes every step that is not under way yet take `factor` times as long as the profile says.
    pub(super) fn slow_down(&self, factor: f64) {
        self.room().engine.slow_down(factor);
    }

    /// What the engine and the desk have measured.
    pub(super) fn report(&self) -> (Gauges, Meters) {
        let room = self.room();
        (room.engine.gauges(), room.meters.clone())
    }

    /// Completes the steps that are due and tells whom they concern; when the next one is.
    fn turn(&self, events: &mut Vec<Event>) -> Option<Moment> {
        let mut room = self.room();
        room.engine.advance(self.clock.now(), events);
        for event in events.drain(..) {
            room.tell(event);
        }
        room.engine.next_step_at()
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room {
    fn tell(&mut self, event: Event) {
        let Some(guest) = self.guests.get_mut(&event.job()) else { return };
        let news = match event {
            Event::Preempted { .. } => return,
            Event::Token { index, at, .. } => {
                if let Some(last) = guest.last.replace(at) {
                    self.meters.itl.record(at.since(last));
                } else {
                    self.meters.ttft.record(at.since(guest.came));
                    self.meters.prompt_tokens += u64::from(guest.prompt_tokens);
                }
                self.meters.generation_tokens += 1;
                News::Token(index)
            }
            Event::Finished { cached_tokens, .. } => {
                if guest.last.is_none() {
                    self.meters.prompt_tokens += u64::from(guest.prompt_tokens);
                }
                News::Finished { cached_tokens }
            }
        };
        // Full it cannot be; closed it is only for the instant in which its seat is being dropped.
        let _ = guest.beats.try_send(Beat { choice: guest.choice, news });
        if matches!(news, News::Finished { .. }) {
            self.guests.remove(&event.job());
        }
    }
}

impl Seat {
    /// The next news of any of its jobs; `None` when all are finished.
    pub(super) async fn next(&mut self) -> Option<Beat> {
        self.beats.recv().await
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut room = self.desk.room();
        for job in &self.jobs {
            room.engine.cancel(*job);
            room.guests.remove(job);
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
    async fn tokens_come_when_the_model_says_and_the_seat_hears_the_end() {
        let profile = Profile { jitter: 0.0, ..Profile::small() };
        let desk = Arc::new(Desk::new(profile, 1));
        let mut seat = desk.seat(vec![job(100, 3), job(100, 1)]).unwrap();
        let start = tokio::time::Instant::now();
        let running = tokio::spawn({
            let desk = Arc::clone(&desk);
            async move { desk.run().await }
        });
        assert_eq!(seat.next().await, Some(Beat { choice: 0, news: News::Token(0) }));
        // Timers fire on whole milliseconds.
        assert!(start.elapsed().as_millis() - profile.idle_ttft(100).as_millis() <= 2);
        let mut beats = Vec::new();
        while let Some(beat) = seat.next().await {
            beats.push(beat);
        }
        assert_eq!(beats.len(), 5);
        assert_eq!(beats.last(), Some(&Beat { choice: 0, news: News::Finished { cached_tokens: 0 } }));
        let (gauges, meters) = desk.report();
        assert_eq!((gauges.running, meters.prompt_tokens, meters.generation_tokens), (0, 200, 4));
        running.abort();
    }

    #[tokio::test]
    async fn leaving_the_desk_cancels_every_job() {
        let desk = Arc::new(Desk::new(Profile { max_sequences: 1, ..Profile::small() }, 1));
        let seat = desk.seat(vec![job(100, 3), job(100, 1)]).unwrap();
        assert_eq!((desk.report().0.running, desk.report().0.waiting), (1, 1));
        drop(seat);
        assert_eq!((desk.report().0.running, desk.report().0.waiting), (0, 0));
        assert!(desk.seat(vec![job(10, 1), job(40_000, 1)]).is_err());
        assert_eq!(desk.report().0.waiting, 0, "what came before a refusal is cancelled too");
        assert!(desk.room().guests.is_empty());
    }
}
