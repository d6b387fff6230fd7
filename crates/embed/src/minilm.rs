//! `MiniLM`: a sentence model of six layers, which decides if two texts have the same meaning.
//!
//! Its arithmetic is in `crates/minilm`; this module handles texts. A text's vector is the mean of the last layer's
//! states, including `[CLS]` and `[SEP]`.

use std::{borrow::Cow, fmt, sync::Arc};

pub(super) use signalbox_minilm::Weights;
use signalbox_minilm::{Engine, Scratch};

use super::{unit::normalise, wordpiece::WordPiece};
use signalbox_cache::{EmbedError, Embedder};

/// A sentence model that embeds texts.
pub(super) struct MiniLm {
    id: String,
    wordpiece: Arc<WordPiece>,
    engine: Engine,
    dimensions: usize,
    max_tokens: usize,
    begin: u32,
    end: u32,
}

impl MiniLm {
    /// Creates a model that reads texts of at most `max_tokens`, including their begin and end tokens, through
    /// `wordpiece`.
    pub(super) fn new(
        id: String,
        weights: Weights<'_>,
        wordpiece: Arc<WordPiece>,
        max_tokens: usize,
    ) -> Result<Self, String> {
        if weights.pieces() != wordpiece.len() {
            return Err(format!("it has {} rows for {} word pieces", weights.pieces(), wordpiece.len()));
        }
        let special = |piece: &str| wordpiece.number(piece).ok_or_else(|| format!("its tokenizer has no {piece}"));
        Ok(Self {
            begin: special("[CLS]")?,
            end: special("[SEP]")?,
            dimensions: weights.hidden(),
            max_tokens: max_tokens.min(weights.longest()),
            engine: Engine::new(weights),
            id,
            wordpiece,
        })
    }

    fn problem(&self, problem: impl Into<Cow<'static, str>>) -> EmbedError {
        EmbedError { embedder: self.id.clone(), problem: problem.into() }
    }
}

impl Embedder for MiniLm {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let (mut pieces, mut scratch) = (Vec::new(), Scratch::default());
        let embed = |text: &&str| {
            pieces.clear();
            pieces.push(self.begin);
            self.wordpiece.pieces(text, self.max_tokens - 2, &mut pieces).map_err(|problem| self.problem(problem))?;
            pieces.push(self.end);
            let mut vector = self.engine.forward(&pieces, &mut scratch);
            if normalise(&mut vector) { Ok(vector) } else { Err(self.problem("a text has no direction")) }
        };
        texts.iter().map(embed).collect()
    }
}

impl fmt::Debug for MiniLm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MiniLm").field("id", &self.id).field("dimensions", &self.dimensions).finish_non_exhaustive()
    }
}
