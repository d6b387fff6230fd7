//! Translation between the APIs of language models: requests in one direction, answers in the other.
//!
//! The internal API is chat completions. [`messages`] and [`responses`] serve callers of the other two APIs;
//! [`anthropic`] reaches an upstream that speaks Anthropic's alone.

pub mod anthropic;
mod contract;
mod face;
pub mod messages;
pub mod responses;

pub use self::{
    contract::{AnswerTranslator, Malformed, Translated, Unsupported},
    face::{AboutAnswer, Face, FaceRequest},
};
