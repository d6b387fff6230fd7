//! Spellings of API paths that come from base URLs with too little, too much, or a slash at their end.

#[cfg(any(test, feature = "fuzzing"))]
use super::endpoint::fuzz_path;
use super::{Endpoint, endpoint::decoded};

/// The canonical path of a request whose client was given another base URL than `http://host/v1`; `None` if `path` is
/// canonical already, or no such spelling.
///
/// Accepted are `/chat/completions` (a base URL without `/v1`), `//v1/…` and `/v1//…` (with a slash at its end),
/// `/v1/v1/…` (with `/v1`, of a client that adds its own), `/anthropic/v1/messages…`, and a slash at the end of an
/// endpoint. Azure's clients say `/openai/v1/…`, `/openai/…` or `/openai/deployments/{model}/…`; see [`deployment`].
/// Only the part before the endpoint varies: an empty segment below it, such as a missing id, is an error of the
/// client. The caller checks and forwards the canonical path alone.
pub fn canonical(path: &str) -> Option<String> {
    let mut rest = path.trim_start_matches('/');
    let vendor = below(rest, "anthropic");
    rest = vendor.unwrap_or(rest);
    let azure = below(rest, "openai");
    rest = azure.unwrap_or(rest);
    if azure.is_some()
        && let Some((_, inner)) = in_deployment(rest)
    {
        rest = inner;
    }
    let mut versions = 0;
    while let Some(inner) = below(rest, "v1").filter(|_| versions < 2) {
        (rest, versions) = (inner, versions + 1);
    }
    if vendor.is_some() && (versions == 0 || !rest.starts_with("messages")) {
        return None;
    }
    let whole = format!("/v1/{rest}");
    let canonical = match whole.strip_suffix('/') {
        Some(root) => Endpoint::of_path(root).filter(|endpoint| endpoint.is_root(root)).map(|_| root.to_owned()),
        None => Endpoint::of_path(&whole).map(|_| whole),
    };
    canonical.filter(|canonical| canonical != path)
}

/// The model that a path of Azure's clients names. Azure asks that deployment, whatever the body says, and some
/// clients send `"model": null` there.
pub fn deployment(path: &str) -> Option<String> {
    let (name, _) = in_deployment(below(path.trim_start_matches('/'), "openai")?)?;
    Some(decoded(name)).filter(|name| !name.is_empty())
}

/// The name of the deployment at the beginning of `rest`, and the path within it.
fn in_deployment(rest: &str) -> Option<(&str, &str)> {
    let inner = below(rest, "deployments")?;
    Some(inner.split_once('/').unwrap_or((inner, "")))
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
    assert!(std::str::from_utf8(bytes).ok().and_then(deployment).is_none_or(|name| !name.is_empty()));
    let Some((path, corrected)) = std::str::from_utf8(bytes).ok().and_then(|path| Some((path, canonical(path)?)))
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
            assert_eq!(deployment(path).as_deref(), want, "{path}");
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
            assert_eq!(canonical(path).as_deref(), want, "{path}");
        }
    }
}
