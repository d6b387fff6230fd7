//! How long a request will take on each backend, learned from those before it: time to the first token, time per further
//! token, and how long the answer will be.
//!
//! A pool's backends run the same kind of engine, so they share one linear model of the work ahead ([`PoolPredictor`]); what is
//! a backend's own is how fast it works beside the others ([`BackendPredictor`]). Linear models of tokens waiting know what an
//! average of past latencies cannot: that this prompt is long, and that this backend's queue is short. How far to trust them is
//! read from their own residuals.
//!
//! At each decision take one [`Model`] with [`PoolPredictor::model`], which is a copy, and ask it for every candidate. Keep the
//! [`Features`] and the [`Prediction`] of the chosen one with the request, and hand them back with what was measured.
//!
//! ```
//! use signalbox::{schedule::predict::{BackendPredictor, Features, PoolPredictor}, types::Moment};
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
mod residuals;
mod score;
mod speed;
mod stay;
mod tpot;
mod ttft;

pub use self::{
    learner::Prediction,
    output::{OutputForecast, OutputLengths},
    output_score::{OutputAccuracy, OutputScore},
    pool::{Ahead, BackendPredictor, Model, PoolPredictor, Waiting},
    score::Accuracy,
    tpot::{Batch, FEWEST_TOKENS},
    ttft::Features,
};
