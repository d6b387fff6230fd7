//! OpenAI Responses in front of chat completions: requests of `/v1/responses` become chat requests, and chat answers
//! become Response objects and their event streams.
//!
//! | part | file |
//! |---|---|
//! | request fields | `request`, `settings` |
//! | input items → messages | `input`, `other_items`, `content`, `conversation` |
//! | tools and their names | `tools`, `client_tools`, `names` |
//! | signed thinking | `signed` |
//! | fields repeated in the answer | `echo` |
//! | answers, whole and streamed | `answer`, `chunk`, `output`, `text`, `calls`, `freeform`, `items`, `events` |
//! | errors | `error` |
//!
//! # State
//! Nothing is stored here. The gateway may hold responses and conversations itself: it then puts their items into `input`
//! before the translation, and [`HeldState`] says what the Response object repeats. What still refers to stored state
//! belongs to a provider, or the gateway stores nothing, and is rejected: `previous_response_id`, `conversation`, `prompt`,
//! `background: true`, `item_reference` and, without a store, an explicit `store: true`. A request without `store` is
//! answered in any case, and the object says whether it was stored: clients that never set it are the most.
//!
//! # Tools
//! The client carries out `function`, `custom` and `tool_search` tools, so each becomes a chat function. Plain engines know
//! no custom tools: one gets the parameter `input`, and its text is taken out of the arguments as they arrive. Tools of a
//! `namespace` are joined with its name. `local_shell`, `shell` and `apply_patch` are functions with their fixed schema, and
//! their calls come back in their own form.
//!
//! A tool of the provider is left out and reported beside others, and wherever a conversation is under way: it goes on without
//! the tool. A first request that offers nothing else, and one that demands such a tool, is rejected: its answer would be
//! another one. What such tools left in the history becomes text. Two are left out in any request, unless `tool_choice` demands
//! them: a `web_search` that has the member `external_web_access`, which Codex offers unasked in every request, and a
//! `tool_search` of the provider, since all tools are sent.
//!
//! # Reasoning
//! An engine's reasoning is sent as `reasoning_text`, or as a summary if the request asks for one, since many clients show
//! nothing else. With `include: ["reasoning.encrypted_content"]` it is repeated there behind a prefix that names the
//! engine's field; clients send that back, and the engine gets its own reasoning in the field that it came in. Encrypted
//! content of other providers and summaries are left out. Thinking that Anthropic signed is carried there, whether or not
//! the request includes it, since the API rejects a turn of calls without it.
//!
//! # Memory
//! The `*.done` events and the final event repeat all text, so an answer is kept until its end, up to 16 MiB.

mod answer;
mod calls;
mod chunk;
mod client_tools;
mod content;
mod conversation;
mod echo;
mod error;
mod events;
mod freeform;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzz;
mod input;
mod items;
mod names;
mod other_items;
mod output;
mod request;
mod settings;
mod signed;
mod stored_state;
#[cfg(test)]
mod tests;
mod text;
mod tools;

use crate::fields;

pub use answer::Answer;
pub use echo::Echo;
pub use error::error;
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzz::fuzz_responses;
pub use request::to_chat;
pub(super) use request::to_chat_held;
pub(super) use signed::has_signed_thinking;
pub use signed::without_signed_thinking;
pub use stored_state::HeldState;
