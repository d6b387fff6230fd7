//! Embedders: a small static table for recall and a sentence model for the decision, both built in, and others by
//! configuration.

#![forbid(unsafe_code)]

#[cfg(feature = "embedder")]
mod built_in;
#[cfg(feature = "embedder")]
mod minilm;
#[cfg(not(feature = "embedder"))]
mod none;
#[cfg(feature = "fastembed")]
mod onnx;
#[cfg(feature = "embedder")]
mod static_table;
mod unit;
#[cfg(feature = "embedder")]
mod wordpiece;
mod worker;

#[cfg(not(feature = "embedder"))]
use none as built_in;

#[cfg(feature = "fastembed")]
pub use self::onnx::{Onnx, OnnxError};
pub use self::{
    built_in::{decider, reads_whole, recall},
    unit::normalise,
    worker::{Counts, Limits, Worker, WorkerError},
};

/// Reads `bytes` as a static table and as weights of a sentence model, and drops the results. An entry point for
/// fuzzers, which must never panic.
#[cfg(feature = "embedder")]
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_embed(bytes: &[u8]) {
    let _ = static_table::Rows::read(bytes.to_vec());
    let _ = minilm::Weights::read(bytes);
}
