//! The way to an engine beside its address: headers, query, the base of its paths, certificates and proxies.

use std::{fs, net::SocketAddr, path::Path, sync::Arc};

use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::{
    support::{
        client::{Answer, post},
        gateway::{Gateway, Start},
        mock::{Mock, Plan, Seen, polite},
        until,
    },
    tls::Root,
};

async fn chat(gateway: &Gateway, model: &str) -> Answer {
    let body = json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }] });
    post(&gateway.at("/v1/chat/completions"), &body).await
}

#[tokio::test]
async fn headers_and_the_query_of_an_engine_are_in_all_its_requests() {
    let mock = Mock::start(polite).await;
    let gateway = Start::with(&format!(
        "accounts: {{ a: {{ keys: [sk-1] }} }}\n\
         engines:\n  one: {{ url: \"{0}/v1\", account: a, headers: {{ OpenAI-Project: p1, x-tenant: \"${{TENANT}}\" }}, \
         query: {{ api-version: \"2\", k: \"a b&c\" }} }}\n  \
         two: {{ url: \"{0}/v1\", headers: {{ authorization: \"Api-Key k\" }}, scrape: 100ms }}\n\
         pools: {{ p: {{ model: m, backends: [{{ engine: one }}] }}, q: {{ model: n, backends: [{{ engine: two }}] }} }}\n",
        mock.url().trim_end_matches("/v1")
    ))
    .env("TENANT", "t1")
    .start()
    .await;
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
    let answer = post(&gateway.at("/v1/chat/completions?api-version=1&x=2"), &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let seen = mock.seen().pop().unwrap();
    assert_eq!(seen.path, "/v1/chat/completions?api-version=2&k=a+b%26c&x=2");
    let header = |name| seen.header(name).map(ToOwned::to_owned);
    assert_eq!(header("openai-project").as_deref(), Some("p1"));
    assert_eq!(header("x-tenant").as_deref(), Some("t1"));
    assert_eq!(header("authorization").as_deref(), Some("Bearer sk-1"));
    assert_eq!(chat(&gateway, "n").await.status, 200);
    let seen = mock.seen().pop().unwrap();
    assert_eq!((seen.header("authorization"), seen.header("x-tenant")), (Some("Api-Key k"), None));
    // Both have the same page; each reads it with what is its own.
    for (name, value) in [("authorization", "Api-Key k"), ("openai-project", "p1")] {
        let has = |seen: &Seen| seen.path == "/metrics" && seen.header(name) == Some(value);
        until("a reading with its headers", async || mock.probes().iter().any(has)).await;
    }
    assert!(!gateway.log().contains("t1"));
}

#[tokio::test]
async fn an_exact_base_is_not_completed() {
    let mock = Mock::start(|_| Plan::chat("ok")).await;
    let root = mock.url();
    let root = root.trim_end_matches("/v1");
    let gateway = Gateway::start(&format!(
        "engines:\n  exact: {{ url: \"{root}/inference\", base: exact, scrape: false }}\n  \
         auto: {{ url: \"{root}/other\", scrape: false }}\n\
         pools: {{ p: {{ model: m, backends: [{{ engine: exact }}] }}, q: {{ model: n, backends: [{{ engine: auto }}] }} }}\n"
    ))
    .await;
    for (model, path) in [("m", "/inference/chat/completions"), ("n", "/other/v1/chat/completions")] {
        let answer = chat(&gateway, model).await;
        assert_eq!((answer.status.as_u16(), &*mock.seen().pop().unwrap().path), (200, path), "{}", answer.text());
    }
}

/// Speaks TLS in front of `engine`, with a certificate of `root`, to clients that have one of `clients`.
async fn secured(engine: SocketAddr, root: &Root, clients: Option<&Root>) -> SocketAddr {
    let (certificate, key) = root.sign();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("a valid one");
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a valid one");
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a valid one");
    let config = match clients {
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            roots
                .add(CertificateDer::from_pem_slice(clients.pem().as_bytes()).expect("a valid one"))
                .expect("a valid one");
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().expect("a valid one");
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(vec![certificate], key).expect("a valid one")));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let (Ok(mut stream), Ok(mut engine)) =
                    (acceptor.accept(stream).await, TcpStream::connect(engine).await)
                else {
                    return;
                };
                tokio::io::copy_bidirectional(&mut stream, &mut engine).await.ok();
            });
        }
    });
    address
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).expect("it is written");
    path.display().to_string()
}

#[tokio::test]
async fn certificates_of_an_engine_are_its_own() {
    let (mock, folder) = (Mock::start(polite).await, tempfile::tempdir().unwrap());
    let (root, clients) = (Root::new(), Root::new());
    let open = secured(mock.addr(), &root, None).await;
    let closed = secured(mock.addr(), &root, Some(&clients)).await;
    let (certificate, key) = clients.sign();
    let folder = folder.path();
    let roots = write(folder, "roots.pem", &root.pem());
    let (certificate, key) = (write(folder, "own.pem", &certificate), write(folder, "own.key", &key));
    let tls = |more: &str| format!("tls: {{ roots: {roots}{more} }}");
    let (rooted, mutual) = (tls(""), tls(&format!(", certificate: {certificate}, key: {key}")));
    let policy = |open_tls: &str, closed_tls: &str| {
        format!(
            "timeouts: {{ connect: 2s }}\n\
             engines:\n  open: {{ url: \"https://{open}/v1\", {open_tls} }}\n  closed: {{ url: \"https://{closed}/v1\", {closed_tls} }}\n\
             pools: {{ p: {{ model: m, backends: [{{ engine: open }}] }}, q: {{ model: n, backends: [{{ engine: closed }}] }} }}\n"
        )
    };
    let gateway = Gateway::start(&policy(&rooted, &mutual)).await;
    for model in ["m", "n"] {
        let answer = chat(&gateway, model).await;
        assert_eq!(answer.status, 200, "{model}: {}", answer.text());
    }
    // Without the root, and without a certificate.
    let gateway = Gateway::start(&policy("scrape: false", &rooted)).await;
    for model in ["m", "n"] {
        assert!(chat(&gateway, model).await.status.is_server_error(), "{model}");
    }
}

#[tokio::test]
async fn an_engine_s_proxy_comes_before_that_of_the_environment() {
    let (own, environment) = (Mock::start(polite).await, Mock::start(polite).await);
    let policy = format!(
        "engines:\n  own: {{ url: \"http://engine.invalid:8000/v1\", proxy: \"{}\" }}\n  \
         other: {{ url: \"http://other.invalid:8000/v1\" }}\n\
         pools: {{ p: {{ model: m, backends: [{{ engine: own }}] }}, q: {{ model: n, backends: [{{ engine: other }}] }} }}\n",
        own.addr(),
    );
    let gateway = Start::with(&policy).env("http_proxy", &environment.addr().to_string()).start().await;
    for model in ["m", "n"] {
        assert_eq!(chat(&gateway, model).await.status, 200, "{model}");
    }
    let hosts = |mock: &Mock| {
        mock.seen().iter().map(|seen| seen.header("host").unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(hosts(&own), ["engine.invalid:8000"]);
    assert_eq!(hosts(&environment), ["other.invalid:8000"]);
}
