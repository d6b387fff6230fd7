//! Wire formats: requests and answers, read lazily from their original bytes.

#![forbid(unsafe_code)]

pub mod answer;
mod answer_model;
mod anthropic;
pub mod canonical;
pub mod continuation;
mod demand;
mod deployment;
pub mod edits;
mod embeddings;
pub mod encoding;
pub mod engine_error;
pub mod error;
mod event_facts;
pub mod event_reader;
mod finish;
mod head;
pub mod json;
mod json_schema;
pub mod multipart;
pub mod objects;
mod openai;
pub mod outline;
mod partial_answer;
mod propagation;
mod refusal;
pub mod request;
mod requirements;
mod responses;
pub mod sse;
mod token_ids;
mod trace_context;
pub mod transcript;
pub mod usage;
pub mod verdict;
mod walk;

/// Longer bodies, in bytes, are parsed on a separate thread: they would occupy a worker for more than a quarter of a
/// millisecond.
pub const LONG_BODY: usize = 128 << 10;

pub use answer_model::with_model;
pub use canonical::Canonical;
pub use edits::Edits;
pub use embeddings::EmbeddingsRequest;
pub use engine_error::{EngineError, ErrorForm};
pub use event_facts::EventFacts;
pub use event_reader::EventReader;
pub use finish::Finish;
pub use partial_answer::{AnswerContent, PartialAnswer};
pub use propagation::{CallerTrace, Propagator};
pub use request::RequestBody;
pub use requirements::AnswerRequirements;
pub use sse::{Event, Splitter};
pub use trace_context::TraceContext;
pub use transcript::{Parts, Transcript, TranscriptBuilder, Uncacheable, events_of_whole, whole_of_events};
pub use usage::UsageReport;
