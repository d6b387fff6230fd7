//! Members of requests that OpenAI's own API needs. Other providers may reject them, so they do not get them.

use bytes::Bytes;

use signalbox_config::authority;
use signalbox_engines::Profile;
use signalbox_policy::{Dialect, Engine};
use signalbox_types::Endpoint;

/// The `prompt_cache_key` to add to a request of this conversation, if the engine is OpenAI's API.
///
/// OpenAI routes by the beginning of the prompt and by this key to the machine that holds the prompt cache
/// (<https://platform.openai.com/docs/guides/prompt-caching>). It does not change answers, so one is derived where the
/// caller gives none. A `session` is a salted hash, so that the provider does not learn the caller's name for it.
pub(super) fn prompt_cache_key(engine: &Engine, endpoint: Endpoint, session: Option<u64>) -> Option<(String, Bytes)> {
    let is_read = matches!(endpoint, Endpoint::Chat | Endpoint::Responses) && is_openai(engine);
    let session = session.filter(|_| is_read)?;
    Some(("prompt_cache_key".to_owned(), format!("\"sb-{session:016x}\"").into()))
}

/// The old and the new name of the limit on an answer, if the engine is OpenAI's API.
///
/// Its reasoning models reject `max_tokens`, and all its models take `max_completion_tokens`. Elsewhere `max_tokens` is the
/// name that every engine reads: Ollama ignores the other, and Mistral rejects it.
pub(super) fn token_limit(engine: &Engine, endpoint: Endpoint) -> Option<(&'static str, &'static str)> {
    (endpoint == Endpoint::Chat && is_openai(engine)).then_some(("max_tokens", "max_completion_tokens"))
}

fn is_openai(engine: &Engine) -> bool {
    match engine.dialect {
        Dialect::OpenAi => Profile::provider_at(authority(&engine.url)) == Some("openai"),
        Dialect::Azure { .. } | Dialect::Anthropic => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> Engine {
        Engine::at("e".into(), url.to_owned())
    }

    const OTHERS: [&str; 3] =
        ["http://10.0.0.1:8000/v1", "https://api.mistral.ai/v1", "https://x.api.openai.com.evil/v1"];

    #[test]
    fn only_openai_gets_a_cache_key() {
        let openai = at("https://api.openai.com/v1");
        let (name, value) = prompt_cache_key(&openai, Endpoint::Chat, Some(10)).unwrap();
        assert_eq!((&*name, &*value), ("prompt_cache_key", &b"\"sb-000000000000000a\""[..]));
        assert_eq!(prompt_cache_key(&openai, Endpoint::Chat, None), None);
        assert_eq!(prompt_cache_key(&openai, Endpoint::Embeddings, Some(1)), None);
        for url in OTHERS {
            assert_eq!(prompt_cache_key(&at(url), Endpoint::Chat, Some(1)), None, "{url}");
        }
    }

    #[test]
    fn only_openai_gets_the_new_name_of_the_limit() {
        let openai = at("https://api.openai.com/v1");
        assert_eq!(token_limit(&openai, Endpoint::Chat), Some(("max_tokens", "max_completion_tokens")));
        for endpoint in [Endpoint::Completions, Endpoint::Responses] {
            assert_eq!(token_limit(&openai, endpoint), None);
        }
        for url in OTHERS {
            assert_eq!(token_limit(&at(url), Endpoint::Chat), None, "{url}");
        }
    }
}
