//! The engine model: continuous batching with chunked prefill over a paged KV cache, as pure arithmetic on a given clock.
//!
//! Time moves in steps. Each step computes one token for every decoding sequence and gives the rest of [`Profile::chunk_tokens`] to prompts,
//! first come first served. A waiting job is admitted when a sequence is free and its whole prompt fits into the KV cache. When a decoding
//! sequence finds no block for its next token, the sequence admitted last is preempted: it frees its memory and recomputes prompt and answer
//! later. Only full blocks of prompts are shared, not those of answers.

use std::{collections::VecDeque, mem, time::Duration};

use super::{
    job::{Event, Gauges, Job, JobId, Refusal},
    kv::Kv,
    profile::{Profile, millis},
};
use signalbox_types::Moment;

/// Reciprocal of the share of the KV cache that admission leaves free, so that running sequences can grow.
const SPARE_SHARE: u32 = 100;

#[derive(Copy, Clone, PartialEq, Eq)]
enum Phase {
    Vacant,
    Waiting,
    Running,
}

struct Sequence {
    generation: u32,
    phase: Phase,
    job: Job,
    submitted: Moment,
    /// Tokens of the answer so far.
    emitted: u32,
    /// Tokens with computed KV.
    computed: u32,
    /// Tokens to compute before the next token of the answer: the prompt, and after a preemption the answer so far.
    goal: u32,
    /// Tokens computed in the current step.
    step: u32,
    /// Prompt tokens found in the prefix cache at the first admission.
    cached: Option<u32>,
    /// Its shared blocks from the prompt's start, and the number of private ones.
    shared: Vec<u32>,
    private: u32,
}

/// A simulated engine.
pub struct Engine {
    profile: Profile,
    dice: fastrand::Rng,
    slowdown: f64,
    kv: Kv,
    sequences: Vec<Sequence>,
    vacant: Vec<u32>,
    /// In order of admission.
    running: Vec<u32>,
    /// In order of arrival, preempted jobs first. Cancelled jobs are removed lazily.
    waiting: VecDeque<JobId>,
    waiting_now: u32,
    step_ends: Option<Moment>,
    prefix_queries: u64,
    prefix_hits: u64,
    /// Same counters of the current step, published at its end.
    looked_up: [u64; 2],
    preemptions: u64,
}

impl Engine {
    /// An idle engine with a cold cache. The same profile, seed and calls give the same events.
    pub fn new(profile: Profile, seed: u64) -> Self {
        let profile = Profile {
            chunk_tokens: profile.chunk_tokens.max(1),
            max_sequences: profile.max_sequences.max(1),
            block_tokens: profile.block_tokens.max(1),
            ..profile
        };
        Self {
            kv: Kv::new(profile.kv_blocks()),
            profile,
            dice: fastrand::Rng::with_seed(seed),
            slowdown: 1.0,
            sequences: Vec::new(),
            vacant: Vec::new(),
            running: Vec::new(),
            waiting: VecDeque::new(),
            waiting_now: 0,
            step_ends: None,
            prefix_queries: 0,
            prefix_hits: 0,
            looked_up: [0; 2],
            preemptions: 0,
        }
    }

    /// Its profile.
    pub const fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Makes every later step take `factor` times as long; 1 restores the profile's speed.
    pub fn slow_down(&mut self, factor: f64) {
        self.slowdown = factor;
    }

