//! A server's embedding model as an embedder, for the threads of a worker: each waits for one answer at a time.

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
    /// Asks by `runtime`.
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

    /// Not known; a server refuses what is too long, or should.
    fn max_tokens(&self) -> usize {
        usize::MAX
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let answer = self.runtime.block_on(self.embeddings.embed(texts));
        answer.map_err(|error| EmbedError { embedder: self.id.clone(), problem: error.to_string().into() })
    }
}
