//! The tokenizer of a pool.

use std::path::PathBuf;

use super::Backend;
use signalbox_types::Encoding;

/// The source of a pool's tokenizer. A description: nothing is loaded here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tokenizer {
    /// Unknown: tokens are estimated from the counts that backends report.
    #[default]
    Learned,
    /// One of OpenAI's built-in encodings.
    OpenAi(Encoding),
    /// A `tokenizer.json`.
    File(PathBuf),
    /// A model on the Hugging Face hub, as `org/name`.
    Hub(String),
}

impl Tokenizer {
    /// The default tokenizer of a pool: OpenAI's, if the models of all its backends belong to OpenAI families with the
    /// same encoding.
    pub fn of(backends: &[Backend]) -> Self {
        let encoding = |backend: &Backend| backend.model.as_deref().and_then(Encoding::of_model);
        match backends.first().and_then(encoding) {
            Some(first) if backends.iter().all(|backend| encoding(backend) == Some(first)) => Self::OpenAi(first),
            _ => Self::Learned,
        }
    }
}
