//! Wire formats: requests and answers, read lazily from their original bytes.

pub mod answer;
mod anthropic;
pub mod canonical;
mod demanded;
mod draft;
pub mod error;
mod head;
pub mod json;
mod json_schema;
pub mod multipart;
pub mod objects;
mod openai;
mod other_models;
pub mod outline;
mod refusal;
pub mod request;
mod responses;
pub mod rest;
mod seen;
mod splice;
pub mod sse;
mod trace_context;
mod transcript;
pub mod verdict;
mod walk;
mod wanted;

/// Longer bodies, in bytes, are parsed on a separate thread: they would occupy a worker for more than a quarter of a
/// millisecond.
pub const LONG_BODY: usize = 128 << 10;

pub use canonical::Canonical;
pub use draft::{Draft, Said};
pub use request::RequestBody;
pub use seen::{Seen, StreamError};
pub use sse::{Event, Splitter};
pub use trace_context::TraceContext;
pub use transcript::{Gathering, Parts, Transcript, Unkept};
pub use wanted::Wanted;
