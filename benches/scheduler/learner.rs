//! Predictions of times to first token, by the gateway's predictor, for the account of the baselines.

use std::time::Duration;

use signalbox::{
    schedule::{
        hedge::{Alternative, Awaited},
        predict::{Ahead, BackendPredictor, Features, PoolPredictor, Prediction, Waiting},
    },
    sim::{Job, cluster::AttemptId},
    types::Moment,
};

use crate::account::Known;

/// One part in this many of a KV cache is not counted on.
const KV_SPARE: u64 = 20;

/// The predictor, and what it predicted of attempts.
pub(crate) struct Learner {
    pool: PoolPredictor,
    engines: Vec<BackendPredictor>,
    /// By attempt.
    sent: Vec<(Moment, Features, Prediction)>,
    /// By engine: streamed attempts without a first token, oldest first, and whole ones with the time at which their prompt is
    /// presumably computed.
    waiting: Vec<Vec<AttemptId>>,
    whole: Vec<Vec<(Moment, u64)>>,
}

impl Learner {
    pub(crate) fn new(engines: usize) -> Self {
        Self {
            pool: PoolPredictor::new(),
            engines: (0..engines).map(|_| BackendPredictor::new()).collect(),
            sent: Vec::new(),
            waiting: vec![Vec::new(); engines],
            whole: vec![Vec::new(); engines],
        }
    }

    /// The work ahead of `job` on an engine, and the prediction.
    pub(crate) fn ahead(&self, now: Moment, known: &Known, job: &Job) -> (Features, Ahead) {
        let prompt = u64::from(job.prompt_tokens).max(1);
        let whole = self.whole[known.engine].iter().filter(|(until, _)| *until > now).map(|(_, tokens)| tokens);
        let queued = known.streamed + whole.sum::<u64>();
        let room = known.kv_tokens - known.kv_tokens / KV_SPARE;
        let features = Features {
            uncached: prompt.saturating_sub(known.matched(job)).max(1),
            queued,
            prompt,
            decoding: known.in_flight - known.waiting,
            overflow: (known.context + prompt).saturating_sub(room),
            progress: if known.streamed > 0 { now.seconds_since(known.started) } else { 0.0 },
            ..Features::default()
        };
        let oldest = self.waiting[known.engine].first().map(|&attempt| self.sent[attempt as usize]);
        let slower =
            oldest.map_or(0.0, |(at, _, prediction)| Waiting { age: now.seconds_since(at), prediction }.speed());
        (features, self.pool.model().ahead(&self.engines[known.engine], &features, slower, now))
    }

    /// Part of a predicted wait on an engine that its first tokens have proven.
    pub(crate) fn proven_wait(&self, engine: usize, wait: f64, now: Moment) -> f64 {
        self.engines[engine].proven_wait(wait, now)
    }

    /// Records an attempt, before the account does. Returns the first token that is awaited.
    pub(crate) fn sent(&mut self, now: Moment, known: &Known, job: &Job, streamed: bool) -> Awaited {
        let (features, Ahead { ttft, .. }) = self.ahead(now, known, job);
        let attempt = self.sent.len() as AttemptId;
        self.sent.push((now, features, ttft));
        if streamed {
            self.waiting[known.engine].push(attempt);
        } else {
            let whole = &mut self.whole[known.engine];
            whole.retain(|(until, _)| *until > now);
            whole.push((now.plus(Duration::from_secs_f64(ttft.seconds.clamp(0.0, 1e6))), features.uncached));
        }
        let model = self.pool.model();
        let [p95, p99] = [0.95, 0.99].map(|level| model.ttft_quantile(level, &ttft));
        Awaited { dispatched: now, p95, p99 }
    }

    /// Learns from a first token.
    pub(crate) fn first_token(&mut self, attempt: AttemptId, engine: usize, seconds: f64, now: Moment) {
        self.waiting[engine].retain(|&waiting| waiting != attempt);
        let (_, features, prediction) = &self.sent[attempt as usize];
        self.pool.observe_ttft(&self.engines[engine], features, prediction, seconds, now);
    }

    /// Records the end of an attempt.
    pub(crate) fn ended(&mut self, attempt: AttemptId, engine: usize) {
        self.waiting[engine].retain(|&waiting| waiting != attempt);
    }

    /// The engine as another one for a hedge.
    pub(crate) fn alternative(&self, now: Moment, known: &Known, job: &Job) -> Alternative {
        let (features, Ahead { ttft, .. }) = self.ahead(now, known, job);
        Alternative { ttft: ttft.seconds, uncached: features.uncached }
    }
}
