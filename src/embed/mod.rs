//! Embedders: a small static table for recall and a sentence model for the decision, both built in, and others by
//! configuration.

mod built_in;
mod minilm;
#[cfg(feature = "fastembed")]
mod onnx;
mod static_table;
mod unit;
mod wordpiece;
mod worker;

#[cfg(feature = "fastembed")]
pub use self::onnx::{Onnx, OnnxError};
pub use self::{
    built_in::{decider, reads_whole, recall},
    unit::normalise,
    worker::{Counts, Limits, Worker, WorkerError},
};

/// Reads `bytes` as a static table and as weights of a sentence model, and drops the results. An entry point for
/// fuzzers, which must never panic.
pub fn fuzz_embed(bytes: &[u8]) {
    let _ = static_table::Rows::read(bytes.to_vec().into());
    let _ = minilm::Weights::read(bytes);
}
