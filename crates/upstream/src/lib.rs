//! Outgoing HTTP: requests to engines, their metrics, discovery, embeddings and tokenizer downloads.

#![forbid(unsafe_code)]

pub mod address;
mod answer_body;
pub mod client;
mod decoded;
mod direct;
pub mod discover;
pub mod embeddings;
mod engine_access;
pub mod headers;
mod loop_guard;
pub mod outgoing;
mod own_clients;
mod received_body;
pub mod resolve;
pub mod scrape;
pub mod tokenizers;

pub use answer_body::AnswerBody;
pub use client::Client;
#[cfg(any(test, feature = "fuzzing"))]
pub use direct::fuzz_http_answer;
pub use embeddings::{Embeddings, EmbeddingsError, RemoteEmbedder};
pub use engine_access::EngineAccess;
pub use outgoing::SendError;
pub use own_clients::SetUpError;
pub use received_body::BodyError;
pub use tokenizers::{Hub, Tokenizers};
