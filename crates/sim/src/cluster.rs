//! Discrete-event simulation of engines behind schedulers, on a virtual clock.
//!
//! A scheduler receives the events that a gateway would see (arrivals, first tokens, ends, scraped gauges, failures) and returns commands.
//! The same seeds and inputs give the same run.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::Duration,
};

use super::{Engine, Event, Gauges, JobId, Profile, outcome::Outcome, traffic::Request};
use signalbox_types::Moment;

/// Time after the last arrival at which a run is aborted; requests still open then count as unanswered.
const MAX_OVERTIME: Duration = Duration::from_hours(6);

/// An attempt, numbered by its scheduler from 0.
pub type AttemptId = u32;

/// A command of a scheduler.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send request number `request` to an engine, as the next attempt in the count.
    Send {
        /// Index of the request in the workload.
        request: u32,
        /// Index of the engine.
        engine: usize,
    },
    /// Cancel an attempt. No further event reports it.
    Cancel(AttemptId),
    /// Refuse a request.
    Refuse(u32),
    /// Call [`Scheduler::wake`] at this time.
    Wake(Moment),
}

/// A completed answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Prompt tokens found in the engine's prefix cache.
    pub cached_tokens: u32,
    /// Tokens of the answer.
    pub output_tokens: u32,
}

/// A policy under test.
pub trait Scheduler {
    /// The engines before a request arrives: exact knowledge, which no gateway has.
    fn peek(&mut self, _request: &Request, _engines: &[Option<Engine>]) {}
    /// A request arrived.
    fn arrive(&mut self, now: Moment, number: u32, request: &Request, out: &mut Vec<Command>);
    /// The first token of a streamed answer arrived.
    fn first_token(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>);
    /// A streamed answer has reached `tokens` tokens.
    fn streamed(&mut self, _attempt: AttemptId, _tokens: u32) {}
    /// An answer is complete.
    fn finished(&mut self, now: Moment, attempt: AttemptId, answer: Answer, out: &mut Vec<Command>);
    /// An attempt failed: the engine died, or refused the job.
    fn failed(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>);
    /// The engine is alive, but answered with an error.
    fn erred(&mut self, now: Moment, attempt: AttemptId, out: &mut Vec<Command>) {
        self.failed(now, attempt, out);
    }
    /// The client of a request disconnected. The scheduler has to cancel its attempts.
    fn left(&mut self, now: Moment, number: u32, out: &mut Vec<Command>);
    /// An engine was scraped; `None` if it did not answer.
    fn scraped(&mut self, _now: Moment, _engine: usize, _gauges: Option<Gauges>, _out: &mut Vec<Command>) {}
    /// Time until the next scrape, where `usual` is the setting's interval.
    fn pause(&self, usual: Duration, _now: Moment) -> Duration {
        usual
    }
    /// The time of a [`Command::Wake`] has come.
    fn wake(&mut self, _now: Moment, _out: &mut Vec<Command>) {}
}

/// A scheduled event of an engine.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Change {
    /// Every step takes this many times as long.
    Slow(f64),
    /// The engine dies: jobs on it fail, and so do new ones.
    Die,
    /// The engine returns with a cold cache.
    Return,
}

/// Engines and their scheduled events.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// The engines.
    pub engines: Vec<Profile>,
    /// Time, engine and kind of each event.
    pub changes: Vec<(Duration, usize, Change)>,
    /// Scrape interval; `None` to scrape nothing.
    pub scrape: Option<Duration>,
    /// Share of attempts that each engine answers with an error, 0 to 1; missing entries mean 0.
    pub failing: Vec<f64>,
    /// Seed of the engines' jitter.
    pub seed: u64,
}

#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Change(usize),
    Arrival(u32),
    Leave(u32),
    Scrape,
    Wake(usize),
}

struct Attempt {
    request: u32,
    engine: usize,
    job: Option<JobId>,
    /// Id in its scheduler's numbering.
    number: AttemptId,
    scheduler: usize,
}

/// A run in progress.
struct Run<'a> {
    setting: &'a Setting,
    requests: &'a [Request],
    schedulers: &'a mut [&'a mut dyn Scheduler],
    engines: Vec<Option<Engine>>,
    /// Attempts of running jobs, by engine.
    jobs: Vec<HashMap<JobId, usize>>,
    attempts: Vec<Attempt>,
    /// Indexes in `attempts`, by scheduler and attempt id.
    numbers: Vec<Vec<usize>>,
    timers: BinaryHeap<Reverse<(Moment, Timer)>>,
    outcomes: Vec<Outcome>,
    open: usize,
    dice: fastrand::Rng,
}

