//! Outgoing HTTP: requests to engines, their metrics, discovery, embeddings and tokenizer downloads.

pub mod address;
pub mod client;
pub mod discover;
pub mod embeddings;
mod loop_guard;
mod named_hosts;
pub mod resolve;
pub mod scrape;
pub mod tokenizers;

pub use client::{Client, SendError};
pub use embeddings::{Embeddings, EmbeddingsError, RemoteEmbedder};
pub use tokenizers::{Hub, Tokenizers};
