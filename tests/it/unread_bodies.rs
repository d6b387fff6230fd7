//! Requests that are answered before their body was read: the next one on the connection is served, or the close announced.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    keys::pool,
    support::{
        gateway::Gateway,
        mock::{Mock, polite},
        within,
    },
};

const KEYS: &str =
    "keys: [{ id: a, hash: \"sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\" }]\n";
const BODY: &str = r#"{"model":"auto","messages":[{"role":"user","content":"hi"}]}"#;

fn head(method: &str, path: &str, key: &str, more: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n{more}\r\n"
    )
}

async fn started() -> (Gateway, SocketAddr, Mock) {
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&format!("{KEYS}limits: {{ body: 64Ki }}\n{}", pool(&mock, ""))).await;
    let addr = gateway.at("").trim_start_matches("http://").parse().expect("an address");
    (gateway, addr, mock)
}

/// Reads one answer, whose body has a length: its head in lower case.
async fn answer(stream: &mut TcpStream) -> String {
    within("an answer", async {
        let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
        loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.map_or(0, |length| length.parse().expect("a length"));
                if bytes.len() >= end + 4 + length {
                    return head;
                }
            }
            let read = stream.read(&mut chunk).await.expect("bytes");
            assert!(read > 0, "closed after {}", String::from_utf8_lossy(&bytes));
            bytes.extend_from_slice(&chunk[..read]);
        }
    })
    .await
}

#[tokio::test]
async fn a_short_body_is_read_and_the_connection_serves_the_next_request() {
    let (_gateway, addr, _mock) = started().await;
    let length = |length: usize| format!("content-length: {length}\r\n");
    let (short, long) = ("x".repeat(20), "x".repeat(100_000));
    for (method, path, key, more, body, status) in [
        ("POST", "/v1/chat/completions", "nope", length(20), &*short, 401),
        ("POST", "/v1/chat/completions", "nope", length(100_000), &*long, 401),
        (
            "POST",
            "/v1/chat/completions",
            "nope",
            "transfer-encoding: chunked\r\n".to_owned(),
            "2\r\n{}\r\n0\r\n\r\n",
            401,
        ),
        ("POST", "/v1/nope", "foo", length(20), &*short, 404),
        ("PUT", "/v1/chat/completions", "foo", length(20), &*short, 405),
        ("POST", "/health", "foo", length(20), &*short, 405),
        ("POST", "/v1/chat/completions", "foo", length(100_000), &*long, 413),
        ("POST", "/v1/chat/completions", "foo", format!("content-encoding: odd\r\n{}", length(20)), &*short, 415),
    ] {
        let mut stream = TcpStream::connect(addr).await.expect("a connection");
        stream.write_all(head(method, path, key, &more).as_bytes()).await.expect("a head");
        stream.write_all(body.as_bytes()).await.expect("a body");
        let first = answer(&mut stream).await;
        assert!(first.starts_with(&format!("http/1.1 {status}")) && !first.contains("connection: close"), "{first}");
        let next = head("POST", "/v1/chat/completions", "foo", &length(BODY.len())) + BODY;
        stream.write_all(next.as_bytes()).await.expect("the next request");
        let next = answer(&mut stream).await;
        assert!(next.starts_with("http/1.1 200"), "after {first}: {next}");
    }
}

#[tokio::test]
async fn the_close_is_announced_where_the_body_is_long_or_waits() {
    let (_gateway, addr, _mock) = started().await;
    let body = vec![b'x'; 4 << 20];
    for (key, status) in [("nope", 401), ("foo", 413)] {
        let mut stream = TcpStream::connect(addr).await.expect("a connection");
        let head = head("POST", "/v1/chat/completions", key, &format!("content-length: {}\r\n", body.len()));
        stream.write_all(head.as_bytes()).await.expect("a head");
        // All of it, before anything is read: the gateway takes it, so that the answer is not lost in a reset.
        within("the body to be taken", stream.write_all(&body)).await.expect("a body");
        let said = answer(&mut stream).await;
        assert!(said.starts_with(&format!("http/1.1 {status}")) && said.contains("connection: close"), "{said}");
        assert_eq!(within("the end", stream.read(&mut [0])).await.expect("an end"), 0);
    }
    let mut stream = TcpStream::connect(addr).await.expect("a connection");
    let head = head("POST", "/v1/chat/completions", "nope", "expect: 100-continue\r\ncontent-length: 20\r\n");
    stream.write_all(head.as_bytes()).await.expect("a head");
    let said = answer(&mut stream).await;
    assert!(said.starts_with("http/1.1 401") && said.contains("connection: close"), "{said}");
}
