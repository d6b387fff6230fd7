//! Words in requests that steer the engine itself: its queue, its caches, where it reads the cache of another engine. They are
//! its operator's to say, and leave a request unless the caller's key has leave.

use http::HeaderMap;

use crate::stages::Call;
use signalbox_config::authority;
use signalbox_engines::{PROFILES, Profile};
use signalbox_policy::{Allowed, Dialect, Engine};
use signalbox_protocol::RequestBody;

/// Removes such headers. Returns the names of the members of the body that must not reach `engine`.
///
/// The words of all engines are taken out, because a proxy often hides which engine answers. Hosted providers are no
/// engines of the operator: there these words mean nothing, or what the provider says that they mean.
pub(super) fn take_out(call: &Call, engine: &Engine, body: &RequestBody, headers: &mut HeaderMap) -> Vec<String> {
    let policy = &call.serving.snapshot.policy;
    if call.key.is_some_and(|at| policy.keys[at].allow.contains(&Allowed::Engine)) || is_hosted(engine) {
        return Vec::new();
    }
    remove_headers(headers);
    members_of(body)
}

fn is_hosted(engine: &Engine) -> bool {
    engine.dialect != Dialect::OpenAi || Profile::provider_at(authority(&engine.url)).is_some()
}

fn remove_headers(headers: &mut HeaderMap) {
    let found: Vec<_> = headers.keys().filter(|name| is_control_header(name.as_str())).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

fn is_control_header(name: &str) -> bool {
    // Servers that pass headers as variables do not distinguish the two characters.
    if name.contains('_') {
        return is_control_header(&name.replace('_', "-"));
    }
    let mut known = PROFILES.iter().flat_map(|profile| profile.control.headers);
    known.any(|known| known.strip_suffix('*').map_or(name == *known, |start| name.starts_with(start)))
}

fn members_of(body: &RequestBody) -> Vec<String> {
    let is_control =
        |name: &[u8]| PROFILES.iter().any(|it| it.control.members.iter().any(|known| known.as_bytes() == name));
    let found = body.members().map(|(name, _)| name).filter(|name| is_control(name));
    found.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderValue;

    use super::*;
    use signalbox_types::Endpoint;

    #[test]
    fn words_of_all_engines_are_found() {
        let body = r#"{"model":"m","priority":-100,"messages":[{"role":"user","content":"hi"}],"kv_transfer_params":{"remote_host":"h"},"bootstrap_host":"h","seed":1}"#;
        let body = RequestBody::json(Endpoint::Chat, Bytes::from_static(body.as_bytes())).unwrap();
        assert_eq!(members_of(&body), ["priority", "kv_transfer_params", "bootstrap_host"]);
        let mut headers = HeaderMap::new();
        for name in
            ["x-override-priority", "x_override_bootstrap_host", "x-data-parallel-rank", "x-session-id", "priority"]
        {
            headers.insert(name, HeaderValue::from_static("1"));
        }
        remove_headers(&mut headers);
        let mut left: Vec<_> = headers.keys().map(http::HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["priority", "x-session-id"]);
    }

    #[test]
    fn hosted_providers_have_words_of_their_own() {
        let at = |url: &str| Engine::at("e".into(), url.to_owned());
        assert!(is_hosted(&at("https://api.openai.com/v1")) && is_hosted(&at("https://x.api.groq.com/openai/v1")));
        assert!(!is_hosted(&at("http://10.0.0.1:8000/v1")) && !is_hosted(&at("https://api.openai.com.evil/v1")));
        assert!(is_hosted(&Engine { dialect: Dialect::Anthropic, ..at("http://10.0.0.1") }));
    }
}
