//! Headers of requests and answers: which of them pass the gateway, and which may change an answer.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use signalbox_policy::{Engine, Secret};
use signalbox_types::Name;

/// Client headers that may go to `engine`: end-to-end headers without the client's own credentials, framing (which is set
/// anew), our directives, and encodings that would hide the answer from us.
///
/// To an engine [outside](Engine::is_outside) only headers of the APIs and of tracing go, and those that the policy adds:
/// a proxy before the gateway may have added tokens and the identity of the caller under any name.
pub fn forwarded(headers: &HeaderMap, engine: &Engine) -> HeaderMap {
    let is_outside = engine.is_outside();
    let stays =
        |name: &str| is_outside && !may_leave(name) && !engine.forward_headers.iter().any(|added| &**added == name);
    end_to_end(headers, |name, _| is_private(name) || is_ours(name) || stays(name))
}

/// True for a header of an API of models, of a client's software and sessions, or of tracing.
fn may_leave(name: &str) -> bool {
    const FAMILIES: [&str; 12] = [
        "anthropic-",
        "openai-",
        "x-openai-",
        "x-stainless-",
        "x-codex-",
        "x-claude-",
        "x-goog-api-client",
        "x-amzn-bedrock-",
        "x-b3-",
        "x-datadog-",
        "x-openrouter-",
        "x-grok-",
    ];
    FAMILIES.iter().any(|family| name.starts_with(family))
        || matches!(
            name,
            "accept"
                | "b3"
                | "content-type"
                | "conversation_id"
                | "elastic-apm-traceparent"
                | "http-referer"
                | "idempotency-key"
                | "originator"
                | "prefer"
                | "priority"
                | "referer"
                | "sentry-trace"
                | "session-id"
                | "session_id"
                | "traceparent"
                | "tracestate"
                | "uber-trace-id"
                | "user-agent"
                | "x-amzn-trace-id"
                | "x-app"
                | "x-client-request-id"
                | "x-cloud-trace-context"
                | "x-correlation-id"
                | "x-initiator"
                | "x-ms-client-request-id"
                | "x-request-id"
                | "x-session-affinity"
                | "x-session-id"
                | "x-title"
        )
}

/// True for our own directives and response headers.
fn is_ours(name: &str) -> bool {
    name.starts_with("x-signalbox-")
}

/// Headers that are usually added to those that are kept: the map need not grow for them.
const ADDED: usize = 12;

fn is_private(name: &str) -> bool {
    // Servers that pass headers as variables do not distinguish the two characters.
    if name.contains('_') {
        return is_private(&name.replace('_', "-"));
    }
    matches!(
        name,
        "authorization"
            | "api-key"
            | "x-api-key"
            | "openai-organization"
            | "openai-project"
            | "cookie"
            | "host"
            | "content-length"
            | "accept-encoding"
            | "expect"
            // A conditional request could be answered without a body, which would not be a complete answer.
            | "if-match"
            | "if-none-match"
            | "if-modified-since"
            | "if-unmodified-since"
            // Some servers take these for the method and the path, which were checked here.
            | "x-http-method"
            | "x-http-method-override"
            | "x-method-override"
            | "x-original-uri"
            | "x-original-url"
            | "x-rewrite-url"
    )
}

/// All headers except those for a single connection.
pub fn unchanged(headers: &HeaderMap) -> HeaderMap {
    end_to_end(headers, |name, _| matches!(name, "host" | "expect"))
}

