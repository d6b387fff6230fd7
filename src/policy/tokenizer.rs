//! By which tokenizer a pool's prompts are counted.

use std::path::PathBuf;

use super::Backend;
pub use crate::prompt::tokens::Encoding;

/// Where the tokenizer of a pool's models comes from. A description: nothing is loaded here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tokenizer {
    /// None is known: tokens are estimated by what backends report.
    #[default]
    Learned,
    /// One of OpenAI's encodings, built in.
    OpenAi(Encoding),
    /// A `tokenizer.json`.
    File(PathBuf),
    /// A model on the Hugging Face hub, as `org/name`.
    Hub(String),
}

impl Tokenizer {
    /// The tokenizer of a pool that names none: OpenAI's, where all its backends have models of OpenAI's families that share one.
    pub fn of(backends: &[Backend]) -> Self {
        let encoding = |backend: &Backend| backend.model.as_deref().and_then(Encoding::of_model);
        match backends.first().and_then(encoding) {
            Some(first) if backends.iter().all(|backend| encoding(backend) == Some(first)) => Self::OpenAi(first),
            _ => Self::Learned,
        }
    }
}
