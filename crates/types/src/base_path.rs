//! Spellings of API paths that come from base URLs with too little, too much, or a slash at their end.

#[cfg(any(test, feature = "fuzzing"))]
use super::endpoint::fuzz_path;
use super::{Endpoint, endpoint::decoded};

/// A path in another spelling than its canonical one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corrected {
    /// The canonical path.
    pub path: String,
    /// True if an Azure client sent it, whose query has an `api-version`.
    pub is_azure: bool,
    /// The deployment in an Azure client's path. Azure asks it whatever the body says, and some clients send
    /// `"model": null` there.
    pub deployment: Option<String>,
}

/// The canonical path of a request whose client was given another base URL than `http://host/v1`; `None` if `path` is
/// canonical already, or no such spelling.
///
/// Accepted are `/chat/completions` (a base URL without `/v1`), `//v1/…` and `/v1//…` (with a slash at its end),
/// `/v1/v1/…` (with `/v1`, of a client that adds its own), `/anthropic/v1/messages…`, and a slash at the end of an
/// endpoint; also `/v1/tokenize` and such, which engines have at their root. Azure's clients say `/openai/v1/…`,
/// `/openai/…` or `/openai/deployments/{model}/…`. Only the part before the endpoint varies: an empty segment below it, such as a missing id, is an error of
/// the client. The caller checks and forwards the canonical path alone.
pub fn canonical(path: &str) -> Option<Corrected> {
    let mut rest = path.trim_start_matches('/');
    let vendor = below(rest, "anthropic");
    rest = vendor.unwrap_or(rest);
    let azure = below(rest, "openai");
    rest = azure.unwrap_or(rest);
    let mut deployment = None;
    if let (Some(inner), Some(_)) = (rest.strip_prefix("deployments/"), azure) {
        let (name, inner) = inner.split_once('/').filter(|(name, _)| !name.is_empty())?;
        (rest, deployment) = (inner, Some(decoded(name)));
    }
    let mut versions = 0;
    while let Some(inner) = below(rest, "v1").filter(|_| versions < 2) {
        (rest, versions) = (inner, versions + 1);
    }
    if vendor.is_some() && (versions == 0 || !rest.starts_with("messages")) {
        return None;
    }
    let (at_root, versioned) = (format!("/{rest}"), format!("/v1/{rest}"));
    let candidates = if versions == 0 { [at_root, versioned] } else { [versioned, at_root] };
    if below(rest, "v1").is_some() {
        return None;
    }
    let path = candidates.into_iter().find_map(served).filter(|canonical| canonical != path)?;
    Some(Corrected { path, is_azure: azure.is_some(), deployment })
}

/// The path without a slash at its end, if it has an endpoint.
fn served(mut path: String) -> Option<String> {
    if path.ends_with('/') {
        path.pop();
        return Endpoint::of_path(&path).filter(|endpoint| endpoint.is_root(&path)).map(|_| path);
    }
    Endpoint::of_path(&path).map(|_| path)
}

/// The path below the segment `name` at the beginning of `rest`.
fn below<'a>(rest: &'a str, name: &str) -> Option<&'a str> {
    Some(rest.strip_prefix(name)?.strip_prefix('/')?.trim_start_matches('/'))
}

/// Fuzz target for paths of any bytes, as they come: what is corrected leads to a canonical path with the same endpoint
/// at its end, and both have one interpretation only.
///
/// # Panics
/// If not.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_base_path(bytes: &[u8]) {
    fuzz_path(bytes);
    let Some((path, Corrected { path: corrected, .. })) =
        std::str::from_utf8(bytes).ok().and_then(|path| Some((path, canonical(path)?)))
    else {
        return;
    };
    assert!(Endpoint::of_path(&corrected).is_some() && canonical(&corrected).is_none(), "{corrected}");
    assert!(path.trim_end_matches('/').ends_with(&corrected["/v1/".len()..]), "{corrected}");
    fuzz_path(corrected.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deployments_name_models() {
        for (path, want) in [
            ("/openai/deployments/gpt-4o/chat/completions", Some("gpt-4o")),
            ("//openai//deployments/org%2Fmodel%3A7b/embeddings", Some("org/model:7b")),
            ("/openai/deployments//chat/completions", None),
            ("/openai/v1/chat/completions", None),
            ("/deployments/m/chat/completions", None),
        ] {
            assert_eq!(canonical(path).and_then(|corrected| corrected.deployment).as_deref(), want, "{path}");
        }
    }

    #[test]
    fn spellings_of_base_urls_lead_to_one_path() {
        for (path, want) in [
            ("/chat/completions", Some("/v1/chat/completions")),
            ("//chat/completions", Some("/v1/chat/completions")),
            ("//v1/chat/completions", Some("/v1/chat/completions")),
            ("///v1//chat/completions", Some("/v1/chat/completions")),
            ("/v1/chat/completions/", Some("/v1/chat/completions")),
            ("/v1/v1/messages", Some("/v1/messages")),
            ("/v1/v1/messages/count_tokens", Some("/v1/messages/count_tokens")),
            ("/messages/batches/b/results", Some("/v1/messages/batches/b/results")),
            ("/anthropic/v1/messages", Some("/v1/messages")),
            ("/openai/v1/chat/completions", Some("/v1/chat/completions")),
            ("/openai/responses", Some("/v1/responses")),
            ("/openai/deployments/gpt-4o/chat/completions", Some("/v1/chat/completions")),
            ("/openai/deployments/a%2Fb/audio/speech", Some("/v1/audio/speech")),
            ("//openai//deployments/m/images/generations", Some("/v1/images/generations")),
            ("/tokenize/", Some("/tokenize")),
            ("/v1/tokenize", Some("/tokenize")),
            ("/v1/pooling", Some("/pooling")),
            ("//rerank", Some("/rerank")),
            ("/v1/v1/rerank/", Some("/v1/rerank")),
            ("/v1/v2/rerank", Some("/v2/rerank")),
            ("/rerank", None),
            ("/openai/deployments/m", None),
            ("/deployments/m/chat/completions", None),
            ("/openai/deployments/m/chat/%62", None),
            ("/files/f-1/content", Some("/v1/files/f-1/content")),
            ("/v1/chat/completions", None),
            ("/v2/rerank", None),
            ("/v1/v1/v1/messages", None),
            ("/anthropic/messages", None),
            ("/anthropic/v1/chat/completions", None),
            ("/v1/files/", None),
            ("/v1/files//content", None),
            ("/v1/messages//batches", None),
            ("/v1/messages/%62atches", None),
            ("/v1/../v1/messages", None),
            ("/metrics", None),
            ("/v1/", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(canonical(path).map(|corrected| corrected.path).as_deref(), want, "{path}");
        }
    }

    #[test]
    fn azure_s_paths_name_a_deployment() {
        let of = |path: &str| canonical(path).map(|corrected| (corrected.is_azure, corrected.deployment));
        assert_eq!(of("/openai/deployments/a%2Fb/chat/completions"), Some((true, Some("a/b".to_owned()))));
        assert_eq!(of("/openai/v1/responses"), Some((true, None)));
        assert_eq!(of("/chat/completions"), Some((false, None)));
    }
}
