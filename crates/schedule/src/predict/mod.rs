//! Predictions learned from earlier requests: time to first token, time per further token, and answer length.
//!
//! A pool's backends run the same kind of engine, so they share one linear model of the work ahead ([`PoolPredictor`]).
//! Each backend adds its speed relative to the others ([`BackendPredictor`]). Unlike an average of past latencies, a
//! linear model of waiting tokens accounts for a long prompt and for a short queue. Its own residuals show how far to
//! trust it.
//!
//! For each decision take one [`Model`] with [`PoolPredictor::model`], which is a copy, and query it for every
//! candidate. Keep the [`Features`] and the [`Prediction`] of the chosen one with the request, and pass them back with
//! the measurement.
//!
//! ```
//! use signalbox_schedule::predict::{BackendPredictor, Features, PoolPredictor};
//! use signalbox_types::Moment;
//!
//! let (pool, backend, now) = (PoolPredictor::new(), BackendPredictor::new(), Moment::default());
//! let features = Features { uncached: 2_000, prompt: 2_000, ..Features::default() };
//! let model = pool.model();
//! let prediction = model.ttft(&backend, &features, None, now);
//! assert!(prediction.seconds < prediction.p90 && model.ttft_within(2.0, &prediction) > 0.5);
//! pool.observe_ttft(&backend, &features, &prediction, 0.7, now);
//! ```

mod learner;
mod output;
mod output_score;
mod pool;
mod queue_wait;
mod residuals;
mod score;
mod slot_wait;
mod speed;
mod tpot;
mod ttft;

pub use self::{
    learner::Prediction,
    output::{OutputForecast, OutputLengths},
    output_score::{OutputAccuracy, OutputScore},
    pool::{Ahead, BackendPredictor, Model, PoolPredictor, Waiting},
    score::Accuracy,
    tpot::Batch,
    ttft::Features,
};
