//! Translation between the APIs of language models: requests in one direction, answers in the other.
//!
//! The internal API is chat completions. [`messages`] and [`responses`] serve callers of the other two APIs;
//! [`anthropic`] reaches an upstream that speaks Anthropic's alone. The three share `json` and the types of `contract`.

#![forbid(unsafe_code)]

pub mod anthropic;
mod call_arguments;
mod call_fragments;
mod call_ids;
mod caller_api;
mod chat_answer;
mod contract;
mod error_type;
mod fields;
mod first_choice;
mod json;
pub mod messages;
mod plain_text;
mod provider_state;
mod readable;
pub mod responses;

pub use self::{
    call_ids::{CallIds, with_call_ids},
    caller_api::{AnswerContext, CallerApi, ChatRequest},
    contract::{AnswerTranslator, Malformed, Translated, Unsupported},
    provider_state::{NoStates, ProviderState, ProviderStates, unpacked},
};

#[cfg(any(test, feature = "fuzzing"))]
pub use self::call_ids::fuzz_call_ids;

use self::contract::{Dropped, unsupported};
