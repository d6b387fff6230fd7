//! What decides whether two texts mean the same, as the policy has it, made when it is wanted. Where another embedder than the one that
//! is compiled in cannot be had, that one serves.

use std::{sync::Arc, thread, time::Duration};

use tokio::{
    runtime::Handle,
    sync::{OnceCell, oneshot},
};

use super::embedders::{Decides, Embedders};
use crate::{
    cache::{EmbedError, Embedder},
    embed::{self, Limits, Worker},
    fleet::Breaker,
    policy::{Decider, EmbeddingBackend},
    upstream::{Client, Embeddings, RemoteEmbedder, embeddings::Source},
};

/// How long a lookup waits for a vector that is made on this machine.
const PATIENCE: Duration = Duration::from_millis(250);
/// Least time that a server has for its answer: vectors that nobody waits for are worth it.
const ANSWER: Duration = Duration::from_secs(5);
/// Requests to a server at once, texts in one, and texts that wait.
const REMOTE: Limits = Limits { threads: 4, queue: 256, batch: 32 };
/// A model on this machine is run by one thread: its session is used by one text at a time.
const LOCAL: Limits = Limits { threads: 1, queue: 64, batch: 1 };

/// What decides, as the policy has it.
#[derive(Debug)]
pub(super) struct Deciding {
    of: Decider,
    made: OnceCell<Option<Arc<Embedders>>>,
}

impl Deciding {
    pub(super) fn new(of: Decider) -> Self {
        Self { of, made: OnceCell::new() }
    }

    pub(super) fn of(&self) -> &Decider {
        &self.of
    }

    /// What was made, if anything was.
    pub(super) fn made(&self) -> Option<&Embedders> {
        self.made.get()?.as_deref()
    }

    /// The embedders, or why there are none. What is compiled in is made aside, in tens of milliseconds, and waited for; a model that has to be
    /// loaded is not.
    pub(super) async fn embedders(&self, built_in: &Arc<Worker>) -> Result<Arc<Embedders>, &'static str> {
        if self.loads() && !self.made.initialized() {
            return Err("embedder_loading");
        }
        self.make(built_in).await.ok_or("no_embedder")
    }

    /// Begins to make the embedders, so that the first request does not wait for them. Must be called within a Tokio runtime.
    pub(super) fn begin(self: &Arc<Self>, built_in: &Arc<Worker>) {
        if !self.made.initialized() {
            let (deciding, built_in) = (self.clone(), built_in.clone());
            tokio::spawn(async move { deciding.make(&built_in).await });
        }
    }

    /// Whether making it may take seconds, or minutes where it is downloaded.
    fn loads(&self) -> bool {
        matches!(self.of, Decider::Fastembed(_) | Decider::Onnx(_))
    }

    /// The embedders, waited for whatever they take; `None` where there are none.
    pub(super) async fn make(&self, built_in: &Arc<Worker>) -> Option<Arc<Embedders>> {
        let make = || async {
            let decides = match self.other().await {
                None => None,
                Some(Ok(decides)) => {
                    tracing::info!(embedder = %decides.id, "decides which texts mean the same");
                    Some(decides)
                }
                Some(Err(error)) => {
                    let EmbedError { embedder, problem } = error;
                    tracing::warn!(%embedder, %problem, "the policy's embedder cannot be had: the built-in one decides in its place");
                    None
                }
            };
            let worker = built_in.clone();
            let aside = tokio::task::spawn_blocking(move || {
                let recall = embed::recall()?;
                let decides = decides.map_or_else(|| built_in_decides(worker), Ok)?;
                Ok::<_, EmbedError>(Embedders::new(recall, decides))
            });
            match aside.await {
                Ok(Ok(embedders)) => Some(Arc::new(embedders)),
                Ok(Err(error)) => {
                    tracing::error!(%error, "nothing is looked up by meaning");
                    None
                }
                Err(_) => None,
            }
        };
        self.made.get_or_init(make).await.clone()
    }

    /// What the policy names instead of what is compiled in.
    async fn other(&self) -> Option<Result<Decides, EmbedError>> {
        match &self.of {
            Decider::BuiltIn => None,
            Decider::Backend(backend) => Some(remote(backend)),
            Decider::Fastembed(_) | Decider::Onnx(_) => {
                let kind = self.of.name();
                Some(loaded(self.of.clone()).await.map(|model| Decides {
                    kind,
                    id: model.id().to_owned(),
                    worker: Arc::new(Worker::new(LOCAL, move || Ok(model.clone()))),
                    patience: PATIENCE,
                    breaker: None,
                }))
            }
        }
    }
}

fn built_in_decides(worker: Arc<Worker>) -> Result<Decides, EmbedError> {
    let id = embed::decider()?.id().to_owned();
    Ok(Decides { kind: Decider::BuiltIn.name(), id, worker, patience: PATIENCE, breaker: None })
}

fn remote(backend: &EmbeddingBackend) -> Result<Decides, EmbedError> {
    let EmbeddingBackend { url, model, key, dimensions, timeout } = backend.clone();
    let failed = |problem: String| EmbedError { embedder: backend.model.clone(), problem: problem.into() };
    let limit = timeout.max(ANSWER);
    let dimensions = dimensions.and_then(|dimensions| usize::try_from(dimensions).ok());
    let client = Client::new(limit).map_err(|error| failed(error.to_string()))?;
    let embeddings = Embeddings::new(client, Source { url, model, key, dimensions, timeout: limit });
    let embedder = RemoteEmbedder::new(embeddings.map_err(|error| failed(error.to_string()))?, Handle::current());
    let embedder: Arc<dyn Embedder> = Arc::new(embedder);
    Ok(Decides {
        kind: "backend",
        id: embedder.id().to_owned(),
        worker: Arc::new(Worker::new(REMOTE, move || Ok(embedder.clone()))),
        patience: timeout,
        breaker: Some(Breaker::default()),
    })
}

/// A model on this machine, loaded by a thread of its own: a download that hangs must not hold up the end of the process.
async fn loaded(of: Decider) -> Result<Arc<dyn Embedder>, EmbedError> {
    let failed = |problem: String| EmbedError { embedder: of.name().to_owned(), problem: problem.into() };
    let (reply, answer) = oneshot::channel();
    let wanted = of.clone();
    // Who does not wait for it any more does not need it.
    let work = move || drop(reply.send(load(&wanted)));
    thread::Builder::new().name("load".to_owned()).spawn(work).map_err(|error| failed(error.to_string()))?;
    // A panic in the thread is in the log, and leaves nobody to answer.
    answer.await.map_err(|_| failed("loading it panicked".to_owned()))?
}

#[cfg(feature = "fastembed")]
fn load(of: &Decider) -> Result<Arc<dyn Embedder>, EmbedError> {
    let model = match of {
        Decider::Onnx(folder) => embed::Onnx::of_folder(folder),
        Decider::Fastembed(name) => embed::Onnx::named(name),
        Decider::BuiltIn | Decider::Backend(_) => return embed::decider(),
    };
    let failed =
        |error: embed::OnnxError| EmbedError { embedder: of.name().to_owned(), problem: error.to_string().into() };
    Ok(Arc::new(model.map_err(failed)?))
}

/// A policy that names such a model is refused where this is not compiled in.
#[cfg(not(feature = "fastembed"))]
fn load(of: &Decider) -> Result<Arc<dyn Embedder>, EmbedError> {
    Err(EmbedError { embedder: of.name().to_owned(), problem: "this signalbox was built without fastembed".into() })
}
