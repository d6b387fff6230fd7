//! Cache settings: which answers are cached, for whom and for how long.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::Secret;
use signalbox_types::{Name, RedisServer};

/// The settings of all caches.
#[derive(Clone, Debug, PartialEq)]
pub struct Caching {
    /// The most memory for all of them, in bytes.
    pub memory: usize,
    /// The callers who share answers to identical requests.
    pub scope: Scope,
    /// True if identical requests with any temperature share answers; false for temperature 0 only.
    pub any_temperature: bool,
    /// The exact cache; `None` if it is off.
    pub exact: Option<Exact>,
    /// True if identical concurrent requests share one upstream request.
    pub coalesce: bool,
    /// Headers that change answers, in lower case, beside those of the APIs.
    pub key_headers: Arc<[Name]>,
    /// The semantic cache; `None` if it is off.
    pub semantic: Option<Semantic>,
    /// The model that decides whether two texts have the same meaning.
    pub decider: EmbedderChoice,
    /// Storage on disk; `None` if it is off.
    pub persist: Option<Persist>,
    /// Sharing with other gateways; `None` if it is off.
    pub shared: Option<Shared>,
}

/// Sharing of cached answers between gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The server.
    pub server: RedisServer,
    /// The secret that the gateways have in common.
    pub key: Secret,
    /// The longest that a request waits for the server.
    pub timeout: Duration,
}

/// Storage of answers on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persist {
    /// The folder.
    pub path: PathBuf,
    /// The most disk space, in bytes.
    pub max_size: u64,
    /// The longest that an answer is stored.
    pub retention: Duration,
}

impl Caching {
    /// The memory of each kind of cache, in bytes: they share it equally.
    pub fn room(&self) -> usize {
        let kinds = usize::from(self.exact.is_some()) + usize::from(self.semantic.is_some());
        self.memory / kinds.max(1)
    }
}

/// The semantic cache.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Semantic {
    /// The time to live of an answer.
    pub ttl: Duration,
    /// The allowed share of wrong hits among all hits: above 0, below 1.
    pub max_false_hit_rate: f64,
    /// The callers who share answers.
    pub scope: Scope,
    /// The time to live of answers to questions about things that soon change; `None` if they are not cached.
    pub volatile: Option<Duration>,
    /// True if hits are only measured, and never served.
    pub shadow: bool,
    /// The index that finds candidates.
    pub index: IndexKind,
}

/// The index of the semantic cache's vectors.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum IndexKind {
    /// Flat up to the number of vectors from which on a graph is faster.
    #[default]
    Auto,
    /// A scan of all vectors.
    Flat,
    /// A graph for all but the newest vectors.
    Hnsw,
}

impl Semantic {
    /// The time to live of an answer; `volatile` says that the question is about things that soon change.
    pub fn ttl_of(&self, volatile: bool) -> Duration {
        if volatile { self.volatile.unwrap_or_default().min(self.ttl) } else { self.ttl }
    }
}

/// The model that decides whether two texts have the same meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EmbedderChoice {
    /// The built-in sentence model.
    #[default]
    BuiltIn,
    /// A server with OpenAI's `/v1/embeddings`.
    Backend(EmbeddingBackend),
    /// A model that fastembed supports, by its name there.
    Fastembed(String),
    /// A folder with a model in ONNX form.
    Onnx(PathBuf),
}

impl EmbedderChoice {
    /// The name used in policies and metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Backend(_) => "backend",
            Self::Fastembed(_) => "fastembed",
            Self::Onnx(_) => "onnx",
        }
    }
}

/// A server with OpenAI's `/v1/embeddings`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingBackend {
    /// Base address of its API.
    pub url: String,
    /// The model's name on that server.
    pub model: String,
    /// The API key.
    pub key: Option<Secret>,
    /// The length of vectors to request, if configured.
    pub dimensions: Option<u64>,
    /// The longest that a lookup waits for a vector.
    pub timeout: Duration,
}

impl Default for Semantic {
    fn default() -> Self {
        Self {
            ttl: Duration::from_mins(10),
            max_false_hit_rate: 0.01,
            scope: Scope::default(),
            volatile: None,
            shadow: false,
            index: IndexKind::default(),
        }
    }
}

/// The exact cache.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Exact {
    /// The time to live of an answer.
    pub ttl: Duration,
    /// The longest answer that is cached, in bytes.
    pub largest: usize,
    /// The replay of a cached answer as a stream.
    pub replay: Replay,
}

/// The callers who share answers.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Those with the same key.
    #[default]
    Key,
    /// The same end user of a key, as named by the request's `user`.
    User,
    /// All callers.
    Shared,
}

impl Scope {
    /// The name used in policies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::User => "user",
            Self::Shared => "shared",
        }
    }
}

/// The replay of a cached answer as a stream.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Replay {
    /// All at once.
    #[default]
    Burst,
    /// With the original pauses.
    Paced,
}

/// The caches that a route uses.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CacheUse {
    /// True if identical requests may share answers, both cached ones and those in flight.
    pub exact: bool,
    /// True if requests with the same meaning may share answers.
    pub semantic: bool,
    /// True if prompts and answers may be stored on disk and on other gateways.
    pub persist: bool,
}

/// Every cache of the policy.
impl Default for CacheUse {
    fn default() -> Self {
        Self { exact: true, semantic: true, persist: true }
    }
}

impl Default for Exact {
    fn default() -> Self {
        Self { ttl: Duration::from_hours(1), largest: 1 << 20, replay: Replay::default() }
    }
}

impl Default for Caching {
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            scope: Scope::Key,
            any_temperature: false,
            exact: None,
            coalesce: true,
            key_headers: [].into(),
            semantic: None,
            persist: None,
            decider: EmbedderChoice::default(),
            shared: None,
        }
    }
}
