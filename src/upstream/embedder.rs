//! A server's embedding model as an [`Embedder`] for worker threads, each of which waits for one answer at a time.

use tokio::runtime::Handle;

use super::Embeddings;
use crate::cache::{EmbedError, Embedder};

/// A server's embedding model.
#[derive(Debug)]
pub struct RemoteEmbedder {
    id: String,
    embeddings: Embeddings,
    runtime: Handle,
}

impl RemoteEmbedder {
    /// Creates an embedder whose requests run on `runtime`.
    pub fn new(embeddings: Embeddings, runtime: Handle) -> Self {
        Self { id: embeddings.id(), embeddings, runtime }
    }
}

impl Embedder for RemoteEmbedder {
    fn id(&self) -> &str {
        &self.id
    }

    /// 0 until the server has answered.
    fn dimensions(&self) -> usize {
        self.embeddings.dimensions().unwrap_or(0)
    }

    /// Unknown; a server should reject texts that are too long.
    fn max_tokens(&self) -> usize {
        usize::MAX
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let answer = self.runtime.block_on(self.embeddings.embed(texts));
        answer.map_err(|error| EmbedError { embedder: self.id.clone(), problem: error.to_string().into() })
    }
}
