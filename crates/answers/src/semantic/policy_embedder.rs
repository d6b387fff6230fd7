//! The policy's embedder, which decides whether two texts mean the same. It is loaded on demand; if it cannot be loaded, the built-in one
//! replaces it.

use std::{sync::Arc, thread, time::Duration};

use tokio::{
    runtime::Handle,
    sync::{OnceCell, oneshot},
};

use super::embedders::{DecidingEmbedder, Embedders};
use signalbox_cache::{EmbedError, Embedder};
use signalbox_embed::{self as embed, Limits, Worker};
use signalbox_fleet::Breaker;
use signalbox_policy::{EmbedderChoice, EmbeddingBackend};
use signalbox_upstream::{Client, Embeddings, RemoteEmbedder, embeddings::Source};

/// Timeout of a lookup for a vector that is computed on this machine.
const LOCAL_TIMEOUT: Duration = Duration::from_millis(250);
/// Minimum of the timeout of requests to a server, since background work can wait longer than lookups.
const ANSWER: Duration = Duration::from_secs(5);
/// Concurrent requests to a server, queued texts, and texts of one request.
const REMOTE: Limits = Limits { threads: 4, queue: 256, batch: 32 };
/// A model on this machine runs on one thread, since its session handles one text at a time.
const LOCAL: Limits = Limits { threads: 1, queue: 64, batch: 1 };

/// The policy's embedder, loaded or not.
#[derive(Debug)]
pub(super) struct PolicyEmbedder {
    spec: EmbedderChoice,
    embedders: OnceCell<Option<Arc<Embedders>>>,
}

impl PolicyEmbedder {
    pub(super) fn new(spec: EmbedderChoice) -> Self {
        Self { spec, embedders: OnceCell::new() }
    }

    pub(super) fn spec(&self) -> &EmbedderChoice {
        &self.spec
    }

    /// The embedders, if they are loaded.
    pub(super) fn loaded(&self) -> Option<&Embedders> {
        self.embedders.get()?.as_deref()
    }

    /// Returns the embedders for a lookup, or the reason why there are none. Waits for the built-in ones, which load in tens of milliseconds,
    /// but not for a model.
    pub(super) async fn for_lookup(&self, built_in: &Arc<Worker>) -> Result<Arc<Embedders>, &'static str> {
        if self.loads_slowly() && !self.embedders.initialized() {
            return Err("embedder_loading");
        }
        self.load(built_in).await.ok_or("no_embedder")
    }

    /// Starts to load the embedders, so that the first request does not wait for them. Must be called within a Tokio runtime.
    pub(super) fn start_loading(self: &Arc<Self>, built_in: &Arc<Worker>) {
        if !self.embedders.initialized() {
            let (decider, built_in) = (self.clone(), built_in.clone());
            tokio::spawn(async move { decider.load(&built_in).await });
        }
    }

    /// True for the built-in embedder, which loads in tens of milliseconds.
    pub(super) fn is_built_in(&self) -> bool {
        matches!(self.spec, EmbedderChoice::BuiltIn)
    }

    /// True if loading may take seconds, or minutes for a download.
    fn loads_slowly(&self) -> bool {
        matches!(self.spec, EmbedderChoice::Fastembed(_) | EmbedderChoice::Onnx(_))
    }

    /// Loads the embedders and waits for them; `None` where none can be loaded.
    pub(super) async fn load(&self, built_in: &Arc<Worker>) -> Option<Arc<Embedders>> {
        let load = || async {
            let decider = match self.configured().await {
                None => None,
                Some(Ok(decider)) => {
                    tracing::info!(embedder = %decider.id, "cache: the policy's embedder is loaded (cache.semantic.embedder)");
                    Some(decider)
                }
                Some(Err(error)) => {
                    let EmbedError { embedder, problem } = error;
                    tracing::warn!(%embedder, %problem, "cache: the policy's embedder could not be loaded; the built-in one is used instead (cache.semantic.embedder)");
                    None
                }
            };
            let worker = built_in.clone();
            let built = tokio::task::spawn_blocking(move || {
                let recall = embed::recall()?;
                let decider = decider.map_or_else(|| built_in_decider(worker), Ok)?;
                Ok::<_, EmbedError>(Embedders::new(recall, decider))
            });
            match built.await {
                Ok(Ok(embedders)) => Some(Arc::new(embedders)),
                Ok(Err(error)) => {
                    tracing::error!(%error, "cache: no embedder could be loaded; semantic lookups are off");
                    None
                }
                Err(_) => None,
            }
        };
        self.embedders.get_or_init(load).await.clone()
    }

    /// Loads the embedder that the policy names; `None` for the built-in one.
    async fn configured(&self) -> Option<Result<DecidingEmbedder, EmbedError>> {
        match &self.spec {
            EmbedderChoice::BuiltIn => None,
            EmbedderChoice::Backend(backend) => Some(remote(backend)),
            EmbedderChoice::Fastembed(_) | EmbedderChoice::Onnx(_) => {
                let kind = self.spec.name();
                Some(load_model(self.spec.clone()).await.map(|model| DecidingEmbedder {
                    kind,
                    id: model.id().to_owned(),
                    worker: Arc::new(Worker::new(LOCAL, move || Ok(model.clone()))),
                    timeout: LOCAL_TIMEOUT,
                    breaker: None,
                }))
            }
        }
    }
}

