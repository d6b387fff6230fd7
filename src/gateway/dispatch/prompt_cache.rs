//! The key by which a provider brings requests of one conversation to the machine that holds its prompt cache.
//!
//! OpenAI routes by the beginning of the prompt and by `prompt_cache_key`
//! (<https://platform.openai.com/docs/guides/prompt-caching>). The key does not change answers, so one is derived where the
//! caller gives none. Other providers may reject the member, so they do not get it.

use bytes::Bytes;

use crate::{
    config::authority,
    policy::{Dialect, Engine},
    types::Endpoint,
};

/// Name of the member.
const MEMBER: &str = "prompt_cache_key";

/// The member to add to a request of this conversation, if the engine's provider reads it. A `session` is a salted hash, so
/// that the provider does not learn the caller's name for the conversation.
pub(super) fn default(engine: &Engine, endpoint: Endpoint, session: Option<u64>) -> Option<(String, Bytes)> {
    let is_read = match engine.dialect {
        Dialect::OpenAi => authority(&engine.url) == "api.openai.com",
        Dialect::Azure { .. } | Dialect::Anthropic => false,
    };
    let session = session.filter(|_| is_read && matches!(endpoint, Endpoint::Chat | Endpoint::Responses))?;
    Some((MEMBER.to_owned(), format!("\"sb-{session:016x}\"").into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_providers_that_read_the_key_get_one() {
        let at = |url: &str| Engine::at("e".into(), url.to_owned());
        let openai = at("https://api.openai.com/v1");
        let (name, value) = default(&openai, Endpoint::Chat, Some(10)).unwrap();
        assert_eq!((&*name, &*value), ("prompt_cache_key", &b"\"sb-000000000000000a\""[..]));
        assert_eq!(default(&openai, Endpoint::Chat, None), None);
        assert_eq!(default(&openai, Endpoint::Embeddings, Some(1)), None);
        for url in ["http://10.0.0.1:8000/v1", "https://api.mistral.ai/v1", "https://x.api.openai.com.evil/v1"] {
            assert_eq!(default(&at(url), Endpoint::Chat, Some(1)), None, "{url}");
        }
    }
}
