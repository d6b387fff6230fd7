//! The API paths that the gateway serves, by kind of work.

/// A kind of work that a backend may or may not support.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completions,
    /// `/v1/embeddings`
    Embeddings,
    /// `/v1/responses` and `/v1/conversations`, and below
    Responses,
    /// `/v1/messages` and below (the Anthropic dialect)
    Messages,
    /// `/v1/audio/…`
    Audio,
    /// `/v1/images/…`
    Images,
    /// `/rerank`, also below `/v1` and `/v2`, and llama.cpp's `/reranking`
    Rerank,
    /// `/score`, also below `/v1`
    Score,
    /// `/classify`, also below `/v1`
    Classify,
    /// `/pooling`
    Pooling,
    /// `/tokenize` and `/detokenize`
    Tokenize,
    /// `/v1/moderations`
    Moderations,
    /// `/v1/files` and `/v1/uploads`
    Files,
    /// `/v1/batches`
    Batches,
    /// `/v1/vector_stores`, and below
    VectorStores,
    /// `/v1/videos`, and below
    Videos,
    /// `/v1/fine_tuning/…`
    FineTuning,
}

impl Endpoint {
    /// Every endpoint, in the order of the documentation.
    pub const ALL: [Self; 18] = [
        Self::Chat,
        Self::Completions,
        Self::Embeddings,
        Self::Responses,
        Self::Messages,
        Self::Audio,
        Self::Images,
        Self::Rerank,
        Self::Score,
        Self::Classify,
        Self::Pooling,
        Self::Tokenize,
        Self::Moderations,
        Self::Files,
        Self::Batches,
        Self::VectorStores,
        Self::Videos,
        Self::FineTuning,
    ];

    /// The endpoints of a backend whose policy names none: the three that every OpenAI-compatible engine has.
    pub const DEFAULT: [Self; 3] = [Self::Chat, Self::Completions, Self::Embeddings];

    /// The endpoint that serves `path`, which includes its `/v1` prefix if it has one. Only a path in canonical form has one: it is
    /// forwarded unchanged and must mean the same to every server that decodes, collapses or resolves paths.
    pub fn of_path(path: &str) -> Option<Self> {
        if !is_canonical(path) {
            return None;
        }
        let Some(rest) = path.strip_prefix("/v1/") else { return Self::of_root(path) };
        let (first, below) = rest.split_once('/').map_or((rest, None), |(first, below)| (first, Some(below)));
        match (first, below) {
            ("chat", Some("completions")) => Some(Self::Chat),
            ("completions", None) => Some(Self::Completions),
            ("embeddings", None) => Some(Self::Embeddings),
            ("responses" | "conversations", _) => Some(Self::Responses),
            // Listed one by one: a server might read another spelling under this path as `batches`.
            ("messages", None | Some("count_tokens")) => Some(Self::Messages),
            ("messages", Some(below)) if below.split('/').next() == Some("batches") => Some(Self::Batches),
            ("audio", _) => Some(Self::Audio),
            ("images", _) => Some(Self::Images),
            ("rerank", _) | ("reranking", None) => Some(Self::Rerank),
            ("score", None) => Some(Self::Score),
            ("classify", None) => Some(Self::Classify),
            ("moderations", _) => Some(Self::Moderations),
            ("files" | "uploads", _) => Some(Self::Files),
            ("batches", _) => Some(Self::Batches),
            ("vector_stores", _) => Some(Self::VectorStores),
            ("videos", _) => Some(Self::Videos),
            ("fine_tuning", Some(_)) => Some(Self::FineTuning),
            _ => None,
        }
    }

    /// The endpoint of a path at the root of an engine's server, outside the OpenAI API.
    fn of_root(path: &str) -> Option<Self> {
        match path {
            "/rerank" | "/v2/rerank" | "/reranking" => Some(Self::Rerank),
            "/score" => Some(Self::Score),
            "/classify" => Some(Self::Classify),
            "/pooling" => Some(Self::Pooling),
            "/tokenize" | "/detokenize" => Some(Self::Tokenize),
            _ => None,
        }
    }

