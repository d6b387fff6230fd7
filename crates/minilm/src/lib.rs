//! `MiniLM` in safe Rust: the arithmetic of a sentence model of six layers over int8 weights.
//!
//! all-MiniLM-L6-v2 (sentence-transformers): BERT (Devlin et al., 2018) distilled as in `MiniLM` (Wang et al., 2020). It knows nothing of
//! texts: word pieces in, a vector out. A package of its own, so that builds for tests optimise it, and it alone.

#![forbid(unsafe_code)]
#![expect(
    clippy::inline_always,
    reason = "what is called by a function for one instruction set is compiled for that set only where it is inlined"
)]

mod arithmetic;
mod attention;
mod engine;
mod packed;
mod weights;

pub use self::{
    engine::{Engine, Scratch},
    weights::{Weights, WeightsError},
};
