//! Clients that leave, read slowly or never finish their request.

use std::{net::SocketAddr, time::Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{
    client::{Sse, h2c, http, json, post},
    gateway::Gateway,
    mock::{Fate, Mock, Plan, Seen, chat_chunk, chat_events, polite},
    until, within,
};

fn chat(stream: bool) -> Value {
    json!({ "model": "m", "stream": stream, "messages": [{ "role": "user", "content": "hi" }] })
}

async fn before(mock: &Mock, more: &str) -> Gateway {
    Gateway::start(&format!("pools:\n  main: {{ model: m, backends: [\"{}\"] }}\n{more}", mock.url())).await
}

async fn nothing_is_left(gateway: &Gateway) {
    let gauges = [
        "signalbox_in_flight",
        "signalbox_backend_in_flight",
        "signalbox_backend_queued_prompt_tokens",
        "signalbox_backend_decoding",
        "signalbox_backend_context_tokens",
    ];
    gateway.wait_metrics("all gauges to be 0", |now| gauges.iter().all(|name| now.sum(name, &[]) < 0.5)).await;
}

/// The engine at each stage at which a client may leave; it goes no further by itself.
fn stages(seen: &Seen) -> Plan {
    match seen.header("x-stage") {
        Some("head") => Plan::stream().events(chat_events(["a"])).behind(1),
        Some("prefill") => Plan::stream().events(&chat_events(["a"])[..1]).gate(1),
        Some("answer") => Plan::stream().events(&chat_events(["a", "b"])[..2]).gate(1),
        Some("half") => Plan::text(200, "application/json", "{\"id\":").gate(1).body("1}"),
        _ => polite(seen),
    }
}

#[tokio::test]
async fn bodies_together_take_no_more_than_they_may() {
    let mock = Mock::start(stages).await;
    let gateway = before(&mock, "limits: { body: 1k, bodies: 1k }\n").await;
    let url = gateway.at("/v1/chat/completions");
    let large = json!({ "model": "m", "messages": [{ "role": "user", "content": "x".repeat(600) }] });
    let held = {
        let request = json(http().post(&url), &large).header("x-stage", "head");
        tokio::spawn(async move { request.send().await.map(|answer| answer.status().as_u16()) })
    };
    mock.wait_seen(1).await;
    let refused = post(&url, &large).await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (503, "1"), "{}", refused.text());
    assert!(refused.text().contains("limits.bodies"), "{}", refused.text());
    assert_eq!(post(&url, &chat(false)).await.status, 200, "small ones still fit");
    mock.open(1);
    within("the first answer", held).await.unwrap().unwrap();
    until("room for another", async || post(&url, &large).await.status == 200).await;
    nothing_is_left(&gateway).await;
}

#[tokio::test]
async fn an_engine_is_released_as_soon_as_its_client_leaves() {
    let mock = Mock::start(stages).await;
    let gateway = before(&mock, "").await;
    let url = gateway.at("/v1/chat/completions");
    let mut gone = 0;
    for (protocol, client) in [("HTTP/1.1", http()), ("h2c", h2c())] {
        for (stage, stream) in
            [("head", true), ("head", false), ("prefill", true), ("half", false), ("prefill", false), ("answer", true)]
        {
            let request = json(client.post(&url), &chat(stream)).header("x-stage", stage);
            let asking = tokio::spawn(async move {
                let mut stream = Sse::send(request).await;
                stream.event().await.unwrap();
                stream.event().await.unwrap();
                // The third event is behind the gate.
                stream.event().await.unwrap_err();
            });
            mock.wait_seen(gone + 1).await;
            if stage == "answer" {
                let what = "the gateway to see the first token";
                gateway.wait_metrics(what, |now| now.sum("signalbox_backend_decoding", &[]) > 0.5).await;
            }
            asking.abort();
            asking.await.unwrap_err();
            let seen = mock.gone().await;
            assert_eq!(seen.header("x-stage"), Some(stage), "{protocol}");
            gone += 1;
        }
    }
    nothing_is_left(&gateway).await;
    let metrics = gateway.metrics().await;
    let at = |stage: &str| metrics.sum("signalbox_client_gone_total", &[&format!("stage=\"{stage}\"")]) as u32;
    assert_eq!((at("queued"), at("prefill"), at("answer")), (0, 10, 2), "{metrics:?}");
    assert_eq!(post(&url, &chat(false)).await.status, 200);
}

