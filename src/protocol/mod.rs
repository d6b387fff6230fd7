//! The wire: what requests and answers look like, read lazily over the bytes they came in.

pub mod answer;
mod anthropic;
pub mod error;
pub mod json;
pub mod multipart;
mod openai;
pub mod outline;
pub mod request;
mod responses;
mod seen;
pub mod sse;
mod walk;

/// Bodies longer than this, in bytes, are read on a thread of their own: they would hold up a worker for more than a quarter of
/// a millisecond.
pub const LONG_BODY: usize = 128 << 10;

pub use request::RequestBody;
pub use seen::{Seen, StreamError};
pub use sse::{Event, Splitter};
