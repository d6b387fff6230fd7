//! What can be told of a prompt from its bytes, before any model has read it. Pure, and one pass over the bytes.

mod blocks;
pub mod complexity;
pub mod habits;
pub mod tokens;

pub use blocks::{BlockHasher, Blocks};
