//! The wire: what requests and answers look like, read lazily over the bytes they came in.

pub mod answer;
mod anthropic;
pub mod error;
pub mod json;
pub mod multipart;
mod openai;
pub mod request;
mod responses;
mod seen;
pub mod sse;

pub use request::RequestBody;
pub use seen::Seen;
pub use sse::{Event, Splitter};
