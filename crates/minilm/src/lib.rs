//! `MiniLM` in safe Rust: inference for a sentence model of six layers with int8 weights.
//!
//! all-MiniLM-L6-v2 (sentence-transformers): BERT (Devlin et al., 2018) distilled as in `MiniLM` (Wang et al., 2020).
//! Works on word pieces rather than text and returns a vector. It is a separate package so that test builds can
//! optimise it alone.

#![forbid(unsafe_code)]
#![expect(
    clippy::inline_always,
    reason = "code called by a function for one instruction set is compiled for that set only if it is inlined"
)]

mod arithmetic;
mod attention;
pub mod data;
mod engine;
mod packed;
mod weights;

pub use self::{
    engine::{Engine, Scratch},
    weights::{Weights, WeightsError},
};
