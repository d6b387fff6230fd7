//! Which conversation a request belongs to, where its client says so.

use http::HeaderMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The headers that name a conversation, the ones that are meant for us first. The others are what coding agents send by themselves:
///
/// * `x-claude-code-session-id`: Claude Code, with every request (<https://code.claude.com/docs/en/llm-gateway>, "Request headers").
/// * `session_id`: Codex, with every request of a conversation (`build_conversation_headers` in
///   `codex-rs/codex-api/src/requests/headers.rs` of <https://github.com/openai/codex>); earlier ones sent the same value as
///   `conversation_id` too. `session-id` and `x-session-id` are how other clients of that API, and proxies that drop
///   underscores, write it.
const HEADERS: [&str; 6] =
    ["x-signalbox-session", "x-claude-code-session-id", "session_id", "session-id", "x-session-id", "conversation_id"];

/// The conversation's hash with a `salt` that is known to nobody: what clients call it is kept nowhere.
pub(super) fn session(headers: &HeaderMap, salt: u64) -> Option<u64> {
    let named = HEADERS.iter().find_map(|name| headers.get(*name).filter(|value| !value.is_empty()))?;
    Some(xxh3_64_with_seed(named.as_bytes(), salt))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn each_name_of_a_conversation_is_understood_and_ours_comes_first() {
        let of = |pairs: &[(&'static str, &'static str)]| {
            let headers: HeaderMap = pairs
                .iter()
                .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            session(&headers, 7)
        };
        assert_eq!((of(&[]), of(&[("session_id", "")])), (None, None));
        for name in HEADERS {
            assert_eq!(of(&[(name, "a")]), of(&[("x-signalbox-session", "a")]), "{name}");
        }
        assert_eq!(of(&[("session_id", "b"), ("x-signalbox-session", "a")]), of(&[("x-session-id", "a")]));
        assert_ne!(of(&[("session_id", "a")]), of(&[("session_id", "b")]));
    }
}
