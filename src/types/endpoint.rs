//! The API paths the gateway knows, and what kind of work each one is.

/// A kind of work that backends may or may not speak.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completions,
    /// `/v1/embeddings`
    Embeddings,
    /// `/v1/responses` and below
    Responses,
    /// `/v1/messages` and below (the Anthropic dialect)
    Messages,
    /// `/v1/audio/…`
    Audio,
    /// `/v1/images/…`
    Images,
    /// `/v1/rerank` and `/v2/rerank`
    Rerank,
    /// `/v1/moderations`
    Moderations,
    /// `/v1/files` and `/v1/uploads`
    Files,
    /// `/v1/batches`
    Batches,
}

impl Endpoint {
    /// Every endpoint, in the order of the documentation.
    pub const ALL: [Self; 11] = [
        Self::Chat,
        Self::Completions,
        Self::Embeddings,
        Self::Responses,
        Self::Messages,
        Self::Audio,
        Self::Images,
        Self::Rerank,
        Self::Moderations,
        Self::Files,
        Self::Batches,
    ];

    /// What a backend speaks when its policy does not say: the three that every OpenAI-compatible engine has.
    pub const DEFAULT: [Self; 3] = [Self::Chat, Self::Completions, Self::Embeddings];

    /// The endpoint that serves `path`, with any `/v1` prefix still on it.
    pub fn of_path(path: &str) -> Option<Self> {
        let rest = path.strip_prefix("/v1/").or_else(|| path.strip_prefix("/v2/").filter(|rest| *rest == "rerank"))?;
        if rest == "chat/completions" {
            return Some(Self::Chat);
        }
        if climbs(rest) {
            return None;
        }
        match rest.split('/').next()? {
            "completions" if rest == "completions" => Some(Self::Completions),
            "embeddings" if rest == "embeddings" => Some(Self::Embeddings),
            "responses" => Some(Self::Responses),
            "messages" if rest.starts_with("messages/batches") => Some(Self::Batches),
            "messages" => Some(Self::Messages),
            "audio" => Some(Self::Audio),
            "images" => Some(Self::Images),
            "rerank" => Some(Self::Rerank),
            "moderations" => Some(Self::Moderations),
            "files" | "uploads" => Some(Self::Files),
            "batches" => Some(Self::Batches),
            _ => None,
        }
    }

    /// Whether `path` asks for the endpoint itself, not for an object that was made there before.
    pub fn is_root(self, path: &str) -> bool {
        let rest = path.split_once('/').map_or("", |(_, rest)| rest).split_once('/').map_or("", |(_, rest)| rest);
        match self {
            Self::Chat => rest == "chat/completions",
            Self::Audio | Self::Images => rest.split('/').count() == 2,
            Self::Files | Self::Batches => false,
            _ => rest == self.name(),
        }
    }

    /// The name used in policies, metrics and errors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completions => "completions",
            Self::Embeddings => "embeddings",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Audio => "audio",
            Self::Images => "images",
            Self::Rerank => "rerank",
            Self::Moderations => "moderations",
            Self::Files => "files",
            Self::Batches => "batches",
        }
    }

    /// The endpoint of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|endpoint| endpoint.name() == name)
    }

    /// Whether its answers are text that a model writes, token by token.
    pub const fn generates(self) -> bool {
        matches!(self, Self::Chat | Self::Completions | Self::Responses | Self::Messages)
    }

    /// Whether doing the work twice has no effect but its cost, so that it may be tried again elsewhere.
    pub const fn repeatable(self) -> bool {
        !matches!(self, Self::Responses | Self::Files | Self::Batches | Self::Images)
    }
}

/// Whether `path` might lead elsewhere than it begins: a segment `.` or `..`, in any spelling that somebody further on may read so.
fn climbs(path: &str) -> bool {
    let plain =
        path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/").replace('\\', "/");
    plain.split('/').any(|segment| matches!(segment, "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_map_to_endpoints() {
        for (path, want) in [
            ("/v1/chat/completions", Some(Endpoint::Chat)),
            ("/v1/completions", Some(Endpoint::Completions)),
            ("/v1/completions/x", None),
            ("/v1/audio/transcriptions", Some(Endpoint::Audio)),
            ("/v1/files/file-1/content", Some(Endpoint::Files)),
            ("/v2/rerank", Some(Endpoint::Rerank)),
            ("/v2/chat/completions", None),
            ("/v1/", None),
            ("/chat/completions", None),
            ("/v1/files/../../metrics", None),
            ("/v1/files/.%2E%2f..%5Cmetrics", None),
            ("/v1/files/..\\..\\metrics", None),
            ("/v1/files/a..b/.c", Some(Endpoint::Files)),
        ] {
            assert_eq!(Endpoint::of_path(path), want, "{path}");
        }
    }
}
