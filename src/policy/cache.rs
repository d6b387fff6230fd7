//! Which answers are kept to be given again, for whom and for how long.

use std::{path::PathBuf, time::Duration};

use super::Secret;

/// What is kept of answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Caching {
    /// Most bytes of memory for all of it.
    pub memory: usize,
    /// Who shares answers to equal requests.
    pub scope: Scope,
    /// Whether equal requests with any temperature may share an answer; else only those that ask for temperature 0.
    pub any_temperature: bool,
    /// How answers are kept for equal requests; `None` where they are not.
    pub exact: Option<Exact>,
    /// Whether equal requests under way share one request to an engine.
    pub coalesce: bool,
    /// How answers are kept for requests that mean the same; `None` where they are not.
    pub semantic: Option<Semantic>,
    /// What decides whether requests mean the same.
    pub decider: Decider,
    /// Where they are kept on disk too; `None` where they are not.
    pub persist: Option<Persist>,
    /// With whom they are shared; `None` where with nobody.
    pub shared: Option<Shared>,
}

/// The gateways that kept answers are shared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Address of their server, which may hold a password.
    pub url: Secret,
    /// What they have in common.
    pub key: Secret,
    /// How long a request waits for an answer from there.
    pub timeout: Duration,
}

/// Where answers are kept on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persist {
    /// The folder.
    pub path: PathBuf,
    /// Most bytes.
    pub max_size: u64,
    /// For how long.
    pub retention: Duration,
}

impl Caching {
    /// Most bytes of each kind of cache: they share the memory alike.
    pub fn room(&self) -> usize {
        let kinds = usize::from(self.exact.is_some()) + usize::from(self.semantic.is_some());
        self.memory / kinds.max(1)
    }
}

/// How answers are kept for requests that mean the same.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Semantic {
    /// For how long.
    pub ttl: Duration,
    /// The share of false hits that is allowed, of hits: above 0, below 1.
    pub max_false_hit_rate: f64,
    /// Who shares answers.
    pub scope: Scope,
    /// For how long where the text asks for what soon changes; `None` where such answers are not kept.
    pub volatile: Option<Duration>,
    /// Whether hits are only looked at, and never given.
    pub shadow: bool,
}

impl Semantic {
    /// For how long the answer to a text is kept; `volatile`: whether it asks for what soon changes.
    pub fn ttl_of(&self, volatile: bool) -> Duration {
        if volatile { self.volatile.unwrap_or_default().min(self.ttl) } else { self.ttl }
    }
}

/// What decides whether two texts mean the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Decider {
    /// The sentence model that is compiled in.
    #[default]
    BuiltIn,
    /// A server that speaks OpenAI's `/v1/embeddings`.
    Backend(EmbeddingBackend),
    /// A model that fastembed knows by this name.
    Fastembed(String),
    /// The model in this folder, in ONNX form.
    Onnx(PathBuf),
}

impl Decider {
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

/// A server that speaks OpenAI's `/v1/embeddings`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingBackend {
    /// Base address of its API.
    pub url: String,
    /// The model's name there.
    pub model: String,
    /// The key it is called with.
    pub key: Option<Secret>,
    /// Length of its vectors, where it is to be asked for.
    pub dimensions: Option<u64>,
    /// How long a lookup waits for a vector.
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
        }
    }
}

/// How answers are kept for equal requests.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Exact {
    /// For how long.
    pub ttl: Duration,
    /// The longest answer that is kept, in bytes.
    pub largest: usize,
    /// How a kept answer is streamed.
    pub replay: Replay,
}

/// Who shares answers.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Those who call with one key.
    #[default]
    Key,
    /// One end user of a key, as the request's `user` names him.
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

/// How a kept answer is streamed.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Replay {
    /// All at once.
    #[default]
    Burst,
    /// With the pauses that it came with.
    Paced,
}

/// Which of the policy's caches a route uses.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CacheUse {
    /// Whether equal requests may share answers, kept ones and such as are under way.
    pub exact: bool,
    /// Whether requests that mean the same may.
    pub semantic: bool,
    /// Whether answers, and what was asked, may be on disk and with other gateways.
    pub persist: bool,
}

/// Every cache that the policy has.
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
            semantic: None,
            persist: None,
            decider: Decider::default(),
            shared: None,
        }
    }
}
