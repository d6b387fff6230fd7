//! The paths of an engine whose presence is learned without generating anything.

use super::Endpoint;

/// A path that an engine may or may not serve.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum EngineApi {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completions,
    /// `/v1/embeddings`
    Embeddings,
    /// `/v1/responses`
    Responses,
    /// `/v1/messages`
    Messages,
    /// `/tokenize`
    Tokenize,
    /// `/v1/rerank`
    Rerank,
    /// `/v1/score`
    Score,
    /// `/classify`
    Classify,
    /// `/pooling`
    Pooling,
}

/// Result of a probe for a path.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// No answer yet, or one that says nothing about the path.
    #[default]
    Unknown,
    /// The engine does not serve it.
    Absent,
    /// The engine serves it.
    Present,
}

impl EngineApi {
    /// Every path, in the order of the enumeration.
    pub const ALL: [Self; 10] = [
        Self::Chat,
        Self::Completions,
        Self::Embeddings,
        Self::Responses,
        Self::Messages,
        Self::Tokenize,
        Self::Rerank,
        Self::Score,
        Self::Classify,
        Self::Pooling,
    ];

    /// True for a path of engines with models of certain kinds. It is rarely looked for again where it is missing.
    pub const fn is_rare(self) -> bool {
        matches!(self, Self::Rerank | Self::Score | Self::Classify | Self::Pooling)
    }

    /// The path of `endpoint`; `None` if it is not probed.
    pub const fn of(endpoint: Endpoint) -> Option<Self> {
        match endpoint {
            Endpoint::Chat => Some(Self::Chat),
            Endpoint::Completions => Some(Self::Completions),
            Endpoint::Embeddings => Some(Self::Embeddings),
            Endpoint::Responses => Some(Self::Responses),
            Endpoint::Messages => Some(Self::Messages),
            Endpoint::Tokenize => Some(Self::Tokenize),
            Endpoint::Rerank => Some(Self::Rerank),
            Endpoint::Score => Some(Self::Score),
            Endpoint::Classify => Some(Self::Classify),
            Endpoint::Pooling => Some(Self::Pooling),
            Endpoint::Audio
            | Endpoint::Images
            | Endpoint::Moderations
            | Endpoint::Files
            | Endpoint::Batches
            | Endpoint::VectorStores
            | Endpoint::Videos
            | Endpoint::FineTuning => None,
        }
    }

    /// The path below the engine's root.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Embeddings => "/v1/embeddings",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
            Self::Tokenize => "/tokenize",
            Self::Rerank => "/v1/rerank",
            Self::Score => "/v1/score",
            Self::Classify => "/classify",
            Self::Pooling => "/pooling",
        }
    }

    /// The name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completions => "completions",
            Self::Embeddings => "embeddings",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Tokenize => "tokenize",
            Self::Rerank => "rerank",
            Self::Score => "score",
            Self::Classify => "classify",
            Self::Pooling => "pooling",
        }
    }
}
