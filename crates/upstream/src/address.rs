//! Upstream URLs and headers by dialect: where a request goes and which credentials it carries.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use signalbox_config as config;
use signalbox_engines::metrics_paths;
use signalbox_policy::{Backend, Dialect, Engine, EngineWay, MetricsPlace, Secret};

/// URL of `path` on `engine` for `backend`, with the client's query.
pub fn url(engine: &Engine, backend: &Backend, path: &str, query: Option<&str>) -> String {
    let base = engine.url.trim_end_matches('/');
    let url = match &engine.dialect {
        // Hosted providers have everything below their base address; engines have some paths beside `/v1`.
        Dialect::OpenAi | Dialect::Anthropic if engine.account.is_some() && !path.starts_with("/v1/") => {
            format!("{base}{}", path.strip_prefix("/v2").unwrap_or(path))
        }
        Dialect::OpenAi | Dialect::Anthropic => openai_url(base, path, engine.way.is_exact),
        Dialect::Azure { api_version } => {
            let rest = path.strip_prefix("/v1").unwrap_or(path);
            match &backend.deployment {
                Some(deployment) => {
                    format!("{base}/openai/deployments/{deployment}{rest}?api-version={api_version}")
                }
                None => format!("{base}/openai{rest}?api-version={api_version}"),
            }
        }
    };
    with_query(url, &engine.way, query)
}

/// Adds the query of an engine to a URL, and that of a caller. The engine's parameters come first: servers that take one
/// value of a name take the first or the last, so that a caller's of the same name is left out.
pub(crate) fn with_query(mut url: String, way: &EngineWay, query: Option<&str>) -> String {
    let own = way.query.as_ref().map_or("", |own| &*own.0);
    let name = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned();
    let is_own = |pair: &&str| !own.is_empty() && own.split('&').any(|it| name(it) == name(pair));
    let of_caller = query.into_iter().flat_map(|query| query.split('&')).filter(|pair| !is_own(pair));
    for pair in own.split('&').filter(|pair| !pair.is_empty()).chain(of_caller) {
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(pair);
    }
    url
}

/// URL of `path` on a server of OpenAI's dialect with the base address `base`, which is the base of its API's paths if
/// `is_exact`.
pub(crate) fn openai_url(base: &str, path: &str, is_exact: bool) -> String {
    let base = base.trim_end_matches('/');
    match path.strip_prefix("/v1") {
        // Some providers have their API at other versions, or below one.
        Some(rest) if is_exact || config::has_version(base) => format!("{base}{rest}"),
        None if ends_with_v1(base) => format!("{}{path}", &base[..base.len() - "/v1".len()]),
        _ => format!("{base}{path}"),
    }
}

/// URL of the list of models of `engine`.
pub fn models_url(engine: &Engine) -> String {
    let base = engine.url.trim_end_matches('/');
    match &engine.dialect {
        Dialect::OpenAi | Dialect::Anthropic => {
            with_query(openai_url(base, "/v1/models", engine.way.is_exact), &engine.way, None)
        }
        Dialect::Azure { api_version } => {
            with_query(format!("{base}/openai/models?api-version={api_version}"), &engine.way, None)
        }
    }
}

/// URLs at which the metrics page of `engine` may be, in the order in which they are tried.
pub fn metrics_urls(engine: &Engine) -> Vec<String> {
    let MetricsPlace { path, port } = &engine.metrics;
    let root = port.and_then(|port| at_port(&engine.url, port)).unwrap_or_else(|| root_url(&engine.url, ""));
    let paths: Vec<&str> = match path {
        Some(path) => vec![path],
        None => metrics_paths(),
    };
    paths.into_iter().map(|path| format!("{root}{path}")).collect()
}

/// The root of the server at another port of the host of `url`.
fn at_port(url: &str, port: u16) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    let host = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).map_or(authority, |(host, _)| host);
    Some(format!("{scheme}://{host}:{port}"))
}

/// URL of `path` at the root of the engine's server, outside its API (`/metrics`, `/health`).
pub fn root_url(engine_url: &str, path: &str) -> String {
    let base = engine_url.trim_end_matches('/');
    let root = if ends_with_v1(base) { &base[..base.len() - "/v1".len()] } else { base };
    format!("{root}{path}")
}

