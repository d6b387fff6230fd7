//! What a pool and its backends know of their speed, shared between threads.

use std::sync::Mutex;

use super::{
    learner::{Learned, Learner, Pace, Prediction, Track, measured},
    score::Accuracy,
    stay::Stay,
    tpot::{self, Batch},
    ttft::{self, Features},
};
use crate::{measure::lock, types::Moment};

/// What the backends of a pool have in common. Locks are held for about a microsecond by observations, and to copy by
/// [`PoolPredictor::model`].
#[derive(Debug)]
pub struct PoolPredictor {
    ttft: Mutex<Learner<{ ttft::TERMS }, { ttft::CLASSES }>>,
    tpot: Mutex<Learner<{ tpot::TERMS }, { tpot::CLASSES }>>,
}

/// What one backend has of its own. Its locks are held for some nanoseconds.
#[derive(Debug)]
pub struct BackendPredictor {
    ttft: Mutex<FirstToken>,
    tpot: Mutex<Track>,
}

/// What one backend has of its own about first tokens.
#[derive(Debug)]
struct FirstToken {
    track: Track,
    stay: Stay,
}

/// What a request finds before it on a backend.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Ahead {
    /// The time to its first token.
    pub ttft: Prediction,
    /// The seconds that its uncached tokens would take by themselves.
    pub prefill: f64,
    /// The wait for one of the engine's slots, as tokens of its prompt that the engine could compute meanwhile; 0 where one is free,
    /// or none are known.
    pub slot_tokens: f64,
    /// The seconds until the engine begins with it.
    pub wait: f64,
}

/// What a pool knows at one moment: a copy, for all candidates of a decision.
#[derive(Copy, Clone, Debug)]
pub struct Model {
    ttft: Learned<{ ttft::TERMS }, { ttft::CLASSES }>,
    tpot: Learned<{ tpot::TERMS }, { tpot::CLASSES }>,
}

/// A request that waits for its first token on a backend, or has waited in vain: a censored observation.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Waiting {
    /// Seconds since it was dispatched.
    pub age: f64,
    /// What was predicted for it then.
    pub prediction: Prediction,
}

// === impl Waiting ===

impl Waiting {
    /// How slow its backend is at least, beside its pool, should this be no accident: the speed at which the wait would just be within
    /// the 90th percentile predicted for it. 0 where it tells nothing.
    pub fn speed(&self) -> f64 {
        self.prediction.speed_implied_by(self.age)
    }
}

// === impl PoolPredictor ===

impl PoolPredictor {
    /// Knows what engines are like in general.
    pub fn new() -> Self {
        Self {
            ttft: Mutex::new(Learner::new(ttft::PRIOR, ttft::SPREAD)),
            tpot: Mutex::new(Learner::new(tpot::PRIOR, tpot::SPREAD)),
        }
    }

    /// What it knows now.
    pub fn model(&self) -> Model {
        Model { ttft: lock(&self.ttft).learned(), tpot: lock(&self.tpot).learned() }
    }

    /// Learns that the first token of a request came `seconds` after it was dispatched to `backend`; with its features and what
    /// was predicted for it at dispatch.
    pub fn observe_ttft(
        &self,
        backend: &BackendPredictor,
        features: &Features,
        prediction: &Prediction,
        seconds: f64,
        now: Moment,
    ) {
        let Some(seconds) = measured(seconds) else { return };
        let stay = lock(&backend.ttft).stay.factor(now);
        // Its speed is of what the engine computes for the request; the wait for a slot is told in the engine's own time.
        let speed = prediction.learned;
        let (trust, rest) = {
            let mut learner = lock(&self.ttft);
            let coefficients = learner.coefficients();
            let terms = features.staying(stay / speed).terms(coefficients);
            let rest: f64 = terms.iter().zip(coefficients).take(ttft::SLOTS).map(|(x, each)| x * each).sum();
            (learner.observe(&terms, prediction, seconds), rest)
        };
        let mut own = lock(&backend.ttft);
        own.track.observe(prediction, seconds, trust, now);
        own.stay.observe(features.slots, seconds - speed * rest, trust, now);
    }

    /// Learns that an answer of `tokens` tokens came at `seconds` per token after the first; with what it was decoded together
    /// with and what was predicted for it. Answers of fewer than five tokens teach nothing.
    pub fn observe_tpot(
        &self,
        backend: &BackendPredictor,
        batch: &Batch,
        prediction: &Prediction,
        (seconds, tokens): (f64, u64),
        now: Moment,
    ) {
        let Some(seconds) = measured(seconds).filter(|_| tokens >= tpot::FEWEST_TOKENS) else { return };
        let trust = lock(&self.tpot).observe(&batch.terms(), prediction, seconds);
        lock(&backend.tpot).observe(prediction, seconds, trust * tpot::NOVELTY, now);
    }

