//! Analyses a prompt's bytes before any model has read it: block hashes, complexity, prefix stability and token counts.
//! Pure, in one pass over the bytes.

#![forbid(unsafe_code)]

pub mod attachments;
mod blocks;
pub mod complexity;
pub mod prefix_stability;
pub mod tokens;

pub use blocks::{BlockHasher, Blocks};