/// True if the path of `base` ends with OpenAI's version; a host of that name does not count.
fn ends_with_v1(base: &str) -> bool {
    let rest = base.split_once("://").map_or(base, |(_, rest)| rest);
    rest.split_once('/').is_some_and(|(_, path)| path == "v1" || path.ends_with("/v1"))
}

/// Reads any lines as an engine's address, a path below `/v1` or `/v2`, a query and a deployment, and builds request
/// URLs. An entry point for fuzzers, which must never panic.
///
/// # Panics
///
/// If a request would go to another host than the engine.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_address(bytes: &[u8]) {
    use signalbox_policy::Audience;

    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let Ok(base) = signalbox_config::read_url(line()) else { return };
    // An address that no client can parse cannot be called.
    let Ok(own) = reqwest::Url::parse(&base) else { return };
    let (path, query, deployment) = (line(), line(), line());
    let same = |url: &str, what: &str| {
        // The same if a client's path is invalid.
        let Ok(url) = reqwest::Url::parse(url) else { return };
        let place = |url: &reqwest::Url| (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port());
        assert!(place(&url) == place(&own) && url.username().is_empty(), "{what} of {base} goes to {url}");
    };
    for path in ["/metrics", "/health"] {
        same(&root_url(&base, path), path);
    }
    let azure = Dialect::Azure { api_version: "2024-10-21".to_owned() };
    for dialect in [Dialect::OpenAi, azure] {
        let engine = Engine { dialect, ..Engine::at("e".into(), base.clone()) };
        let backend = Backend {
            name: "b".into(),
            engine: 0,
            model: None,
            strip: None,
            adapter: false,
            serves: None,
            deployment: Some(deployment).filter(|name| !name.is_empty()).map(Into::into),
            same_as: None,
            weight: None,
            drop: Vec::new(),
            defaults: Vec::new(),
            audience: Audience::All,
            follows: None,
        };
        for version in ["/v1", "/v2"] {
            let path = format!("{version}/{path}");
            let Ok(asked) = format!("{path}?{query}").parse::<http::uri::PathAndQuery>() else { continue };
            same(&url(&engine, &backend, asked.path(), asked.query()), &path);
        }
    }
}

/// The version of Anthropic's API for requests that name none.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Sets the headers that every request to this engine has: those of its dialect, and its own.
pub fn put_engine_headers(headers: &mut HeaderMap, engine: &Engine) {
    put_headers(headers, &engine.way);
    if engine.dialect == Dialect::Anthropic {
        let version = HeaderValue::from_static(ANTHROPIC_VERSION);
        headers.entry(HeaderName::from_static("anthropic-version")).or_insert(version);
    }
}

