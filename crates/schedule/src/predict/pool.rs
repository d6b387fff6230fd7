//! Predictors of a pool and its backends, shared between threads.

use parking_lot::Mutex;

use super::{
    learner::{Learned, Learner, Pace, Prediction, Track, measured},
    queue_wait::QueueWait,
    score::Accuracy,
    slot_wait::SlotWait,
    tpot::{self, Batch},
    ttft::{self, Features},
};
use signalbox_types::Moment;

/// The 90th percentile of a delay, as a multiple of its mean.
const UNCERTAIN: f64 = 1.5;

/// The pool's common model. Locks are held for about a microsecond by observations, and for the copy in
/// [`PoolPredictor::model`].
#[derive(Debug)]
pub struct PoolPredictor {
    ttft: Mutex<Learner<{ ttft::TERMS }, { ttft::CLASSES }>>,
    tpot: Mutex<Learner<{ tpot::TERMS }, { tpot::CLASSES }>>,
}

/// One backend's deviation from its pool. Its locks are held for some nanoseconds.
#[derive(Debug)]
pub struct BackendPredictor {
    ttft: Mutex<FirstToken>,
    tpot: Mutex<Track>,
}

/// One backend's state for first tokens.
#[derive(Debug)]
struct FirstToken {
    track: Track,
    slot_wait: SlotWait,
    queue_wait: QueueWait,
}

/// Predicted work and wait of a request on a backend.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Ahead {
    /// Time to its first token.
    pub ttft: Prediction,
    /// Seconds that its uncached tokens take without load.
    pub prefill: f64,
    /// Wait for one of the engine's slots, as prompt tokens that the engine could compute meanwhile; 0 where one is
    /// free or the number is unknown.
    pub slot_tokens: f64,
    /// Seconds until the engine starts on it, if it computes one prompt after another.
    pub wait: f64,
}

/// A pool's learned state at one moment, as a copy for all candidates of a decision.
#[derive(Copy, Clone, Debug)]
pub struct Model {
    ttft: Learned<{ ttft::TERMS }, { ttft::CLASSES }>,
    tpot: Learned<{ tpot::TERMS }, { tpot::CLASSES }>,
}

/// A request that waits for its first token on a backend, or was abandoned before it: a censored observation.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Waiting {
    /// Seconds since its dispatch.
    pub age: f64,
    /// Prediction at its dispatch.
    pub prediction: Prediction,
}

// === impl Ahead ===

impl Ahead {
    /// The same after a delay of `seconds` that has nothing to do with the engine's speed.
    #[must_use]
    pub fn delayed(self, seconds: f64) -> Self {
        let Prediction { seconds: median, p90, .. } = self.ttft;
        let ttft = Prediction { seconds: median + seconds, p90: p90 + UNCERTAIN * seconds, ..self.ttft };
        Self { ttft, ..self }
    }
}

// === impl Waiting ===

impl Waiting {
    /// Lower bound of the backend's slowness, if the wait is no accident: the slowness at which the wait would just be
    /// within the predicted 90th percentile. 0 where the wait is no evidence.
    pub fn speed(&self) -> f64 {
        self.prediction.speed_implied_by(self.age)
    }
}

// === impl PoolPredictor ===

impl PoolPredictor {
    /// Starts from a general prior of engines.
    pub fn new() -> Self {
        Self {
            ttft: Mutex::new(Learner::new(ttft::PRIOR, ttft::SPREAD)),
            tpot: Mutex::new(Learner::new(tpot::PRIOR, tpot::SPREAD)),
        }
    }

    /// Copies the current state.
    pub fn model(&self) -> Model {
        Model { ttft: self.ttft.lock().learned(), tpot: self.tpot.lock().learned() }
    }

    /// Learns that the first token of a request came `seconds` after its dispatch to `backend`, given its features and
    /// its prediction at dispatch.
    pub fn observe_ttft(
        &self,
        backend: &BackendPredictor,
        features: &Features,
        prediction: &Prediction,
        seconds: f64,
        now: Moment,
    ) {
        let Some(seconds) = measured(seconds) else { return };
        let slot_wait = backend.ttft.lock().slot_wait.factor(now);
        // The speed concerns computation for the request. The wait for a slot is expressed in the engine's own time.
        let speed = prediction.learned;
        let (trust, rest, alone, wait) = {
            let mut learner = self.ttft.lock();
            let coefficients = learner.coefficients();
            let terms = features.with_slot_wait(slot_wait / speed).terms(coefficients);
            let sum = |until: usize| terms.iter().zip(coefficients).take(until).map(|(x, each)| x * each).sum::<f64>();
            let wait = ttft::waiting(&terms, coefficients);
            let (rest, alone) = (sum(ttft::SLOTS), sum(ttft::TERMS) - wait);
            (learner.observe(&terms, prediction, seconds), rest, alone, wait)
        };
        let mut own = backend.ttft.lock();
        own.track.observe(prediction, seconds, trust, now);
        own.slot_wait.observe(features.slots, seconds - speed * rest, trust, now);
        own.queue_wait.observe(speed * wait, seconds - speed * alone, now);
    }

