//! Answers that are given again: which requests may share one, which one is near enough, and how sure that is.
//!
//! Nothing here does I/O, starts a task or reads a clock. What makes vectors and what stores records stand above, behind traits.

pub mod confidence;
mod embedder;
pub mod evidence;
pub mod guard;
pub mod index;
pub mod replay;

pub use self::embedder::{EmbedError, Embedder};