/// Plays `requests`, in order of arrival, against the engines. Requests are dealt to the `schedulers` in turn, as to several gateways in
/// front of the same engines. Returns the outcomes in the same order.
pub fn run<'a>(
    setting: &'a Setting,
    requests: &'a [Request],
    schedulers: &'a mut [&'a mut dyn Scheduler],
) -> Vec<Outcome> {
    let engine = |(at, profile): (usize, &Profile)| Some(Engine::new(*profile, setting.seed.wrapping_add(at as u64)));
    let mut run = Run {
        setting,
        requests,
        engines: setting.engines.iter().enumerate().map(engine).collect(),
        jobs: vec![HashMap::new(); setting.engines.len()],
        attempts: Vec::with_capacity(requests.len()),
        numbers: vec![Vec::new(); schedulers.len()],
        timers: BinaryHeap::new(),
        outcomes: requests.iter().map(Outcome::open).collect(),
        open: requests.len(),
        dice: fastrand::Rng::with_seed(setting.seed),
        schedulers,
    };
    run.play();
    run.outcomes
}

impl Run<'_> {
    fn play(&mut self) {
        for (at, change) in self.setting.changes.iter().enumerate() {
            self.timer(change.0, Timer::Change(at));
        }
        if let Some(first) = self.requests.first() {
            self.timer(first.at, Timer::Arrival(0));
        }
        if self.setting.scrape.is_some() {
            self.timer(Duration::ZERO, Timer::Scrape);
        }
        let (mut events, mut commands) = (Vec::new(), Vec::new());
        let last = self.requests.last().map_or(Duration::ZERO, |last| last.at);
        let end = Moment::default().plus(last + MAX_OVERTIME);
        while self.open > 0 {
            let step = self.engines.iter().enumerate();
            let step = step.filter_map(|(at, engine)| Some((engine.as_ref()?.next_step_at()?, at))).min();
            let timer = self.timers.peek().map(|Reverse((at, _))| *at);
            match (step, timer) {
                (Some((at, engine)), timer) if timer.is_none_or(|timer| at <= timer) => {
                    if let Some(engine) = &mut self.engines[engine] {
                        engine.advance(at, &mut events);
                    }
                    for event in events.drain(..) {
                        self.event(engine, event, &mut commands);
                    }
                }
                (_, Some(at)) if at > end => break,
                (_, Some(_)) => {
                    let Some(Reverse((at, timer))) = self.timers.pop() else { break };
                    self.fire(at, timer, &mut commands);
                }
                // No event is left: open requests stay unanswered.
                _ => break,
            }
        }
    }

    fn timer(&mut self, at: Duration, timer: Timer) {
        self.timers.push(Reverse((Moment::default().plus(at), timer)));
    }

    fn fire(&mut self, now: Moment, timer: Timer, commands: &mut Vec<Command>) {
        match timer {
            Timer::Arrival(number) => {
                let request = &self.requests[number as usize];
                if let Some(next) = self.requests.get(number as usize + 1) {
                    self.timer(next.at, Timer::Arrival(number + 1));
                }
                if let Some(leaves) = request.leaves {
                    self.timer(request.at + leaves, Timer::Leave(number));
                }
                let scheduler = self.scheduler_of(number);
                self.schedulers[scheduler].peek(request, &self.engines);
                self.schedulers[scheduler].arrive(now, number, request, commands);
                self.execute(scheduler, now, commands);
            }
            Timer::Leave(number) => {
                if self.outcomes[number as usize].leave() {
                    self.open -= 1;
                    let scheduler = self.scheduler_of(number);
                    self.schedulers[scheduler].left(now, number, commands);
                    self.execute(scheduler, now, commands);
                }
            }
            Timer::Change(at) => {
                let (_, engine, change) = self.setting.changes[at];
                self.change(now, engine, change, commands);
            }
            Timer::Scrape => {
                for engine in 0..self.engines.len() {
                    let gauges = self.engines[engine].as_ref().map(Engine::gauges);
                    for scheduler in 0..self.schedulers.len() {
                        self.schedulers[scheduler].scraped(now, engine, gauges, commands);
                        self.execute(scheduler, now, commands);
                    }
                }
                if let Some(usual) = self.setting.scrape {
                    let pauses = self.schedulers.iter().map(|scheduler| scheduler.pause(usual, now));
                    let pause = pauses.min().unwrap_or(usual);
                    self.timers.push(Reverse((now.plus(pause), Timer::Scrape)));
                }
            }
            Timer::Wake(scheduler) => {
                self.schedulers[scheduler].wake(now, commands);
                self.execute(scheduler, now, commands);
            }
        }
    }

    fn scheduler_of(&self, number: u32) -> usize {
        number as usize % self.schedulers.len()
    }

    fn change(&mut self, now: Moment, at: usize, change: Change, commands: &mut Vec<Command>) {
        match change {
            Change::Slow(factor) => self.engines[at].iter_mut().for_each(|engine| engine.slow_down(factor)),
            Change::Die => {
                self.engines[at] = None;
                let mut lost: Vec<usize> = self.jobs[at].drain().map(|(_, attempt)| attempt).collect();
                lost.sort_unstable();
                for attempt in lost {
                    self.attempts[attempt].job = None;
                    self.fail(now, attempt, commands);
                }
            }
            Change::Return => {
                let seed = self.setting.seed.wrapping_add(at as u64);
                self.engines[at] = Some(Engine::new(self.setting.engines[at], seed));
            }
        }
    }

    fn fail(&mut self, now: Moment, attempt: usize, commands: &mut Vec<Command>) {
        let Attempt { scheduler, number, request, engine, .. } = self.attempts[attempt];
        // The client sees a failure only after its answer has begun.
        let asked = &self.requests[request as usize];
        if self.outcomes[request as usize].cut(engine, asked.whole) {
            self.open -= 1;
        }
        self.schedulers[scheduler].failed(now, number, commands);
        self.execute(scheduler, now, commands);
    }

    fn event(&mut self, engine: usize, event: Event, commands: &mut Vec<Command>) {
        let Some(&place) = self.jobs[engine].get(&event.job()) else { return };
        let Attempt { scheduler, number, request, .. } = self.attempts[place];
        let outcome = &mut self.outcomes[request as usize];
        let asked = &self.requests[request as usize];
        match event {
            Event::Token { index, at, .. } => {
                outcome.token(at.since(Moment::default()), engine);
                if index == 0 && !asked.whole {
                    self.schedulers[scheduler].first_token(at, number, commands);
                    self.execute(scheduler, at, commands);
                }
                if !asked.whole {
                    self.schedulers[scheduler].streamed(number, index + 1);
                }
            }
            Event::Finished { cached_tokens, at, .. } => {
                self.jobs[engine].remove(&event.job());
                self.attempts[place].job = None;
                if outcome.finish(engine, cached_tokens) {
                    self.open -= 1;
                }
                let answer = Answer { cached_tokens, output_tokens: asked.job.output_tokens };
                self.schedulers[scheduler].finished(at, number, answer, commands);
                self.execute(scheduler, at, commands);
            }
            Event::Preempted { .. } => {}
        }
    }

    /// Executes commands in order, including those that their execution adds.
    fn execute(&mut self, scheduler: usize, now: Moment, commands: &mut Vec<Command>) {
        let mut next = 0;
        while let Some(&command) = commands.get(next) {
            next += 1;
            match command {
                Command::Send { request, engine } => self.send(scheduler, now, request, engine, commands),
                Command::Cancel(number) => self.cancel(scheduler, number),
                Command::Refuse(request) => {
                    if self.outcomes[request as usize].refuse() {
                        self.open -= 1;
                    }
                }
                Command::Wake(at) => self.timers.push(Reverse((at.max(now), Timer::Wake(scheduler)))),
            }
        }
        commands.clear();
    }

    fn send(&mut self, scheduler: usize, now: Moment, request: u32, engine: usize, commands: &mut Vec<Command>) {
        let number = self.numbers[scheduler].len() as AttemptId;
        let place = self.attempts.len();
        self.numbers[scheduler].push(place);
        let failing = self.setting.failing.get(engine).copied().unwrap_or(0.0);
        if failing > 0.0 && self.engines[engine].is_some() && self.dice.f64() < failing {
            self.attempts.push(Attempt { request, engine, job: None, number, scheduler });
            return self.schedulers[scheduler].erred(now, number, commands);
        }
        let job = self.requests[request as usize].job.clone();
        let job = self.engines[engine].as_mut().and_then(|engine| engine.submit(now, job).ok());
        self.attempts.push(Attempt { request, engine, job, number, scheduler });
        match job {
            Some(job) => _ = self.jobs[engine].insert(job, place),
            None => self.schedulers[scheduler].failed(now, number, commands),
        }
    }

    fn cancel(&mut self, scheduler: usize, number: AttemptId) {
        let Some(&place) = self.numbers[scheduler].get(number as usize) else { return };
        let attempt = &mut self.attempts[place];
        if let (Some(job), Some(engine)) = (attempt.job.take(), &mut self.engines[attempt.engine]) {
            engine.cancel(job);
            self.jobs[attempt.engine].remove(&job);
        }
    }
}
