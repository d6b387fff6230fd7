//! How many tokens a request's prompt has: bounds from its bytes first, and an exact count where a tokenizer is known and it matters.
//!
//! What is counted is what the model reads: the unescaped texts of messages, not the JSON around them, with the tokens that a
//! chat template puts between them. What the template really adds is learned from the usage that backends report. Pure:
//! tokenizers are loaded elsewhere and put into a [`Source`].
//!
//! Tokenizing takes time by the length of the text: see [`Cost`] for when it belongs on a thread that may block. Bounds take one
//! pass over the bytes.

mod body;
mod correction;
mod counter;
mod json;
mod openai;
mod own;
mod piece;
mod tally;
mod tools;
mod walk;

pub use self::{
    body::Rendered,
    counter::{Cost, Count, Counter, Estimate, Known, Source},
    openai::Encoding,
    own::{Own, OwnError},
    walk::fuzz_tokens,
};