#[tokio::test]
async fn the_connection_of_other_streams_outlives_one_that_is_left() {
    let mock = Mock::start(stages).await;
    let gateway = before(&mock, "").await;
    let client = h2c();
    let send =
        || Sse::send(json(client.post(gateway.at("/v1/chat/completions")), &chat(true)).header("x-stage", "answer"));
    let (mut stays, leaves) = (send().await, send().await);
    drop(leaves);
    mock.gone().await;
    mock.open(1);
    let (events, _) = stays.rest().await;
    assert!(events.len() >= 2, "{events:?}");
    assert_eq!(mock.seen().iter().filter(|seen| seen.fate == Fate::ClientGone).count(), 1);
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_the_engine_back() {
    const EVENTS: usize = 1500;
    let filler = "x".repeat(64 << 10);
    let event = Bytes::from(format!("data: {}\n\n", chat_chunk(&json!({ "content": filler }), None)));
    let mock = Mock::start(move |seen| {
        if !seen.streams() {
            return polite(seen);
        }
        let plan = (0..EVENTS).fold(Plan::stream(), |plan, _| plan.body(event.clone()));
        plan.event(&chat_chunk(&json!({}), Some("stop"))).done()
    })
    .await;
    let gateway = before(&mock, "").await;
    assert_eq!(post(&gateway.at("/v1/chat/completions"), &chat(false)).await.status, 200);
    let before = resident_mib(gateway.pid());
    let mut slow = TcpStream::connect(gateway.listen()).await.unwrap();
    slow.write_all(&request(&chat(true).to_string())).await.unwrap();
    gateway.wait_metrics("the stream to begin", |now| now.sum("signalbox_backend_decoding", &[]) > 0.5).await;
    // Others are served meanwhile; in this time a gateway that gathers would have gathered it all.
    for _ in 0..50 {
        assert_eq!(post(&gateway.at("/v1/chat/completions"), &chat(false)).await.status, 200);
    }
    assert_eq!(mock.seen()[1].fate, Fate::Open, "94 MiB are not taken from the engine for a client that takes nothing");
    if let Some((before, now)) = before.zip(resident_mib(gateway.pid())) {
        assert!(now < before + 40, "{before} MiB became {now} MiB");
    }
    let mut taken = 0;
    let mut buffer = vec![0; 1 << 20];
    let mut tail = Vec::new();
    within("the whole stream", async {
        while !tail.ends_with(b"0\r\n\r\n") {
            let count = slow.read(&mut buffer).await.unwrap();
            assert!(count > 0, "cut after {taken} bytes");
            taken += count;
            tail.extend_from_slice(&buffer[count.saturating_sub(64)..count]);
            tail.drain(..tail.len().saturating_sub(64));
        }
    })
    .await;
    assert!(taken > EVENTS * (64 << 10), "{taken} bytes");
    nothing_is_left(&gateway).await;
}

#[tokio::test]
async fn a_client_that_sends_its_headers_too_slowly_is_disconnected() {
    let mock = Mock::start(polite).await;
    let gateway = before(&mock, "limits: { header: 300ms }\n").await;
    let starts: [&[u8]; 5] =
        [b"", b"P", b"PRI * HTTP/2.0\r\n", b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-slow: ", b"POST /v1"];
    let began = Instant::now();
    for answer in futures_util::future::join_all(starts.map(|start| until_closed(gateway.listen(), start))).await {
        assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert!(began.elapsed().as_millis() >= 300);
    assert_eq!(post(&gateway.at("/v1/chat/completions"), &chat(false)).await.status, 200);
}

#[tokio::test]
async fn a_connection_that_was_of_use_may_answer_for_longer_than_headers_may_take() {
    let mock = Mock::start(|_| Plan::chat("late").after(std::time::Duration::from_millis(700))).await;
    let gateway = before(&mock, "limits: { header: 200ms }\n").await;
    for client in [http(), h2c()] {
        let answer =
            crate::support::client::answer(json(client.post(gateway.at("/v1/chat/completions")), &chat(false)));
        assert_eq!(answer.await.status, 200);
    }
}

/// Sends `start` and no more; returns everything until the connection is closed.
async fn until_closed(addr: SocketAddr, start: &[u8]) -> String {
    let what = format!("the gateway to close after {:?}", String::from_utf8_lossy(start));
    let mut stream = TcpStream::connect(addr).await.expect("a connection");
    stream.write_all(start).await.expect("the start is taken");
    let mut answer = Vec::new();
    within(&what, stream.read_to_end(&mut answer)).await.ok();
    String::from_utf8_lossy(&answer).into_owned()
}

fn request(body: &str) -> Vec<u8> {
    let head =
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ";
    format!("{head}{}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Resident memory of a process, where the system reports it.
fn resident_mib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? >> 10)
}