    /// True if `path` addresses the endpoint itself rather than an object that was created there.
    pub fn is_root(self, path: &str) -> bool {
        let rest = path.split_once('/').map_or("", |(_, rest)| rest).split_once('/').map_or("", |(_, rest)| rest);
        match self {
            Self::Chat => rest == "chat/completions",
            Self::Audio | Self::Images => rest.split('/').count() == 2,
            Self::Score | Self::Classify | Self::Pooling | Self::Tokenize => true,
            Self::Rerank => !rest.contains('/'),
            _ if self.keeps_objects() => false,
            _ => rest == self.name(),
        }
    }

    /// True if the API defines a form (`multipart/form-data`) for POST to `path`.
    pub fn takes_form(path: &str) -> bool {
        match path.strip_prefix("/v1/") {
            Some(
                "audio/transcriptions"
                | "audio/translations"
                | "images/edits"
                | "images/variations"
                | "files"
                | "uploads"
                | "videos",
            ) => true,
            Some(rest) => {
                let part = rest.strip_prefix("uploads/").and_then(|rest| rest.strip_suffix("/parts"));
                part.is_some_and(|id| !id.contains('/')) || rest.starts_with("videos/")
            }
            None => false,
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
            Self::Score => "score",
            Self::Classify => "classify",
            Self::Pooling => "pooling",
            Self::Tokenize => "tokenize",
            Self::Moderations => "moderations",
            Self::Files => "files",
            Self::Batches => "batches",
            Self::VectorStores => "vector_stores",
            Self::Videos => "videos",
            Self::FineTuning => "fine_tuning",
        }
    }

    /// The endpoint with the name `name`.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|endpoint| endpoint.name() == name)
    }

    /// True if its answers are text that a model generates token by token.
    pub const fn generates(self) -> bool {
        matches!(self, Self::Chat | Self::Completions | Self::Responses | Self::Messages)
    }

    /// True if repeating a request has no effect but its cost, so that it may be retried elsewhere.
    pub const fn repeatable(self) -> bool {
        !matches!(self, Self::Responses | Self::Images) && !self.keeps_objects()
    }

    /// True if its requests are about objects that a provider keeps, such as files.
    pub const fn keeps_objects(self) -> bool {
        matches!(self, Self::Files | Self::Batches | Self::VectorStores | Self::Videos | Self::FineTuning)
    }
}

/// True if `path` has one interpretation only: segments of plain characters, none of them empty or made of dots alone.
/// `%`, `;`, `\\` and `+` are not plain: servers differ in how often and in which order they decode them and treat them
/// as separators.
fn is_canonical(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:=@".contains(&byte);
    let is_segment = |segment: &str| segment.bytes().all(is_plain) && segment.bytes().any(|byte| byte != b'.');
    path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_segment))
}

/// One server's interpretation of a path.
#[cfg(any(test, feature = "fuzzing"))]
type Reading = fn(&str) -> String;

/// Fuzz target for paths of any bytes: a path that is forwarded keeps its endpoint on servers that decode, collapse and
/// resolve it in their own ways.
///
/// # Panics
/// If two interpretations of an accepted path differ.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn fuzz_path(bytes: &[u8]) {
    let Ok(path) = std::str::from_utf8(bytes) else { return };
    let Some(endpoint) = Endpoint::of_path(path) else { return };
    let readings: [(&str, Reading); 8] = [
        ("decoded", decoded),
        ("decoded twice", |path| decoded(&decoded(path))),
        ("backslashes as slashes", |path| path.replace('\\', "/")),
        ("slashes collapsed", |path| format!("/{}", segments(path).join("/"))),
        ("dot segments resolved", resolved),
        ("parameters dropped", |path| {
            path.split('/').map(|it| it.split(';').next().unwrap_or(it)).collect::<Vec<_>>().join("/")
        }),
        ("cut where a text ends", |path| path.split(['\0', '#', '?']).next().unwrap_or(path).trim().replace('+', " ")),
        ("all of it", |path| resolved(&decoded(&decoded(path)).replace('\\', "/"))),
    ];
    for (how, read) in readings {
        assert_eq!(read(path), path, "{how}");
    }
    // A server that ignores case, or dots at a segment's end, changes the characters but not the endpoint.
    let loose = path.to_ascii_lowercase();
    assert_eq!(Endpoint::of_path(&loose), Some(endpoint), "in lower case");
    let trimmed: Vec<_> = path.split('/').map(|segment| segment.trim_end_matches('.')).collect();
    assert_eq!(Endpoint::of_path(&trimmed.join("/")), Some(endpoint), "without dots at the ends");
}

