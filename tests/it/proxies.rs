//! Proxies of the environment: engines of either scheme are asked through them, all but the exceptions.

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc,
};

use crate::support::{
    client::post,
    gateway::{Gateway, Start},
    mock::{Mock, polite},
};

/// A proxy that refuses what it is asked. Returns its authority, and the heads of the requests that reach it.
async fn refusing() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("an address").to_string();
    let (send, heads) = mpsc::channel(100);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 2048];
            let length = stream.read(&mut head).await.unwrap_or(0);
            let _ = send.send(String::from_utf8_lossy(&head[..length]).into_owned()).await;
            let _ = stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    (at, heads)
}

const POLICY: &str = "pools:\n  \
    tls: { model: m, backends: [\"https://provider.invalid/v1\"] }\n  \
    plain: { model: m, backends: [\"http://engine.invalid:8000/v1\"] }\n  \
    direct: { model: m, backends: [\"https://direct.invalid/v1\"] }\n\
    models: { tls: { to: tls }, plain: { to: plain }, direct: { to: direct } }\n\
    timeouts: { connect: 1s }\n";

async fn status(gateway: &Gateway, model: &str) -> u16 {
    let body = json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }] });
    post(&gateway.at("/v1/chat/completions"), &body).await.status.as_u16()
}

#[tokio::test]
async fn engines_are_asked_through_the_proxies_of_the_environment() {
    let plain = Mock::start(polite).await;
    let (tunnel, mut heads) = refusing().await;
    let gateway = Start::with(POLICY)
        .env("https_proxy", &format!("http://user:secret@{tunnel}"))
        .env("http_proxy", &plain.addr().to_string())
        .env("no_proxy", "other.invalid, .direct.invalid:443,10.0.0.0/8")
        .start()
        .await;
    assert_eq!(status(&gateway, "plain").await, 200, "the proxy answers for the engine");
    assert!(plain.seen().iter().all(|seen| seen.header("host") == Some("engine.invalid:8000")), "{:?}", plain.seen());
    assert!(status(&gateway, "tls").await >= 500);
    assert!(status(&gateway, "direct").await >= 500);
    heads.close();
    let mut asked = 0;
    while let Some(head) = heads.recv().await {
        assert!(head.starts_with("CONNECT provider.invalid:443 HTTP/1.1\r\n"), "{head}");
        assert!(head.to_lowercase().contains("proxy-authorization: basic dxnlcjpzzwnyzxq="), "{head}");
        asked += 1;
    }
    assert!(asked > 0);
    let log = gateway.log();
    assert!(log.contains(&format!("https=http://{tunnel}")) && !log.contains("secret"), "{log}");
}

#[tokio::test]
async fn this_machine_is_reached_directly() {
    let (engine, proxy) = (Mock::start(polite).await, Mock::start(polite).await);
    let policy = format!("pools: {{ main: {{ model: m, backends: [\"{}\"] }} }}\n", engine.url());
    let gateway = Start::with(&policy).env("all_proxy", &proxy.addr().to_string()).start().await;
    assert_eq!(status(&gateway, "m").await, 200);
    assert!(proxy.seen().is_empty() && proxy.probes().is_empty());
}

#[tokio::test]
async fn a_proxy_that_cannot_be_used_is_named() {
    let engine = Mock::start(polite).await;
    let policy = format!("pools: {{ main: {{ model: m, backends: [\"{}\"] }} }}\n", engine.url());
    let gateway = Start::with(&policy).env("https_proxy", "ftp://user:secret@proxy.invalid").start().await;
    gateway.wait_log("https_proxy has the scheme 'ftp'").await;
    assert!(!gateway.log().contains("secret"));
}
