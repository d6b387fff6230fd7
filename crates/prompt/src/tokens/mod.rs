//! Counts the tokens of a request's prompt: bounds from its bytes first, and an exact count if a tokenizer is known and
//! it matters.
//!
//! Counts what the model reads: the unescaped texts of messages without the JSON around them, plus the tokens of a chat
//! template between them. The template's true size is learned from the usage that backends report. Pure: tokenizers are
//! loaded elsewhere and put into a [`TokenizerSlot`].
//!
//! The time of tokenizing grows with the text: [`Cost`] says when it belongs on a thread that may block. Bounds take
//! one pass over the bytes.

mod body;
mod correction;
mod counter;
mod json;
mod model_tokenizer;
mod openai;
mod pairs;
mod part;
mod piece;
mod split;
mod sum;
mod tally;
mod tools;
mod vocabulary;
mod walk;

#[cfg(any(test, feature = "fuzzing"))]
pub use self::walk::fuzz_tokens;
pub use self::{
    body::Rendered,
    counter::{Cost, Count, CountBasis, Counter, Estimate, TokenizerSlot, Weighed},
    model_tokenizer::{ModelTokenizer, TokenizerError},
    openai::warm_up_encoding,
    sum::{Attachments, Passage},
};