    /// Queues `job` at `now`. It can join the first step that starts then or later.
    pub fn submit(&mut self, now: Moment, job: Job) -> Result<JobId, Refusal> {
        let job = Job { prompt_tokens: job.prompt_tokens.max(1), ..job };
        let tokens = u64::from(job.prompt_tokens) + u64::from(job.output_tokens);
        let limit = u64::from(self.profile.longest());
        if tokens > limit {
            return Err(Refusal::TooLong { tokens, limit });
        }
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.sequences.push(Sequence::vacant());
            self.sequences.len() as u32 - 1
        });
        let sequence = &mut self.sequences[slot as usize];
        sequence.phase = Phase::Waiting;
        sequence.submitted = now;
        sequence.job = job;
        let id = JobId::new(slot, sequence.generation);
        self.waiting.push_back(id);
        self.waiting_now += 1;
        if self.step_ends.is_none() {
            // Nothing runs, so nothing can be preempted: there are no events to report.
            self.begin(now, &mut Vec::new());
        }
        Ok(id)
    }

    /// Cancels `job` and frees its memory at once. A step in progress still takes its time. False if it had finished or was cancelled before.
    pub fn cancel(&mut self, job: JobId) -> bool {
        let Some(sequence) = self.sequences.get(job.slot()) else { return false };
        if sequence.generation != job.generation() {
            return false;
        }
        match sequence.phase {
            Phase::Vacant => return false,
            Phase::Waiting => self.waiting_now -= 1,
            Phase::Running => self.running.retain(|&slot| slot as usize != job.slot()),
        }
        self.free_slot(job.slot());
        true
    }

    /// End of the current step, when the next events may occur. `None` while the engine is idle.
    pub(crate) const fn next_step_at(&self) -> Option<Moment> {
        self.step_ends
    }

    /// Completes every step that ends by `now` and appends its events to `events`, in order of time.
    pub fn advance(&mut self, now: Moment, events: &mut Vec<Event>) {
        while let Some(end) = self.step_ends.filter(|end| *end <= now) {
            self.step_ends = None;
            self.complete(end, events);
            self.begin(end, events);
        }
    }

    /// Leading `blocks` in its prefix cache.
    pub fn cached_blocks(&self, blocks: &[u64]) -> usize {
        self.kv.cached(blocks)
    }

    /// Gauges as the engine would report them now.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            running: self.running.len() as u32,
            waiting: self.waiting_now,
            kv_usage: f64::from(self.kv.in_use()) / f64::from(self.kv.capacity()),
            prefix_queries: self.prefix_queries,
            prefix_hits: self.prefix_hits,
            preemptions: self.preemptions,
        }
    }

    /// Starts a step at `at`, or when the first job arrives; none without work.
    fn begin(&mut self, at: Moment, events: &mut Vec<Event>) {
        let at = match self.next_waiting() {
            Some(slot) if self.running.is_empty() => at.max(self.sequences[slot].submitted),
            None if self.running.is_empty() => return,
            _ => at,
        };
        let mut budget = self.profile.chunk_tokens;
        let preempted = self.preemptions;
        let mut ms = self.profile.step_ms + self.decode(at, &mut budget, events);
        for index in 0..self.running.len() {
            ms += self.prefill(self.running[index] as usize, &mut budget);
        }
        let mut starts = false;
        while budget > 0 && preempted == self.preemptions && self.running.len() < self.profile.max_sequences as usize {
            let Some(slot) =
                self.next_waiting().filter(|&slot| self.sequences[slot].submitted <= at && self.admit(slot))
            else {
                break;
            };
            self.waiting.pop_front();
            self.waiting_now -= 1;
            self.running.push(slot as u32);
            ms += self.prefill(slot, &mut budget);
            starts = true;
        }
        if starts {
            ms += self.profile.prompt_ms;
        }
        let stray = 1.0 + self.profile.jitter * (2.0 * self.dice.f64() - 1.0);
        self.step_ends = Some(at.plus(millis(ms * stray * self.slowdown).min(Duration::from_secs(1 << 30))));
    }

    /// Schedules a token for each decoding sequence; returns the milliseconds they add.
    fn decode(&mut self, at: Moment, budget: &mut u32, events: &mut Vec<Event>) -> f64 {
        let (mut decoding, mut context) = (0, 0);
        let mut index = 0;
        while index < self.running.len() && *budget > 0 {
            let slot = self.running[index] as usize;
            index += 1;
            let sequence = &self.sequences[slot];
            if sequence.computed < sequence.goal {
                continue;
            }
            let needed = sequence.computed / self.profile.block_tokens + 1;
            let grown = needed <= sequence.blocks() || self.grow(slot, at, events);
            if grown {
                let sequence = &mut self.sequences[slot];
                sequence.step = 1;
                decoding += 1;
                context += u64::from(sequence.computed);
                *budget -= 1;
            }
        }
        self.profile.decode(decoding, context)
    }

    /// Allocates a block for `slot`, preempting the sequences admitted last; false if that was `slot` itself.
    fn grow(&mut self, slot: usize, at: Moment, events: &mut Vec<Event>) -> bool {
        while !self.kv.grow() {
            let Some(last) = self.running.pop() else { return false };
            let victim = &mut self.sequences[last as usize];
            self.kv.release(&victim.shared, victim.private);
            victim.shared.clear();
            victim.private = 0;
            victim.phase = Phase::Waiting;
            let job = JobId::new(last, victim.generation);
            self.waiting.push_front(job);
            self.waiting_now += 1;
            self.preemptions += 1;
            events.push(Event::Preempted { job, at });
            if last as usize == slot {
                return false;
            }
        }
        self.sequences[slot].private += 1;
        true
    }

    /// Gives the rest of the step to the unfinished prompt of `slot`; returns the milliseconds that adds.
    fn prefill(&mut self, slot: usize, budget: &mut u32) -> f64 {
        let sequence = &mut self.sequences[slot];
        let tokens = sequence.goal.saturating_sub(sequence.computed).min(*budget);
        if tokens == 0 {
            return 0.0;
        }
        sequence.step = tokens;
        *budget -= tokens;
        self.profile.prefill(sequence.computed, tokens)
    }

    /// Admits a waiting job: looks up its cached prefix and allocates the rest, if there is enough memory.
    fn admit(&mut self, slot: usize) -> bool {
        let sequence = &mut self.sequences[slot];
        let size = self.profile.block_tokens;
        let goal = sequence.job.prompt_tokens + sequence.emitted;
        // The last token is always computed, since the next one follows from it.
        let whole = ((goal - 1) / size).min(sequence.job.prompt_tokens / size) as usize;
        let mut found = mem::take(&mut sequence.shared);
        self.kv.look_up(&sequence.job.blocks[..whole.min(sequence.job.blocks.len())], &mut found);
        let fresh = goal.div_ceil(size) - found.len() as u32;
        let spare = if self.running.is_empty() { 0 } else { self.kv.capacity() / SPARE_SHARE };
        if !self.kv.admit(&found, fresh, spare) {
            found.clear();
            sequence.shared = found;
            return false;
        }
        sequence.phase = Phase::Running;
        sequence.goal = goal;
        sequence.computed =
            (found.len() as u32 * size).max(sequence.job.warm_tokens.min(sequence.job.prompt_tokens - 1));
        sequence.private = fresh;
        sequence.shared = found;
        if sequence.cached.is_none() {
            sequence.cached = Some(sequence.computed);
            self.looked_up[0] += u64::from(sequence.job.prompt_tokens);
            self.looked_up[1] += u64::from(sequence.computed);
        }
        true
    }

    /// Ends the step: publishes its tokens and removes complete jobs.
    fn complete(&mut self, at: Moment, events: &mut Vec<Event>) {
        let [queries, hits] = mem::take(&mut self.looked_up);
        self.prefix_queries += queries;
        self.prefix_hits += hits;
        let mut kept = 0;
        for index in 0..self.running.len() {
            let slot = self.running[index];
            if self.settle(slot, at, events) {
                self.free_slot(slot as usize);
            } else {
                self.running[kept] = slot;
                kept += 1;
            }
        }
        self.running.truncate(kept);
    }

    /// Accounts for the step's work of `slot`; true if that completes it.
    fn settle(&mut self, slot: u32, at: Moment, events: &mut Vec<Event>) -> bool {
        let sequence = &mut self.sequences[slot as usize];
        let tokens = mem::take(&mut sequence.step);
        if tokens == 0 {
            return false;
        }
        if sequence.computed < sequence.goal {
            let known = (sequence.computed + tokens).min(sequence.job.prompt_tokens) / self.profile.block_tokens;
            let known = sequence.job.blocks.len().min(known as usize);
            for &hash in sequence.job.blocks.get(sequence.shared.len()..known).unwrap_or_default() {
                sequence.shared.push(self.kv.publish(hash));
                sequence.private -= 1;
            }
        }
        sequence.computed += tokens;
        if sequence.computed < sequence.goal {
            return false;
        }
        let job = JobId::new(slot, sequence.generation);
        if sequence.emitted < sequence.job.output_tokens {
            events.push(Event::Token { job, index: sequence.emitted, at });
            sequence.emitted += 1;
        }
        let finished = sequence.emitted == sequence.job.output_tokens;
        if finished {
            events.push(Event::Finished { job, cached_tokens: sequence.cached.unwrap_or(0), at });
        }
        finished
    }

    /// First queued job that was not cancelled.
    fn next_waiting(&mut self) -> Option<usize> {
        while let Some(job) = self.waiting.front() {
            if self.sequences[job.slot()].generation == job.generation() {
                return Some(job.slot());
            }
            self.waiting.pop_front();
        }
        None
    }

    fn free_slot(&mut self, slot: usize) {
        let sequence = &mut self.sequences[slot];
        self.kv.release(&sequence.shared, sequence.private);
        let mut shared = mem::take(&mut sequence.shared);
        shared.clear();
        *sequence = Sequence { generation: sequence.generation.wrapping_add(1), shared, ..Sequence::vacant() };
        self.vacant.push(slot as u32);
    }
}