#[cfg(any(test, feature = "fuzzing"))]
fn segments(path: &str) -> Vec<&str> {
    path.split('/').filter(|segment| !segment.is_empty()).collect()
}

#[cfg(any(test, feature = "fuzzing"))]
fn resolved(path: &str) -> String {
    let mut kept = Vec::new();
    for segment in segments(path) {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

/// `text` with its `%XX` sequences decoded once; an invalid sequence stays as it is.
pub fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| byte == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let coded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(coded.unwrap_or(byte));
        rest = if coded.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
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
            ("/rerank", Some(Endpoint::Rerank)),
            ("/v1/reranking", Some(Endpoint::Rerank)),
            ("/rerank/x", None),
            ("/score", Some(Endpoint::Score)),
            ("/v1/score", Some(Endpoint::Score)),
            ("/classify", Some(Endpoint::Classify)),
            ("/pooling", Some(Endpoint::Pooling)),
            ("/v1/pooling", None),
            ("/tokenize", Some(Endpoint::Tokenize)),
            ("/detokenize", Some(Endpoint::Tokenize)),
            ("/v1/detokenize", None),
            ("/tokenize/", None),
            ("/v1/vector_stores/vs_1/search", Some(Endpoint::VectorStores)),
            ("/v1/videos", Some(Endpoint::Videos)),
            ("/v1/fine_tuning/jobs/j/events", Some(Endpoint::FineTuning)),
            ("/v1/fine_tuning", None),
            ("/v2/chat/completions", None),
            ("/v1/", None),
            ("/chat/completions", None),
            ("/v1/files/../../metrics", None),
            ("/v1/files/.%2E%2f..%5Cmetrics", None),
            ("/v1/files/..\\..\\metrics", None),
            ("/v1/files/a..b/.c", Some(Endpoint::Files)),
            ("/v1/files/file-1_a~b:c=@d", Some(Endpoint::Files)),
            ("/v1/messages/batches/b/results", Some(Endpoint::Batches)),
            ("/v1/messages/count_tokens", Some(Endpoint::Messages)),
        ] {
            assert_eq!(Endpoint::of_path(path), want, "{path}");
        }
    }

    #[test]
    fn a_path_with_two_interpretations_is_rejected() {
        for path in [
            "/v1/%62atches",
            "/v1/%2562atches",
            "/v1//batches",
            "//v1/batches",
            "/v1/batches/",
            "/v1/messages/%62atches",
            "/v1/messages//batches",
            "/v1/messages/./batches",
            "/v1/messages/..;/batches",
            "/v1/messages/..;x=y/batches",
            "/v1/messages;a=b/batches",
            "/v1/messages%2fbatches",
            "/v1/messages%252fbatches",
            "/v1/messages\\batches",
            "/v1/messages/batches;x",
            "/v1/messages/Batches",
            "/v1/messages/batches.",
            "/v1/messages/batches.json",
            "/v1/messages/batches:x",
            "/v1/messages/batches+",
            "/v1/messages/batches%00",
            "/v1/messages/x/../batches",
            "/v1/messages/other",
            "/v1/responses/.../x",
            "/V1/files",
            "/v1/Files",
            "/v1/files/\u{fe0f}",
            "/v1/files/a b",
            "/v1/files/a,b",
            "*",
            "",
        ] {
            assert_eq!(Endpoint::of_path(path), None, "{path}");
        }
    }

    #[test]
    fn an_accepted_path_has_one_interpretation() {
        for path in ["/v1/chat/completions", "/v1/files/a..b/.c.", "/v1/messages/batches/A:1", "/v2/rerank"] {
            assert!(Endpoint::of_path(path).is_some());
            fuzz_path(path.as_bytes());
        }
        assert_eq!((decoded("/%62%2e%"), resolved("/a/./b/../c//")), ("/b.%".to_owned(), "/a/c".to_owned()));
    }
}
