//! What makes vectors of texts, as the cache sees it.

use std::{borrow::Cow, fmt};

use thiserror::Error;

/// Makes a unit vector of a text. Texts that mean the same should lie near one another.
///
/// Calls are synchronous and may take milliseconds: never on a worker of the runtime.
pub trait Embedder: Send + Sync + fmt::Debug {
    /// Name and revision. Vectors of different embedders are never compared, so this is a part of every key.
    fn id(&self) -> &str;

    /// Length of its vectors.
    fn dimensions(&self) -> usize;

    /// Most tokens of a text that it reads; what goes beyond is not in the vector.
    fn max_tokens(&self) -> usize;

    /// One vector of length 1 for each text, in their order.
    ///
    /// # Errors
    /// [`EmbedError`] where it cannot, for example because a backend did not answer. There is no vector then, for none of the texts.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// A text could not be embedded.
#[derive(Clone, Debug, Error)]
#[error("{embedder} could not embed a text: {problem}")]
pub struct EmbedError {
    /// Which embedder.
    pub embedder: String,
    /// What went wrong, and what would mend it.
    pub problem: Cow<'static, str>,
}