/// Client headers that may change an answer, in one spelling: versions of APIs and features that are asked for, and
/// `more`, which the policy names in lower case. Empty for most clients.
///
/// Load balancers, networks and clients give each request headers of its own; any other choice would make each request
/// another one.
pub fn distinguishing(headers: &HeaderMap, more: &[Name]) -> Vec<u8> {
    let mut kept: Vec<(&str, &[u8])> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .filter(|(name, _)| changes_answers(name) || more.iter().any(|more| **more == **name))
        .collect();
    // Values of one name keep their order.
    kept.sort_by_key(|(name, _)| *name);
    let mut bytes = Vec::new();
    for part in kept.iter().flat_map(|(name, value)| [name.as_bytes(), value]) {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

/// True for a header by which an API is asked for another version of itself, or for a feature.
fn changes_answers(name: &str) -> bool {
    matches!(name, "openai-beta" | "anthropic-beta" | "anthropic-version" | "x-openrouter-transforms")
        || name.starts_with("x-amzn-bedrock-")
}

/// Upstream headers that may go to the client: none that contains one of the provider's `keys`.
pub fn returned(headers: &HeaderMap, keys: &[Secret]) -> HeaderMap {
    end_to_end(headers, |name, value| {
        is_ours(name)
            || keys.iter().any(|key| key.is_in(value.as_bytes()))
            // This gateway decides which browser origins may read an answer.
            || name.starts_with("access-control-")
            || matches!(
                name,
                "set-cookie"
                    | "location"
                    | "content-location"
                    | "server"
                    | "date"
                    | "content-length"
                    | "x-request-id"
                    | "alt-svc"
                    | "strict-transport-security"
                    | "www-authenticate"
            )
    })
}

/// Headers that are neither hop-by-hop nor private.
fn end_to_end(headers: &HeaderMap, private: impl Fn(&str, &HeaderValue) -> bool) -> HeaderMap {
    let named = connection_headers(headers);
    let mut kept = HeaderMap::with_capacity(headers.len() + ADDED);
    for (name, value) in headers {
        if !private(name.as_str(), value) && !is_hop_by_hop(name) && !named.contains(name) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

/// Hop-by-hop headers of RFC 9110, section 7.6.1.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection" | "keep-alive" | "proxy-connection" | "te" | "trailer" | "transfer-encoding" | "upgrade"
    ) || name.as_str().starts_with("proxy-auth")
}

/// Headers that `Connection` declares hop-by-hop.
fn connection_headers(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(header::CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(url: &str, account: Option<usize>) -> Engine {
        Engine { account, ..Engine::at("e".into(), url.into()) }
    }

    #[test]
    fn credentials_framing_and_directives_are_not_forwarded() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer mine"),
            ("x-api-key", "mine"),
            ("cookie", "c"),
            ("host", "h"),
            ("content-length", "3"),
            ("transfer-encoding", "chunked"),
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("proxy-authorization", "p"),
            ("x-signalbox-pool", "small"),
            ("accept-encoding", "gzip"),
            ("openai-organization", "mine"),
            ("if-none-match", "e"),
            ("if-match", "e"),
            ("if-modified-since", "d"),
            ("if-unmodified-since", "d"),
            ("x-http-method-override", "DELETE"),
            ("x-http-method", "DELETE"),
            ("x-method-override", "DELETE"),
            ("x-original-url", "/v1/batches"),
            ("x-rewrite-url", "/v1/batches"),
            ("x_http_method_override", "DELETE"),
            ("openai-beta", "kept"),
            ("traceparent", "kept"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let mut kept: Vec<_> = forwarded(&headers, &engine("http://h", None)).keys().map(ToString::to_string).collect();
        kept.sort();
        assert_eq!(kept, ["openai-beta", "traceparent"]);
    }

    #[test]
    fn no_header_repeats_a_provider_s_key() {
        let mut headers = HeaderMap::new();
        headers.append("x-echo", HeaderValue::from_static("Bearer sk-1"));
        headers.append("x-echo", HeaderValue::from_static("other"));
        headers.append("etag", HeaderValue::from_static("W/\"sk-2\""));
        let kept = returned(&headers, &["sk-1", "sk-2"].map(|key| Secret(key.into())));
        assert_eq!(kept.iter().map(|(_, value)| value.to_str().unwrap()).collect::<Vec<_>>(), ["other"]);
    }

    #[test]
    fn relevant_headers_have_one_spelling() {
        let of = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, HeaderValue::from_static(value));
            }
            distinguishing(&headers, &["x-a".into(), "x-b".into()])
        };
        let usual =
            [("authorization", "a"), ("user-agent", "b"), ("cf-ray", "c"), ("x-amzn-trace-id", "d"), ("x-c", "e")];
        assert!(of(&usual).is_empty());
        let both = of(&[("x-b", "2"), ("user-agent", "u"), ("x-a", "1")]);
        assert_eq!(both, of(&[("x-a", "1"), ("x-b", "2")]));
        for other in [of(&[("x-a", "1")]), of(&[("x-a", "2"), ("x-b", "1")]), of(&[("x-a", "1x-b2")]), Vec::new()] {
            assert_ne!(both, other);
        }
        assert_ne!(of(&[("x-a", "1"), ("x-a", "2")]), of(&[("x-a", "2"), ("x-a", "1")]));
        assert_ne!(of(&[("anthropic-beta", "a")]), of(&[("anthropic-beta", "b")]));
    }

    #[test]
    fn outside_only_headers_of_apis_and_traces_go() {
        let mut headers = HeaderMap::new();
        for name in [
            "anthropic-beta",
            "traceparent",
            "user-agent",
            "x-extra",
            "x-goog-iap-jwt-assertion",
            "cf-access-jwt-assertion",
            "x-forwarded-for",
            "x-forwarded-user",
            "x-real-ip",
            "x-amzn-oidc-data",
            "x-vault-token",
            "baggage",
            "cookie",
        ] {
            headers.insert(name, HeaderValue::from_static("v"));
        }
        let names = |engine: &Engine| {
            let mut names: Vec<_> = forwarded(&headers, engine).keys().map(ToString::to_string).collect();
            names.sort();
            names
        };
        let hosted = ["anthropic-beta", "traceparent", "user-agent"];
        assert_eq!(names(&engine("http://10.0.0.1", Some(0))), hosted);
        assert_eq!(names(&engine("https://api.example.com/v1", None)), hosted);
        let with =
            Engine { forward_headers: ["x-extra".into(), "cookie".into()].into(), ..engine("http://h", Some(0)) };
        assert_eq!(names(&with), ["anthropic-beta", "traceparent", "user-agent", "x-extra"], "credentials never go");
        assert_eq!(names(&engine("http://gpu-1:8000", None)).len(), headers.len() - 1);
    }
}