    /// Learns that an answer of `tokens` tokens took `seconds` per token after the first, given its batch and its
    /// prediction. Ignores answers of fewer than five tokens.
    pub fn observe_tpot(
        &self,
        backend: &BackendPredictor,
        batch: &Batch,
        prediction: &Prediction,
        (seconds, tokens): (f64, u64),
        now: Moment,
    ) {
        let Some(seconds) = measured(seconds).filter(|_| tokens >= tpot::FEWEST_TOKENS) else { return };
        let trust = self.tpot.lock().observe(&batch.terms(), prediction, seconds);
        backend.tpot.lock().observe(prediction, seconds, trust * tpot::NOVELTY, now);
    }

    /// Accuracy of recent predictions of the time to first token; `None` before the first.
    pub fn ttft_accuracy(&self) -> Option<Accuracy> {
        self.ttft.lock().accuracy()
    }

    /// Accuracy of recent predictions of the time per token; `None` before the first.
    pub fn tpot_accuracy(&self) -> Option<Accuracy> {
        self.tpot.lock().accuracy()
    }
}

impl Default for PoolPredictor {
    fn default() -> Self {
        Self::new()
    }
}

// === impl BackendPredictor ===

impl BackendPredictor {
    /// Starts as fast as its pool.
    pub fn new() -> Self {
        let first = FirstToken {
            track: Track::new(ttft::LEAST_SECONDS),
            slot_wait: SlotWait::default(),
            queue_wait: QueueWait::default(),
        };
        Self { ttft: Mutex::new(first), tpot: Mutex::new(Track::new(tpot::LEAST_SECONDS)) }
    }

    /// Its speed, and the learned factor on the expected wait for slots.
    fn first_token(&self, now: Moment) -> (Pace, f64) {
        let own = self.ttft.lock();
        (own.track.pace(now), own.slot_wait.factor(now))
    }

    /// Part of a predicted [wait](Ahead::wait) that its first tokens have proven, both in seconds; 0 where prompts are
    /// computed side by side, or nothing is known.
    pub fn proven_wait(&self, seconds: f64, now: Moment) -> f64 {
        self.ttft.lock().queue_wait.proven(seconds, now)
    }
}

impl Default for BackendPredictor {
    fn default() -> Self {
        Self::new()
    }
}

// === impl Model ===

impl Model {
    /// Predicts the time to first token of a request with `features` on `backend`.
    ///
    /// Where a request `waiting` there exceeds its predicted 90th percentile, the backend is assumed to be at least as
    /// slow as that indicates, whatever was learned: a stall shows before anything completes. No stored state changes,
    /// so the call may be repeated.
    pub fn ttft(
        &self,
        backend: &BackendPredictor,
        features: &Features,
        waiting: Option<&Waiting>,
        now: Moment,
    ) -> Prediction {
        self.ahead(backend, features, waiting.map_or(0.0, Waiting::speed), now).ttft
    }

    /// Like [`Model::ttft`], with all components. `slower` is the slowness that waiting requests indicate
    /// ([`Waiting::speed`]), 0 without any.
    pub fn ahead(&self, backend: &BackendPredictor, features: &Features, slower: f64, now: Moment) -> Ahead {
        let (pace, slot_wait) = backend.first_token(now);
        let coefficients = &self.ttft.coefficients;
        let wait = features.with_slot_wait(slot_wait);
        let waits = wait.slots > 0.0;
        let mut terms = wait.terms(coefficients);
        if waits {
            terms = features.with_slot_wait(slot_wait / self.ttft.speed(&terms, &pace)).terms(coefficients);
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

    /// Predicts the time per token of an answer that is decoded in `batch` on `backend`.
    pub fn tpot(&self, backend: &BackendPredictor, batch: &Batch, now: Moment) -> Prediction {
        let pace = backend.tpot.lock().pace(now);
        self.tpot.predict(&batch.terms(), 0, &pace, 0.0)
    }

    /// Probability that the first token comes within `limit` seconds.
    pub fn ttft_within(&self, limit: f64, prediction: &Prediction) -> f64 {
        self.ttft.within(limit, prediction)
    }

    /// Probability that the time per token is at most `limit` seconds.
    pub fn tpot_within(&self, limit: f64, prediction: &Prediction) -> f64 {
        self.tpot.within(limit, prediction)
    }

    /// Seconds within which the first token comes with probability `level` at the backend's learned speed, without
    /// evidence from waiting requests.
    pub fn ttft_quantile(&self, level: f64, prediction: &Prediction) -> f64 {
        self.ttft.quantile(level, prediction)
    }
}

#[cfg(test)]
mod side_by_side_tests;
#[cfg(test)]
mod tests;
