//! Interface of embedders, as the cache uses them.

use std::{borrow::Cow, fmt};

use thiserror::Error;

/// Makes a unit vector of a text. Texts of the same meaning should lie close together.
///
/// Calls are synchronous and may take milliseconds: never call it on a worker of the runtime.
pub trait Embedder: Send + Sync + fmt::Debug {
    /// Name and revision. Vectors of different embedders are never compared, so this is a part of every key.
    fn id(&self) -> &str;

    /// Length of its vectors.
    fn dimensions(&self) -> usize;

    /// Most tokens of a text that it reads; the rest is not in the vector.
    fn max_tokens(&self) -> usize;

    /// True if a word, in lower case, is in its vocabulary: a word that differs by one letter is then probably misspelt. True
    /// of all words where the vocabulary is not at hand.
    fn knows(&self, _word: &str) -> bool {
        true
    }

    /// Makes one vector of length 1 for each text, in order.
    ///
    /// # Errors
    ///
    /// [`EmbedError`] if it cannot, for example because a backend did not answer. There is then no vector for any of
    /// the texts.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// A text could not be embedded.
#[derive(Clone, Debug, Error)]
#[error("{embedder} could not embed a text: {problem}")]
pub struct EmbedError {
    /// Name of the embedder.
    pub embedder: String,
    /// The problem, and its remedy.
    pub problem: Cow<'static, str>,
}
