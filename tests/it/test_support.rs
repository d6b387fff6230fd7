//! The test support itself: the mock misbehaves as planned, and the client receives it byte for byte.

use std::time::Duration;

use serde_json::json;

use crate::support::{
    client::{End, Sse, get, http, post, raw},
    engine::{Engine, Model},
    gateway::Metrics,
    mock::{Fate, Mock, Plan, chat_events, polite, usage_event},
    sdk,
};

fn chat_url(mock: &Mock) -> String {
    format!("{}/chat/completions", mock.url())
}

#[tokio::test]
async fn an_answer_arrives_and_the_request_is_recorded() {
    let mock = Mock::start(|seen| Plan::json(418, &json!({ "you": seen.model() })).header("x-tea", "yes")).await;
    let answer = post(&chat_url(&mock), &json!({ "model": "pot" })).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-tea")), (418, "yes"));
    assert_eq!(answer.json(), json!({ "you": "pot" }));
    let seen = &mock.wait_seen(1).await[0];
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(seen.header("Content-Type"), Some("application/json"));
    assert_eq!(seen.body, r#"{"model":"pot"}"#);
    mock.wait_under_way(0).await;
    assert_eq!(mock.seen()[0].fate, Fate::Done);
}

#[tokio::test]
async fn probes_are_answered_and_kept_apart() {
    let mock = Mock::start(polite).await;
    mock.set_models(["a", "b"]);
    assert_eq!(get(&format!("{}/models", mock.url())).await.json()["data"][1]["id"], "b");
    let at = |path: &str| format!("http://{}{path}", mock.addr());
    assert_eq!(get(&at("/health")).await.status, 200);
    assert_eq!(get(&at("/metrics")).await.status, 404);
    mock.set_health(503);
    mock.set_vllm(3, 2, 0.25);
    assert_eq!(get(&at("/health")).await.status, 503);
    let metrics = Metrics::parse(&get(&at("/metrics")).await.text());
    assert!((metrics.sum("vllm:num_requests_waiting", &[r#"engine="0""#]) - 2.0).abs() < f64::EPSILON);
    assert_eq!((mock.seen().len(), mock.probes().len()), (0, 5));
}

#[test]
fn metrics_are_read_with_their_labels() {
    let metrics =
        Metrics::parse("# HELP a b\na_total{pool=\"x y\",le=\"+Inf\"} 3\na_total{pool=\"z\"} 4 123\nplain 1.5\n");
    let close = |found: f64, wanted: f64| (found - wanted).abs() < f64::EPSILON;
    assert!(close(metrics.sum("a_total", &[]), 7.0) && close(metrics.sum("a_total", &[r#"pool="z""#]), 4.0));
    assert!(close(metrics.sum("plain", &[]), 1.5) && close(metrics.sum("absent", &[]), 0.0));
}

#[tokio::test]
async fn a_gate_holds_the_rest_of_a_stream() {
    let mock = Mock::start(|_| Plan::stream().events(["1"]).gate(7).events(["2"]).done()).await;
    let mut stream = Sse::post(&chat_url(&mock), &json!({})).await;
    assert_eq!(stream.header("content-type"), "text/event-stream");
    assert_eq!(stream.data().await.unwrap(), "1");
    assert_eq!(mock.under_way(), 1);
    mock.open(7);
    let (events, end) = stream.rest().await;
    assert_eq!(events, ["data: 2\n\n", "data: [DONE]\n\n"]);
    assert!(matches!(end, End::Clean));
}

#[tokio::test]
async fn chunks_end_where_they_are_cut() {
    let plan = || Plan::stream().body("data: \u{e4}\r\n\r\n").event("b").done();
    let mock = Mock::script([plan().cut_at([3, 7, 9]), plan().cut_every(1)]).await;
    // Over a raw socket the framing itself is seen.
    let request = b"POST /v1/x HTTP/1.1\r\nhost: m\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let answer = raw(mock.addr(), request).await;
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    assert!(body.starts_with("3\r\ndat\r\n4\r\na: \u{fffd}\r\n2\r\n\u{fffd}\r\r\n"), "{body:?}");
    let mut stream = Sse::post(&chat_url(&mock), &json!({})).await;
    assert_eq!(stream.event().await.unwrap(), "data: \u{e4}\r\n\r\n");
    assert_eq!(stream.data().await.unwrap(), "b");
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_at_every_stage() {
    let mock = Mock::start(|seen| match seen.model() {
        "silent" => Plan::silence(),
        "slow" => Plan::chat("late").after(Duration::from_hours(1)),
        _ => Plan::stream().event("1").gate(1).done(),
    })
    .await;
    for (number, model) in ["silent", "slow"].into_iter().enumerate() {
        let url = chat_url(&mock);
        let asking = tokio::spawn(async move { post(&url, &json!({ "model": model })).await.status });
        mock.wait_seen(number + 1).await;
        asking.abort();
        assert_eq!(mock.gone().await.model(), model);
    }
    let mut stream = Sse::post(&chat_url(&mock), &json!({ "model": "gated" })).await;
    assert_eq!(stream.data().await.unwrap(), "1");
    drop(stream);
    assert_eq!(mock.gone().await.model(), "gated");
    assert_eq!((mock.under_way(), mock.seen()[2].fate), (0, Fate::ClientGone));
}

#[tokio::test]
async fn connections_break_as_planned() {
    let partial = || Plan::stream().events(chat_events(["Hel"]));
    let mock = Mock::script([
        Plan::close(),
        Plan::reset_at_once(),
        Plan::status(200).cut(),
        partial().cut(),
        partial().reset(),
        Plan::garbage("\u{16}\u{3}no http\r\n\r\n"),
        Plan::text(200, "application/json", "{\"half\":"),
    ])
    .await;
    let attempt = || http().post(chat_url(&mock)).body("{}").send();
    assert!(attempt().await.unwrap_err().is_request(), "closed before a byte");
    assert!(attempt().await.is_err(), "reset before a byte");
    assert_eq!(attempt().await.unwrap().status(), 200, "closed after a whole head");
    for how in ["closed", "reset"] {
        let (_, end) = Sse::post(&chat_url(&mock), &json!({})).await.rest().await;
        assert!(matches!(end, End::Broken(_)), "{how} in mid stream: {end:?}");
    }
    assert!(attempt().await.is_err(), "no HTTP");
    assert_eq!(attempt().await.unwrap().text().await.unwrap(), "{\"half\":");
    mock.drop_connections(1);
    assert!(attempt().await.is_err(), "closed before reading");
    assert_eq!((mock.seen().len(), mock.connections()), (7, 8));
}

#[tokio::test]
async fn a_stream_may_close_its_connection_unannounced() {
    let mock = Mock::start(|_| Plan::chat_stream(["a", "b"]).then_close()).await;
    let client = http();
    for _ in 0..2 {
        let request = client.post(chat_url(&mock)).body("{}");
        let (text, end) = Sse::send(request).await.text().await;
        assert_eq!(text, "ab");
        assert!(matches!(end, End::Clean));
        mock.wait_under_way(0).await;
    }
    assert_eq!(mock.connections(), 2, "the second request needed a connection of its own");
}

#[tokio::test]
async fn a_mock_can_go_away_and_come_back() {
    let mock = Mock::start(polite).await;
    let url = chat_url(&mock);
    let addr = mock.stop().await;
    assert!(http().post(&url).body("{}").send().await.unwrap_err().is_connect());
    let back = Mock::start_at(addr, polite).await;
    assert_eq!(post(&url, &json!({ "model": "x" })).await.json()["choices"][0]["message"]["content"], "Hello there");
    assert_eq!(back.seen().len(), 1);
}

#[tokio::test]
async fn a_script_that_has_ended_says_so() {
    let mock = Mock::script([]).await;
    let answer = post(&chat_url(&mock), &json!({})).await;
    assert_eq!(answer.status, 500);
    assert!(answer.text().contains("script has ended"));
    assert!(usage_event(3, 4).contains("\"total_tokens\":7"));
}

#[tokio::test]
async fn the_python_sdk_is_content_with_a_polite_mock() {
    let mock = Mock::start(polite).await;
    mock.set_models(["chat", "embed"]);
    sdk::python(&mock.url()).await;
}

#[tokio::test]
async fn the_node_sdk_is_content_with_a_polite_mock() {
    let mock = Mock::start(polite).await;
    mock.set_models(["chat", "embed"]);
    sdk::node(&mock.url()).await;
}

#[tokio::test]
async fn a_real_engine_streams() {
    let Some(engine) = Engine::start(Model::Chat, 2, 4096).await else { return };
    // Temperature 0: drawn at random, one answer in a hundred ends before its first word.
    let messages = json!([{ "role": "user", "content": "hi" }]);
    let body = json!({ "model": "any", "stream": true, "temperature": 0, "max_tokens": 8, "messages": messages });
    let (text, end) = Sse::post(&format!("{}/chat/completions", engine.url()), &body).await.text().await;
    assert!(!text.is_empty() && matches!(end, End::Clean), "{text:?} {end:?}");
    let metrics = Metrics::parse(&get(&engine.at("/metrics")).await.text());
    assert!(metrics.sum("llamacpp:tokens_predicted_total", &[]) >= 1.0, "{metrics:?}");
}

#[tokio::test]
async fn a_real_engine_embeds() {
    let Some(engine) = Engine::start(Model::Embed, 1, 2048).await else { return };
    let answer = post(&format!("{}/embeddings", engine.url()), &json!({ "model": "e", "input": ["a", "b"] })).await;
    assert_eq!(answer.json()["data"].as_array().unwrap().len(), 2);
}