fn built_in_decider(worker: Arc<Worker>) -> Result<DecidingEmbedder, EmbedError> {
    let id = embed::decider()?.id().to_owned();
    Ok(DecidingEmbedder { kind: EmbedderChoice::BuiltIn.name(), id, worker, timeout: LOCAL_TIMEOUT, breaker: None })
}

fn remote(backend: &EmbeddingBackend) -> Result<DecidingEmbedder, EmbedError> {
    let EmbeddingBackend { url, model, key, dimensions, timeout } = backend.clone();
    let failed = |problem: String| EmbedError { embedder: backend.model.clone(), problem: problem.into() };
    let limit = timeout.max(ANSWER);
    let dimensions = dimensions.and_then(|dimensions| usize::try_from(dimensions).ok());
    let client = Client::new(limit).map_err(|error| failed(error.to_string()))?;
    let embeddings = Embeddings::new(client, Source { url, model, key, dimensions, timeout: limit });
    let embedder = RemoteEmbedder::new(embeddings.map_err(|error| failed(error.to_string()))?, Handle::current());
    let embedder: Arc<dyn Embedder> = Arc::new(embedder);
    Ok(DecidingEmbedder {
        kind: "backend",
        id: embedder.id().to_owned(),
        worker: Arc::new(Worker::new(REMOTE, move || Ok(embedder.clone()))),
        timeout,
        breaker: Some(Breaker::default()),
    })
}

/// Loads a model on this machine, on a thread of its own, so that a download that hangs does not block the exit of the process.
async fn load_model(spec: EmbedderChoice) -> Result<Arc<dyn Embedder>, EmbedError> {
    let failed = |problem: String| EmbedError { embedder: spec.name().to_owned(), problem: problem.into() };
    let (reply, answer) = oneshot::channel();
    let wanted = spec.clone();
    // Sending fails if the policy has changed meanwhile; then nothing needs the model.
    let work = move || drop(reply.send(load_blocking(&wanted)));
    thread::Builder::new().name("load".to_owned()).spawn(work).map_err(|error| failed(error.to_string()))?;
    // A panic in the thread is logged and drops the sender.
    answer.await.map_err(|_| failed("loading it panicked".to_owned()))?
}

#[cfg(feature = "fastembed")]
fn load_blocking(spec: &EmbedderChoice) -> Result<Arc<dyn Embedder>, EmbedError> {
    let model = match spec {
        EmbedderChoice::Onnx(folder) => embed::Onnx::of_folder(folder),
        EmbedderChoice::Fastembed(name) => embed::Onnx::named(name),
        EmbedderChoice::BuiltIn | EmbedderChoice::Backend(_) => return embed::decider(),
    };
    let failed =
        |error: embed::OnnxError| EmbedError { embedder: spec.name().to_owned(), problem: error.to_string().into() };
    Ok(Arc::new(model.map_err(failed)?))
}

/// Fails: policies with such a model are rejected in builds without this feature.
#[cfg(not(feature = "fastembed"))]
fn load_blocking(spec: &EmbedderChoice) -> Result<Arc<dyn Embedder>, EmbedError> {
    Err(EmbedError { embedder: spec.name().to_owned(), problem: "this signalbox was built without fastembed".into() })
}