    /// How good recent predictions of times to the first token were; `None` before there were any.
    pub fn ttft_accuracy(&self) -> Option<Accuracy> {
        lock(&self.ttft).accuracy()
    }

    /// How good recent predictions of times per token were; `None` before there were any.
    pub fn tpot_accuracy(&self) -> Option<Accuracy> {
        lock(&self.tpot).accuracy()
    }
}

impl Default for PoolPredictor {
    fn default() -> Self {
        Self::new()
    }
}

// === impl BackendPredictor ===

impl BackendPredictor {
    /// As fast as its pool.
    pub fn new() -> Self {
        let first = FirstToken { track: Track::new(ttft::LEAST_SECONDS), stay: Stay::default() };
        Self { ttft: Mutex::new(first), tpot: Mutex::new(Track::new(tpot::LEAST_SECONDS)) }
    }

    /// Its pace, and how many times as long as expected requests wait for its engine's slots.
    fn first_token(&self, now: Moment) -> (Pace, f64) {
        let own = lock(&self.ttft);
        (own.track.pace(now), own.stay.factor(now))
    }
}

impl Default for BackendPredictor {
    fn default() -> Self {
        Self::new()
    }
}

// === impl Model ===

impl Model {
    /// The time to the first token of a request with `features` on `backend`.
    ///
    /// Where a request `waiting` there is later than the 90th percentile predicted for it, the backend is taken to be
    /// at least as slow as that tells, whatever was learned of it: a stall shows before anything completes. This changes
    /// nothing that is kept, so it may be asked again and again.
    pub fn ttft(
        &self,
        backend: &BackendPredictor,
        features: &Features,
        waiting: Option<&Waiting>,
        now: Moment,
    ) -> Prediction {
        self.ahead(backend, features, waiting.map_or(0.0, Waiting::speed), now).ttft
    }

    /// The same, and what it is made of; `slower` is the speed of a request that waits there ([`Waiting::speed`]), 0 where none does.
    pub fn ahead(&self, backend: &BackendPredictor, features: &Features, slower: f64, now: Moment) -> Ahead {
        let (pace, stay) = backend.first_token(now);
        let coefficients = &self.ttft.coefficients;
        let wait = features.staying(stay);
        let waits = wait.slots > 0.0;
        let mut terms = wait.terms(coefficients);
        if waits {
            terms = features.staying(stay / self.ttft.speed(&terms, &pace)).terms(coefficients);
        }
        let ttft = self.ttft.predict(&terms, wait.class(), &pace, slower);
        let alone = Features { uncached: features.uncached, prompt: features.prompt, ..Features::default() };
        let alone_terms = alone.terms(coefficients);
        let prefill = self.ttft.seconds(&alone_terms, alone.class(), &pace);
        let slot_tokens = if waits {
            let pools = prefill / self.ttft.speed(&alone_terms, &pace);
            wait.slots * coefficients[ttft::SLOTS] / ttft.speed * features.uncached as f64 / pools
        } else {
            0.0
        };
        let wait = ttft.speed * ttft::waiting(&terms, coefficients);
        Ahead { ttft, prefill, slot_tokens, wait }
    }

    /// The time per token of an answer that is decoded in `batch` on `backend`.
    pub fn tpot(&self, backend: &BackendPredictor, batch: &Batch, now: Moment) -> Prediction {
        let pace = lock(&backend.tpot).pace(now);
        self.tpot.predict(&batch.terms(), 0, &pace, 0.0)
    }

    /// The chance that the first token comes within `limit` seconds.
    pub fn ttft_within(&self, limit: f64, prediction: &Prediction) -> f64 {
        self.ttft.within(limit, prediction)
    }

    /// The chance that tokens take at most `limit` seconds each.
    pub fn tpot_within(&self, limit: f64, prediction: &Prediction) -> f64 {
        self.tpot.within(limit, prediction)
    }

    /// The seconds within which the first token comes with the chance `level`, were the backend as fast as it was learned to be,
    /// whatever those who wait there make one doubt.
    pub fn ttft_quantile(&self, level: f64, prediction: &Prediction) -> f64 {
        self.ttft.quantile(level, prediction)
    }
}

#[cfg(test)]
mod tests;