/// Sets the headers that the policy gives an engine.
pub(crate) fn put_headers(headers: &mut HeaderMap, way: &EngineWay) {
    for (name, value) in &*way.headers {
        if let (Ok(name), Some(value)) = (HeaderName::from_bytes(name.as_bytes()), sensitive(&value.0)) {
            headers.insert(name, value);
        }
    }
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Sets the provider's key on a request, in the one header that the engine's dialect reads.
pub fn authorise(headers: &mut HeaderMap, engine: &Engine, key: &Secret) {
    authorise_dialect(headers, &engine.dialect, key);
}

/// Sets the provider's key on a request to an engine of this dialect.
pub(crate) fn authorise_dialect(headers: &mut HeaderMap, dialect: &Dialect, key: &Secret) {
    let mut put = |name: HeaderName, text: &str| {
        if let Some(value) = sensitive(text) {
            headers.insert(name, value);
        }
    };
    match dialect {
        Dialect::Azure { .. } => put(HeaderName::from_static("api-key"), &key.0),
        Dialect::OpenAi => put(header::AUTHORIZATION, &format!("Bearer {}", key.0)),
        Dialect::Anthropic => put(HeaderName::from_static("x-api-key"), &key.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_looked_for_where_engines_have_them_or_where_the_policy_says() {
        let urls = |url: &str, path: Option<&str>, port| {
            let metrics = MetricsPlace { path: path.map(Into::into), port };
            metrics_urls(&Engine { metrics, ..Engine::at("e".into(), url.to_owned()) })
        };
        assert_eq!(urls("http://g:8000/v1", None, None), ["http://g:8000/metrics", "http://g:8000/prometheus/metrics"]);
        assert_eq!(urls("http://g/a/v1", Some("/m"), None), ["http://g/a/m"]);
        assert_eq!(urls("http://[::1]/v1", Some("/m"), Some(8081)), ["http://[::1]:8081/m"]);
        assert_eq!(urls("https://[::1]:8/a/v1", Some("/m"), Some(8081)), ["https://[::1]:8081/m"]);
        assert_eq!(urls("http://g:8000", None, Some(8081))[0], "http://g:8081/metrics");
    }
    use signalbox_policy::Audience;
    use signalbox_types::Endpoint;

    fn engine(url: &str, dialect: Dialect) -> Engine {
        Engine { dialect, ..Engine::at("e".into(), url.into()) }
    }

    fn backend(deployment: Option<&str>) -> Backend {
        Backend {
            name: "b".into(),
            engine: 0,
            model: None,
            strip: None,
            adapter: false,
            serves: None,
            deployment: deployment.map(Into::into),
            same_as: None,
            weight: None,
            drop: Vec::new(),
            defaults: Vec::new(),
            audience: Audience::All,
            follows: None,
        }
    }

    #[test]
    fn paths_join_with_and_without_a_version_in_the_base() {
        let plain = backend(None);
        let at = |base: &str, path: &str, query| url(&engine(base, Dialect::OpenAi), &plain, path, query);
        assert_eq!(at("http://h/v1", "/v1/chat/completions", None), "http://h/v1/chat/completions");
        assert_eq!(at("http://h/v1/", "/v1/files", Some("a=b")), "http://h/v1/files?a=b");
        assert_eq!(at("http://h", "/v1/embeddings", None), "http://h/v1/embeddings");
        assert_eq!(at("http://h/v1", "/v2/rerank", None), "http://h/v2/rerank");
        assert_eq!(root_url("http://h:1/v1", "/metrics"), "http://h:1/metrics");
        assert_eq!(root_url("http://h:1/x", "/metrics"), "http://h:1/x/metrics");
    }

    #[test]
    fn an_exact_base_and_a_query_are_the_engine_s() {
        let of =
            |is_exact, query: &str| EngineWay { is_exact, query: Some(Secret(query.into())), ..EngineWay::default() };
        let at = |base: &str, way: EngineWay, path: &str, query| {
            url(&Engine { way, ..engine(base, Dialect::OpenAi) }, &backend(None), path, query)
        };
        let exact = EngineWay { is_exact: true, ..EngineWay::default() };
        assert_eq!(
            at("https://h/inference", exact.clone(), "/v1/chat/completions", None),
            "https://h/inference/chat/completions"
        );
        assert_eq!(at("https://h", exact.clone(), "/v1/embeddings", Some("x=1")), "https://h/embeddings?x=1");
        assert_eq!(at("https://h/v1", exact, "/v1/embeddings", None), "https://h/v1/embeddings");
        let both = at("https://h", of(true, "api-version=2"), "/v1/x", Some("a=b&api-version=1&c"));
        assert_eq!(both, "https://h/x?api-version=2&a=b&c");
        let azure = engine("https://r", Dialect::Azure { api_version: "1".into() });
        let azure = Engine { way: of(false, "k=v"), ..azure };
        assert_eq!(models_url(&azure), "https://r/openai/models?api-version=1&k=v");
        let plain = Engine { way: of(true, ""), ..engine("https://h/inference", Dialect::OpenAi) };
        assert_eq!(models_url(&plain), "https://h/inference/models");
    }

    #[test]
    fn azure_is_addressed_by_deployment() {
        let azure = engine("https://r.example", Dialect::Azure { api_version: "2024-10-21".into() });
        assert_eq!(
            url(&azure, &backend(Some("gpt4o")), "/v1/chat/completions", Some("x=1")),
            "https://r.example/openai/deployments/gpt4o/chat/completions?api-version=2024-10-21&x=1"
        );
    }

    #[test]
    fn a_canonical_path_goes_out_as_it_was_classified() {
        let azure = engine("https://r.example", Dialect::Azure { api_version: "1".into() });
        for path in ["/v1/files/a..b/.c", "/v1/files/f-1_a~b:c=@d", "/v1/messages/batches/A.B/results"] {
            assert!(Endpoint::of_path(path).is_some());
            let sent = |text: &str| reqwest::Url::parse(text).unwrap().path().to_owned();
            assert_eq!(sent(&url(&engine("http://h/v1", Dialect::OpenAi), &backend(None), path, None)), path);
            assert_eq!(sent(&url(&azure, &backend(None), path, None)), format!("/openai{}", &path[3..]));
        }
    }
}
