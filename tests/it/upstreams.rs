//! Engines over TLS and HTTP/2, including `GOAWAY` while answers are in progress.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    fs,
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, StreamBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, KeyPair, SanType};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use serde_json::json;
use tokio::{net::TcpListener, sync::Notify};
use tokio_rustls::TlsAcceptor;

use crate::support::{
    client::{Sse, http, json, post},
    dns::Dns,
    gateway::{Gateway, Start},
    mock::{Mock, Plan, chat_events, polite},
};

/// An engine with HTTP/2 over TLS that starts to close each connection (`GOAWAY`) with the first answer on it.
struct Leaving {
    address: SocketAddr,
    certificate: String,
    connections: Arc<AtomicUsize>,
    /// Host names by which it was called.
    called: Arc<Mutex<BTreeSet<String>>>,
}

impl Leaving {
    async fn start() -> Self {
        Self::start_as(SanType::IpAddress(Ipv4Addr::LOCALHOST.into())).await
    }

    /// Starts it with a certificate for `name`.
    async fn start_as(name: SanType) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.subject_alt_names = vec![name];
        let certificate = params.self_signed(&key).expect("a certificate");
        let private = PrivateKeyDer::try_from(key.serialize_der()).expect("a private key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = builder
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .expect("a configuration");
        config.alpn_protocols = vec![b"h2".to_vec()];
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let connections = Arc::new(AtomicUsize::new(0));
        let called = Arc::<Mutex<BTreeSet<String>>>::default();
        let noted = called.clone();
        let (counted, acceptor) = (connections.clone(), TlsAcceptor::from(Arc::new(config)));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (counted, acceptor, noted) = (counted.clone(), acceptor.clone(), noted.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        counted.fetch_add(1, Relaxed);
                        converse(TokioIo::new(stream), noted).await;
                    }
                });
            }
        });
        Self { address, certificate: certificate.pem(), connections, called }
    }
}

async fn converse<S>(stream: S, called: Arc<Mutex<BTreeSet<String>>>)
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let asked = Arc::new(Notify::new());
    let notified = asked.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (asked, called) = (asked.clone(), called.clone());
        async move {
            assert_eq!(request.version(), Version::HTTP_2);
            let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
            called.lock().expect("a lock").insert(host);
            request.into_body().collect().await.ok();
            asked.notify_one();
            let events = chat_events(["going", " ", "going", " ", "gone"]).into_iter().chain(["[DONE]".to_owned()]);
            let frames =
                events.map(|event| Ok::<_, Infallible>(Frame::data(Bytes::from(format!("data: {event}\n\n")))));
            let body = StreamBody::new(stream::iter(frames));
            Ok::<_, Infallible>(
                Response::builder().header("content-type", "text/event-stream").body(body).expect("an answer"),
            )
        }
    });
    let mut connection = pin!(http2::Builder::new(TokioExecutor::new()).serve_connection(stream, service));
    let over = tokio::select! {
        _ = connection.as_mut() => true,
        () = notified.notified() => false,
    };
    if !over {
        connection.as_mut().graceful_shutdown();
        connection.await.ok();
    }
}

#[tokio::test]
async fn an_engine_that_says_it_is_going_finishes_and_what_comes_later_goes_on() {
    const AT_ONCE: usize = 8;
    let engine = Leaving::start().await;
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("roots.pem");
    fs::write(&roots, &engine.certificate).unwrap();
    let policy = format!("pools: {{ p: {{ model: m, backends: [\"https://{}/v1\"] }} }}\n", engine.address);
    let gateway = Start::with(&policy).env("SSL_CERT_FILE", roots.to_str().unwrap()).start().await;
    let body = json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "hi" }] });
    let client = http();
    for _ in 0..3 {
        let asking: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let request = json(client.post(gateway.at("/v1/chat/completions")), &body);
                tokio::spawn(async move { Sse::send(request).await.text().await.0 })
            })
            .collect();
        for answer in asking {
            assert_eq!(answer.await.unwrap(), "going going gone", "{}", gateway.log());
        }
    }
    assert!(engine.connections.load(Relaxed) >= 3, "each round found the connection of the last one gone");
    let whole = gateway.metrics().await.sum("signalbox_requests_total", &[r#"outcome="ok""#]);
    assert!((whole - 24.0).abs() < 0.1, "{whole} of 24");
}

#[tokio::test]
async fn an_engine_found_by_name_is_called_by_it_at_its_address() {
    let engine = Leaving::start_as(SanType::DnsName("engines.test".try_into().unwrap())).await;
    let dns = Dns::start(1).await;
    dns.set("engines.test", [engine.address.ip()]);
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("roots.pem");
    fs::write(&roots, &engine.certificate).unwrap();
    let policy = |host: &str| {
        format!(
            "pools:\n  p:\n    model: m\n    backends:\n      - scheme: https\n        dns: {{ name: engines.test, port: {}, server: \"{}\"{host} }}\n",
            engine.address.port(),
            dns.addr()
        )
    };
    let body = json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "hi" }] });
    let gateway = Start::with(&policy("")).env("SSL_CERT_FILE", roots.to_str().unwrap()).start().await;
    let asked = json(http().post(gateway.at("/v1/chat/completions")), &body);
    assert_eq!(Sse::send(asked).await.text().await.0, "going going gone", "{}", gateway.log());
    let name = format!("engines.test:{}", engine.address.port());
    assert_eq!(*engine.called.lock().unwrap(), BTreeSet::from([name]));
    // A certificate for another name is none.
    let gateway =
        Start::with(&policy(", host: other.test")).env("SSL_CERT_FILE", roots.to_str().unwrap()).start().await;
    let refused = post(&gateway.at("/v1/chat/completions"), &body).await;
    assert!(refused.status == 503 && refused.text().to_lowercase().contains("certificate"), "{}", refused.text());
}

#[tokio::test]
async fn an_engine_whose_certificate_is_not_trusted_is_not_talked_to() {
    let engine = Leaving::start().await;
    let policy = format!("pools: {{ p: {{ model: m, backends: [\"https://{}/v1\"] }} }}\n", engine.address);
    let gateway = Gateway::start(&policy).await;
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
    let answer = post(&gateway.at("/v1/chat/completions"), &body).await;
    assert_eq!(answer.status, 503);
    assert!(answer.text().to_lowercase().contains("certificate"), "{}", answer.text());
    assert_eq!(engine.connections.load(Relaxed), 0);
}

#[tokio::test]
async fn an_answer_in_an_unknown_encoding_passes_as_it_came_and_the_answers_after_it_are_read() {
    let packed = b"not looked into";
    let mock = Mock::start(move |seen| match seen.header("x-packed") {
        Some(_) => Plan::text(200, "text/event-stream", packed.as_slice()).header("content-encoding", "x-odd"),
        None => polite(seen),
    })
    .await;
    let gateway = Gateway::start(&format!("pools: {{ p: {{ model: m, backends: [\"{}\"] }} }}\n", mock.url())).await;
    let body = json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "hi" }] });
    let asked = || json(http().post(gateway.at("/v1/chat/completions")), &body);
    let answer = crate::support::client::answer(asked().header("x-packed", "1")).await;
    assert_eq!((answer.header("content-encoding"), &*answer.body), ("x-odd", packed.as_slice()));
    assert!(!Sse::send(asked()).await.text().await.0.is_empty());
}
