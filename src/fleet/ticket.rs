//! The guard that rides in an answer's body: while it lives, its request counts as load on its engine.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use super::{
    Backend, PoolLearned,
    ledger::{Entry, Work},
};
use crate::{
    prompt::Blocks,
    schedule::{
        predict::{Batch, Features, Prediction},
        prefix::Reuse,
    },
    types::{Moment, Usage},
};

/// What was expected of a request when its backend was chosen; what it turns out to be is learned from.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Forecast {
    /// What it asks of the engine.
    pub work: Work,
    /// What its time to the first token was predicted from.
    pub features: Features,
    /// What its answer will be decoded together with.
    pub batch: Batch,
    /// Its time per token.
    pub tpot: Prediction,
}

/// A request's place on an engine. Taken before the first await of an attempt and held until its answer ends, fails, or its
/// client leaves. Dropping it releases whatever it still holds; it knows no time and awaits nothing.
#[derive(Debug)]
pub struct Ticket {
    backend: Arc<Backend>,
    pool: Arc<PoolLearned>,
    forecast: Forecast,
    entry: Entry,
    blocks: Blocks,
    reuse: Reuse,
    taken: Moment,
    decoding: bool,
}

impl Ticket {
    /// Counts a request as in flight on `backend` of a pool, as it was forecast.
    pub fn take(
        pool: Arc<PoolLearned>,
        backend: Arc<Backend>,
        forecast: Forecast,
        blocks: Blocks,
        now: Moment,
    ) -> Self {
        let entry = backend.engine.load.enter(forecast.work, now);
        let reuse = backend.learned.prefixes.insert(backend.learned.holder, blocks.prompt());
        backend.load.in_flight.fetch_add(1, Relaxed);
        backend.load.queued_tokens.fetch_add(forecast.work.uncached_tokens, Relaxed);
        Self { backend, pool, forecast, entry, blocks, reuse, taken: now, decoding: false }
    }

    /// What was expected of it.
    pub fn forecast(&self) -> &Forecast {
        &self.forecast
    }

    /// The first token came: the prompt is no longer queued, the request decodes. Later calls change nothing.
    pub fn first_token(&mut self, now: Moment) {
        if std::mem::replace(&mut self.decoding, true) {
            return;
        }
        let Work { uncached_tokens, prompt_tokens, prediction, .. } = self.forecast.work;
        self.backend.engine.load.first_token(&self.entry, now);
        let load = &self.backend.load;
        load.queued_tokens.fetch_sub(uncached_tokens, Relaxed);
        load.decoding.fetch_add(1, Relaxed);
        load.context_tokens.fetch_add(prompt_tokens, Relaxed);
        let learned = &self.backend.learned;
        learned.prefixes.confirm(self.blocks.prompt(), &self.reuse);
        let seconds = now.since(self.taken).as_secs_f64();
        self.pool.predictor.observe_ttft(&learned.predictor, &self.forecast.features, &prediction, seconds, now);
    }

    /// The answer is complete. `usage` is what the engine reported of it, `tpot` the seconds per token after the first, where
    /// that could be measured.
    pub fn finish(mut self, usage: Option<&Usage>, tpot: Option<f64>, now: Moment) {
        if !self.decoding {
            // An answer that came whole: its prompt was computed, when is not known.
            self.decoding = true;
            self.backend.load.queued_tokens.fetch_sub(self.forecast.work.uncached_tokens, Relaxed);
            self.backend.load.decoding.fetch_add(1, Relaxed);
            self.backend.load.context_tokens.fetch_add(self.forecast.work.prompt_tokens, Relaxed);
            self.backend.learned.prefixes.confirm(self.blocks.prompt(), &self.reuse);
        }
        let Some(usage) = usage else { return };
        if let Some(tpot) = tpot {
            let measured = (tpot, usage.completion_tokens);
            let (batch, predicted) = (&self.forecast.batch, &self.forecast.tpot);
            self.pool.predictor.observe_tpot(&self.backend.learned.predictor, batch, predicted, measured, now);
            self.pool.observe_step(tpot);
        }
        self.pool.outputs.observe(usage.completion_tokens);
        let prompt = self.blocks.prompt();
        if let (Some(cached), true) = (usage.cached_tokens, usage.prompt_tokens > 0) {
            let share = (cached as f64 / usage.prompt_tokens as f64).min(1.0);
            let blocks = prompt.layout.blocks((prompt.bytes as f64 * share).round() as u64);
            self.backend.learned.prefixes.correct(prompt, &self.reuse, blocks as u32);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.backend.engine.load.leave(&self.entry);
        let load = &self.backend.load;
        if self.decoding {
            load.decoding.fetch_sub(1, Relaxed);
            load.context_tokens.fetch_sub(self.forecast.work.prompt_tokens, Relaxed);
        } else {
            load.queued_tokens.fetch_sub(self.forecast.work.uncached_tokens, Relaxed);
            self.backend.learned.prefixes.withdraw(self.blocks.prompt(), &self.reuse);
        }
        load.in_flight.fetch_sub(1, Relaxed);
    }
}