impl Sequence {
    fn vacant() -> Self {
        Self {
            generation: 0,
            phase: Phase::Vacant,
            job: Job::default(),
            submitted: Moment::default(),
            emitted: 0,
            computed: 0,
            goal: 0,
            step: 0,
            cached: None,
            shared: Vec::new(),
            private: 0,
        }
    }

    fn blocks(&self) -> u32 {
        self.shared.len() as u32 + self.private
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::Arc};

    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The small profile without jitter.
    fn exact() -> Profile {
        Profile { jitter: 0.0, ..Profile::small() }
    }

    fn job(prompt_tokens: u32, output_tokens: u32) -> Job {
        Job { prompt_tokens, output_tokens, ..Job::default() }
    }

    /// A prompt that shares its first `shared` blocks with all prompts of its `family`.
    fn prompt(family: u64, shared: u64, own: u64, prompt_tokens: u32, output_tokens: u32) -> Job {
        let blocks = (0..u64::from(prompt_tokens / 16))
            .map(|block| if block < shared { family << 32 | block } else { own << 48 | family << 32 | block });
        Job { blocks: blocks.collect(), ..job(prompt_tokens, output_tokens) }
    }

    fn drain(engine: &mut Engine) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(at) = engine.next_step_at() {
            engine.advance(at, &mut events);
        }
        events
    }

    fn moments(events: &[Event], wanted: JobId) -> Vec<f64> {
        let of_job = events.iter().filter_map(|event| match *event {
            Event::Token { job, at, .. } if job == wanted => Some(at.nanos() as f64 / 1e6),
            _ => None,
        });
        of_job.collect()
    }

    #[test]
    fn an_idle_engine_answers_as_fast_as_its_formula_says() {
        for (profile, prompt_tokens) in
            [(exact(), 100), (exact(), 5_000), (Profile { jitter: 0.0, ..Profile::long() }, 100_000)]
        {
            let mut engine = Engine::new(profile, 1);
            let id = engine.submit(Moment::default(), job(prompt_tokens, 10)).unwrap();
            let at = moments(&drain(&mut engine), id);
            assert_eq!(at.len(), 10);
            let ttft = profile.idle_ttft(prompt_tokens).as_secs_f64() * 1e3;
            assert!((at[0] - ttft).abs() < ttft * 1e-3, "{} {ttft}", at[0]);
            let itl = profile.idle_itl(prompt_tokens).as_secs_f64() * 1e3;
            assert!((at[1] - at[0] - itl).abs() < itl * 0.01, "{} {itl}", at[1] - at[0]);
        }
    }

    #[test]
    fn a_prompt_delays_the_streams_beside_it() {
        let mut engine = Engine::new(exact(), 1);
        let stream = engine.submit(Moment::default(), job(16, 40)).unwrap();
        engine.submit(Moment::from_nanos(SECOND / 10), job(1_000, 1)).unwrap();
        let at = moments(&drain(&mut engine), stream);
        let gaps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(gaps.iter().filter(|gap| **gap > 350.0).count(), 1, "{gaps:?}");
        assert_eq!(gaps.iter().filter(|gap| **gap < 16.0).count(), 38);
    }

    #[test]
    fn a_known_prefix_is_not_computed_again() {
        let mut engine = Engine::new(exact(), 1);
        let first = engine.submit(Moment::default(), prompt(1, 60, 1, 1_000, 2)).unwrap();
        let cold = moments(&drain(&mut engine), first)[0];
        let later = Moment::from_nanos(100 * SECOND);
        engine.submit(later, prompt(1, 60, 2, 1_000, 2)).unwrap();
        let events = drain(&mut engine);
        assert!(matches!(events.last(), Some(Event::Finished { cached_tokens: 960, .. })), "{events:?}");
        let Some(Event::Token { at, .. }) = events.first() else { panic!("{events:?}") };
        assert!(at.seconds_since(later) * 1e3 < cold / 8.0);
        assert_eq!((engine.gauges().prefix_queries, engine.gauges().prefix_hits), (2_000, 960));
    }

    #[test]
    fn the_whole_prompt_is_never_cached_because_its_last_token_is_needed() {
        let mut engine = Engine::new(exact(), 1);
        for _ in 0..2 {
            engine.submit(Moment::default(), prompt(1, 4, 0, 64, 1)).unwrap();
            drain(&mut engine);
        }
        assert_eq!(engine.gauges().prefix_hits, 48);
    }

    #[test]
    fn memory_runs_out_and_the_last_admitted_waits() {
        let mut engine = Engine::new(Profile { kv_tokens: 640, ..exact() }, 1);
        let ids = [0, 1].map(|_| engine.submit(Moment::default(), job(200, 300)).unwrap());
        let events = drain(&mut engine);
        assert!(engine.gauges().preemptions > 0);
        for id in ids {
            let indices = events.iter().filter_map(|event| match event {
                Event::Token { job, index, .. } if *job == id => Some(*index),
                _ => None,
            });
            assert!(indices.eq(0..300), "each token once, in order");
        }
        assert!(events.iter().any(|event| matches!(event, Event::Preempted { .. } if event.job() == ids[1])));
    }

    #[test]
    fn a_job_larger_than_the_engine_is_refused() {
        let mut engine = Engine::new(Profile { kv_tokens: 640, ..exact() }, 1);
        let refusal = engine.submit(Moment::default(), job(600, 41));
        assert_eq!(refusal, Err(Refusal::TooLong { tokens: 641, limit: 640 }));
        assert!(engine.submit(Moment::default(), job(600, 40)).is_ok());
    }

    #[test]
    fn a_cancelled_job_frees_its_memory_at_once_wherever_it_is() {
        let mut engine = Engine::new(Profile { max_sequences: 1, ..exact() }, 1);
        let now = Moment::default();
        let running = engine.submit(now, job(20_000, 10)).unwrap();
        let waiting = engine.submit(now, job(100, 10)).unwrap();
        let next = engine.submit(now, job(100, 1)).unwrap();
        assert_eq!((engine.gauges().running, engine.gauges().waiting), (1, 2));
        assert!(engine.cancel(waiting) && !engine.cancel(waiting));
        assert_eq!(engine.gauges().waiting, 1);
        assert!(engine.cancel(running), "while it prefills");
        assert_eq!((engine.gauges().running, engine.gauges().kv_usage), (0, 0.0));
        let events = drain(&mut engine);
        assert!(matches!(events[..], [Event::Token { job, .. }, Event::Finished { .. }] if job == next), "{events:?}");
    }

    #[test]
    fn a_slowed_engine_takes_that_much_longer() {
        let mut engine = Engine::new(exact(), 1);
        engine.slow_down(4.0);
        let id = engine.submit(Moment::default(), job(100, 2)).unwrap();
        let at = moments(&drain(&mut engine), id);
        assert!((at[0] - 4.0 * exact().idle_ttft(100).as_secs_f64() * 1e3).abs() < 1.0);
    }

    #[test]
    fn a_job_submitted_late_to_the_engine_does_not_join_steps_of_the_past() {
        let mut engine = Engine::new(exact(), 1);
        engine.submit(Moment::default(), job(16, 2)).unwrap();
        let late = Moment::from_nanos(5 * SECOND);
        let id = engine.submit(late, job(16, 1)).unwrap();
        assert!(moments(&drain(&mut engine), id)[0] > 5_000.0);
    }

    /// Runs a busy engine over `jobs` requests in families with shared prefixes; returns the tokens it computed.
    fn busy(jobs: u64, seed: u64) -> (u64, Gauges) {
        let mut engine = Engine::new(Profile { kv_tokens: 60_000, ..Profile::small() }, seed);
        let mut dice = fastrand::Rng::with_seed(seed);
        let (mut now, mut tokens, mut finished) = (Moment::default(), 0, 0);
        let mut events = Vec::new();
        for own in 0..jobs {
            now = now.plus(Duration::from_millis(dice.u64(0..400)));
            engine.submit(now, prompt(dice.u64(0..20), 12, own, dice.u32(100..600), dice.u32(1..60))).unwrap();
            engine.advance(now, &mut events);
            tokens += events.iter().filter(|event| matches!(event, Event::Token { .. })).count() as u64;
            finished += events.drain(..).filter(|event| matches!(event, Event::Finished { .. })).count() as u64;
        }
        let rest = drain(&mut engine);
        tokens += rest.iter().filter(|event| matches!(event, Event::Token { .. })).count() as u64;
        finished += rest.iter().filter(|event| matches!(event, Event::Finished { .. })).count() as u64;
        assert_eq!(finished, jobs);
        (tokens, engine.gauges())
    }

    #[test]
    fn a_hundred_thousand_requests_are_soon_simulated_and_every_run_is_the_same() {
        let (tokens, gauges) = busy(100_000, 7);
        assert!(tokens > 2_500_000);
        assert_eq!((gauges.running, gauges.waiting, gauges.kv_usage), (0, 0, 0.0));
        assert_eq!(busy(2_000, 3), busy(2_000, 3));
    }

    #[derive(Clone, Debug)]
    enum Deed {
        Submit { wait_ms: u64, family: u64, shared: u64, prompt: u32, output: u32 },
        Cancel { which: usize },
        Advance { ms: u64 },
    }

    fn deeds() -> impl Strategy<Value = Vec<Deed>> {
        let submit = (0..200_u64, 0..3_u64, 0..20_u64, 0..500_u32, 0..80_u32).prop_map(
            |(wait_ms, family, shared, prompt, output)| Deed::Submit { wait_ms, family, shared, prompt, output },
        );
        let deed = prop_oneof![
            4 => submit,
            1 => (0..50_usize).prop_map(|which| Deed::Cancel { which }),
            2 => (0..500_u64).prop_map(|ms| Deed::Advance { ms }),
        ];
        proptest::collection::vec(deed, 1..60)
    }

    fn machine() -> impl Strategy<Value = Profile> {
        (1..700_u32, 1..12_u32, 600..4_000_u32).prop_map(|(chunk_tokens, max_sequences, kv_tokens)| Profile {
            chunk_tokens,
            max_sequences,
            kv_tokens,
            ..Profile::small()
        })
    }

    /// Applies the operations and checks the invariants after each; returns all events.
    fn perform(profile: Profile, deeds: &[Deed]) -> Result<Vec<Event>, TestCaseError> {
        let mut engine = Engine::new(profile, 5);
        let mut now = Moment::default();
        let mut jobs: Vec<(JobId, u32, u32)> = Vec::new();
        let mut cancelled = Vec::new();
        let mut events = Vec::new();
        for (own, deed) in deeds.iter().enumerate() {
            match *deed {
                Deed::Submit { wait_ms, family, shared, prompt: length, output } => {
                    now = now.plus(Duration::from_millis(wait_ms));
                    let id = engine.submit(now, prompt(family, shared, own as u64 + 1, length, output)).unwrap();
                    jobs.push((id, length, output));
                }
                Deed::Cancel { which } => {
                    if let Some((id, ..)) = jobs.get(which)
                        && engine.cancel(*id)
                    {
                        cancelled.push(*id);
                    }
                }
                Deed::Advance { ms } => {
                    now = now.plus(Duration::from_millis(ms));
                    engine.advance(now, &mut events);
                }
            }
            let gauges = engine.gauges();
            prop_assert!(gauges.kv_usage <= 1.0 && gauges.running <= profile.max_sequences);
            prop_assert!(gauges.prefix_hits <= gauges.prefix_queries);
            prop_assert!(engine.next_step_at().is_some() || gauges.running + gauges.waiting == 0, "work never stalls");
        }
        events.extend(drain(&mut engine));
        let gauges = engine.gauges();
        prop_assert_eq!((gauges.running, gauges.waiting, gauges.kv_usage), (0, 0, 0.0));
        let mut reported: HashMap<JobId, (u32, Option<u32>)> = HashMap::new();
        let mut last = Moment::default();
        for event in &events {
            prop_assert!(event.at() >= last, "events come in order of time");
            last = event.at();
            match *event {
                Event::Token { job, index, .. } => {
                    let (tokens, finished) = reported.entry(job).or_default();
                    prop_assert!(*tokens == index && finished.is_none());
                    *tokens += 1;
                }
                Event::Finished { job, cached_tokens, .. } => reported.entry(job).or_default().1 = Some(cached_tokens),
                Event::Preempted { .. } => {}
            }
        }
        for (id, length, output) in jobs {
            let (tokens, finished) = reported.get(&id).copied().unwrap_or_default();
            prop_assert!(finished.is_some() != cancelled.contains(&id), "each finishes or is cancelled");
            prop_assert!(finished.is_none() || tokens == output);
            prop_assert!(finished.unwrap_or(0) <= length);
        }
        Ok(events)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_is_lost_nothing_overflows_and_chance_is_repeatable(profile in machine(), deeds in deeds()) {
            prop_assert_eq!(perform(profile, &deeds)?, perform(profile, &deeds)?);
        }
    }

    #[test]
    fn jobs_without_hashes_share_one_empty_list() {
        assert!(Arc::ptr_eq(&Job::default().blocks, &Job::default().blocks));
    }
}
