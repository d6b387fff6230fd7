//! Every error that a client can get: status, headers, body.
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use http::Method;
use serde_json::{Value, json};

use crate::support::{
    client::{self, Answer, http},
    gateway::Gateway,
    mock::{Fate, Mock, Plan, chat_chunk, chat_events, polite},
};

const CHAT: &str = "/v1/chat/completions";

/// The answer as one text; parts that vary between runs are dropped or masked.
fn shown(answer: &Answer) -> String {
    let unsteady = ["date", "content-length", "x-signalbox-overhead-us"];
    let mut headers: Vec<String> = answer
        .headers
        .iter()
        .filter(|(name, _)| !unsteady.contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    headers.sort_unstable();
    let body = match serde_json::from_slice::<Value>(&answer.body) {
        Ok(json) => serde_json::to_string_pretty(&json).unwrap(),
        Err(_) => answer.text(),
    };
    let text = format!("{}\n{}\n\n{body}", answer.status, headers.join("\n"));
    // The number of "connection refused" is the system's own.
    match text.split_once(" (os error ") {
        Some((before, after)) => format!("{before}{}", after.split_once(')').unwrap().1),
        None => text,
    }
}

fn check(name: &str, answer: &Answer) {
    insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "snapshots/errors", omit_expression => true }, {
        insta::assert_snapshot!(name, shown(answer));
    });
}

/// Sends a request with a fixed id.
async fn send(gateway: &Gateway, method: Method, path: &str, body: impl Into<reqwest::Body>) -> Answer {
    let request = http().request(method, gateway.at(path)).header("content-type", "application/json");
    client::answer(request.header("x-request-id", "req-1").body(body)).await
}

async fn chat(gateway: &Gateway, body: &Value) -> Answer {
    send(gateway, Method::POST, CHAT, body.to_string()).await
}

/// A gateway over one mock with the engine `e` in the pool `p`; clients may request any model that begins with `m`, and `chat`.
async fn bed(mock: &Mock, more: &str) -> Gateway {
    Gateway::start(&format!(
        "engines: {{ e: {{ url: \"{}\", scrape: false }} }}\n\
         pools: {{ p: {{ speaks: [chat, completions, embeddings, messages], backends: [{{ engine: e }}] }} }}\n\
         models: {{ chat: {{ to: p }}, \"m*\": {{ to: p }} }}\n{more}",
        mock.url()
    ))
    .await
}

#[tokio::test]
async fn invalid_requests_get_the_reason() {
    let mock = Mock::start(polite).await;
    let gateway = bed(&mock, "limits: { body: 1Ki }\n").await;
    for (name, body) in [
        ("bad_json", "{\n  \"model\": \"chat\",\n  \"messages\": [oops]\n}"),
        ("not_an_object", "[1, 2]"),
        ("trailing_text", "{\"model\":\"chat\",\"messages\":[1]} {}"),
        ("empty_body", ""),
        ("model_missing", r#"{"messages":[1]}"#),
        ("model_of_wrong_type", r#"{"model":["chat"],"messages":[1]}"#),
        ("messages_missing", r#"{"model":"chat"}"#),
        ("messages_of_wrong_type", r#"{"model":"chat","messages":"hello"}"#),
        ("messages_empty", r#"{"model":"chat","messages":[]}"#),
        ("stream_of_wrong_type", r#"{"model":"chat","messages":[1],"stream":"true"}"#),
        ("max_tokens_negative", r#"{"model":"chat","messages":[1],"max_tokens":-5}"#),
        ("include_usage_of_wrong_type", r#"{"model":"chat","messages":[1],"stream_options":{"include_usage":1}}"#),
        ("model_twice", r#"{"model":"chat","messages":[1],"model":"chat"}"#),
        ("unknown_model", r#"{"model":"chta","messages":[1]}"#),
        ("unknown_model_like_no_other", r#"{"model":"quite-another","messages":[1]}"#),
    ] {
        check(name, &send(&gateway, Method::POST, CHAT, body).await);
    }
    check("not_utf8", &send(&gateway, Method::POST, CHAT, &b"{\"model\":\"\xff\"}"[..]).await);
    let long = json!({ "model": "chat", "messages": ["x".repeat(1024)] });
    check("body_too_large", &chat(&gateway, &long).await);
    check("wrong_method", &send(&gateway, Method::GET, CHAT, "").await);
    check("wrong_method_for_models", &send(&gateway, Method::POST, "/v1/models", "{}").await);
    check("unknown_path", &send(&gateway, Method::POST, "/v1/chat/completion", "{}").await);
    check("unknown_path_outside_the_api", &send(&gateway, Method::GET, "/favicon.ico", "").await);
    let image = send(&gateway, Method::POST, "/v1/images/generations", r#"{"model":"chat","prompt":"a"}"#).await;
    check("unsupported_endpoint", &image);
    check("unsupported_endpoint_without_model", &send(&gateway, Method::GET, "/v1/files", "").await);
    check("unknown_model_looked_up", &send(&gateway, Method::GET, "/v1/models/chta", "").await);
    check("messages_api_in_its_own_shape", &send(&gateway, Method::POST, "/v1/messages", r#"{"model":"m"}"#).await);
    assert!(mock.seen().is_empty(), "none of them may reach an engine");
}

#[tokio::test]
async fn callers_without_a_known_key_stay_outside() {
    let mock = Mock::start(polite).await;
    let hash = blake3::hash(b"sk-good").to_hex();
    let gateway = bed(&mock, &format!("keys: [{{ id: web, hash: \"blake3:{hash}\" }}]\n")).await;
    // The key is asked for before the body is read.
    check("no_key", &send(&gateway, Method::POST, CHAT, "no json").await);
    check("no_key_for_models", &send(&gateway, Method::GET, "/v1/models", "").await);
    check("no_key_for_messages", &send(&gateway, Method::POST, "/v1/messages", "{}").await);
    let body = json!({ "model": "chat", "messages": [1] });
    let with = |name: &str, value: &str| {
        let request = client::json(http().post(gateway.at(CHAT)), &body).header("x-request-id", "req-1");
        client::answer(request.header(name, value))
    };
    check("wrong_key", &with("authorization", "Bearer sk-bad").await);
    for (name, value) in [("authorization", "Basic c2stZ29vZA=="), ("authorization", "sk-good"), ("x-api-key", "")] {
        assert_eq!(with(name, value).await.status, 401, "{name}: {value}");
    }
    assert!(mock.seen().is_empty());
    for (name, value) in [
        ("authorization", "Bearer sk-good"),
        ("authorization", "bearer  sk-good"),
        ("x-api-key", "sk-good"),
        ("api-key", "sk-good"),
    ] {
        assert_eq!(with(name, value).await.status, 200, "{name}: {value}");
    }
    let metrics = client::get(&gateway.at("/metrics")).await;
    assert_eq!(metrics.status, 401, "metrics on the public port are for callers only");
}

#[tokio::test]
async fn the_engines_own_words_reach_the_client() {
    let html = "<html><body>502 Bad Gateway</body></html>";
    let mock = Mock::start(move |seen| {
        let error = |status, message: &str| {
            Plan::json(status, &json!({ "error": { "message": message, "type": "own", "code": 7, "n_ctx": 512 } }))
                .header("x-engine", "yes")
        };
        match seen.model() {
            "m400" => error(400, "the context is too long"),
            "m401" => error(401, "the operator's key is wrong"),
            "m404" => error(404, "no such model"),
            "m422" => Plan::text(422, "text/plain", "no JSON, but readable"),
            "m429" => error(429, "slow down").header("retry-after", "7").header("x-ratelimit-remaining-requests", "0"),
            "m500" => error(500, "a message without a role"),
            "m502" => Plan::text(502, "text/html", html),
            "m503" => Plan::status(503),
            "m302" => Plan::status(302).header("location", "http://127.0.0.1:1/"),
            "mhtml" => Plan::text(200, "text/html", html),
            "mhalf" => Plan::text(200, "application/json", "{\"choices\": ["),
            "mtorn" => Plan::garbage(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{\"choices\": [",
            ),
            "mempty" => Plan::status(200),
            "mnoise" => Plan::garbage("\u{16}\u{3}no http\r\n\r\n"),
            "mcut" => Plan::stream().event(&chat_chunk(&json!({ "role": "assistant" }), None)).cut(),
            "merror" => Plan::stream().event(r#"{"error":{"message":"out of memory"}}"#),
            _ => Plan::close(),
        }
    })
    .await;
    let gateway = bed(&mock, "").await;
    for name in
        ["400", "401", "404", "422", "429", "500", "502", "503", "302", "html", "half", "torn", "empty", "noise"]
    {
        let answer = chat(&gateway, &json!({ "model": format!("m{name}"), "messages": [1] })).await;
        check(&format!("upstream_{name}"), &answer);
    }
    for name in ["400", "cut", "error"] {
        let answer = chat(&gateway, &json!({ "model": format!("m{name}"), "stream": true, "messages": [1] })).await;
        check(&format!("upstream_{name}_streamed"), &answer);
    }
    let before = mock.seen().len();
    check("upstream_closes", &chat(&gateway, &json!({ "model": "mclose", "messages": [1] })).await);
    assert_eq!(mock.seen().len(), before + 1, "nothing succeeded, so that no retry is left");
    let body = json!({ "model": "mclose", "max_tokens": 1, "messages": [1] }).to_string();
    check("upstream_closes_messages_api", &send(&gateway, Method::POST, "/v1/messages", body).await);
    mock.stop().await;
    check("upstream_down", &chat(&gateway, &json!({ "model": "m", "messages": [1] })).await);
}

#[tokio::test]
async fn a_chat_is_taken_as_plain_json_only() {
    let mock = Mock::start(polite).await;
    let gateway = bed(&mock, "").await;
    let form = "--x\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n1\r\n--x--\r\n";
    for (name, value, status, code) in [
        ("content-encoding", "compress", 415, "unsupported_encoding"),
        ("content-encoding", "gzip", 400, "invalid_encoding"),
        ("content-type", "multipart/form-data; boundary=x", 400, "invalid_json"),
    ] {
        let answer = client::answer(http().post(gateway.at(CHAT)).header(name, value).body(form)).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["error"]["code"]), (status, &json!(code)));
        let readable = if status == 415 { "gzip, deflate, br, zstd" } else { "" };
        assert_eq!(answer.header("accept-encoding"), readable);
    }
    assert!(mock.seen().is_empty());
}

/// A gateway that sends a key to the engine.
async fn with_a_key(mock: &Mock) -> Gateway {
    Gateway::start(&format!(
        "accounts: {{ own: {{ keys: [sk-of-the-operator] }} }}\n\
         engines: {{ e: {{ url: \"{}\", account: own, scrape: false }} }}\n\
         pools: {{ p: {{ backends: [{{ engine: e }}] }} }}\nmodels: {{ \"*\": {{ to: p }} }}\n",
        mock.url()
    ))
    .await
}

#[tokio::test]
async fn a_reason_that_quotes_the_providers_key_is_kept_back() {
    let mock = Mock::start(|seen| {
        let key = seen.header("authorization").unwrap_or_default().to_owned();
        match seen.model() {
            "header" => Plan::error(401, "no such key").header("x-denied", &key),
            _ => Plan::error(401, &format!("no such key: {key}")),
        }
    })
    .await;
    let gateway = with_a_key(&mock).await;
    for model in ["body", "header"] {
        let answer = chat(&gateway, &json!({ "model": model, "messages": [1] })).await;
        assert_eq!(answer.status, 502);
        let text = format!("{:?} {}", answer.headers, answer.text());
        assert!(!text.contains("sk-of-the-operator") && text.contains("upstream_auth"), "{text}");
    }
    assert_eq!(mock.seen()[0].header("authorization"), Some("Bearer sk-of-the-operator"));
}

#[tokio::test]
async fn an_answer_that_quotes_the_providers_key_is_masked() {
    let mock = Mock::start(|seen| {
        let key = seen.header("authorization").unwrap_or_default().to_owned();
        let error = json!({ "error": { "message": format!("no such key: {key}"), "code": 500 } }).to_string();
        match seen.model() {
            "first" => Plan::stream().event(&error),
            "later" => Plan::stream().events(&chat_events(["a", "b"])[..2]).event(&error),
            _ => Plan::garbage(key),
        }
    })
    .await;
    let gateway = with_a_key(&mock).await;
    for model in ["first", "later", "garbage"] {
        let answer = chat(&gateway, &json!({ "model": model, "stream": true, "messages": [1] })).await;
        let text = answer.text();
        assert!(!text.contains("sk-of-the-operator") && text.contains("error"), "{model}: {text}");
        assert!(model == "garbage" || text.contains("no such key: Bearer ****"), "{model}: {text}");
    }
    assert_eq!(mock.seen()[0].header("authorization"), Some("Bearer sk-of-the-operator"));
    assert!(!gateway.log().contains("sk-of-the-operator"));
}

#[tokio::test]
async fn a_dead_connection_is_made_good_once() {
    let mock = Mock::start(polite).await;
    let gateway = bed(&mock, "").await;
    mock.drop_connections(1);
    let answer = chat(&gateway, &json!({ "model": "chat", "messages": [1] })).await;
    assert_eq!((answer.status.as_u16(), mock.seen().len(), mock.connections()), (200, 1, 2));
    let metrics = gateway.metrics().await;
    assert!((metrics.sum("signalbox_fresh_connection_retries_total", &[]) - 1.0).abs() < 0.1, "{metrics:?}");
}

#[tokio::test]
async fn engines_that_close_unannounced_cost_no_request() {
    let mock =
        Mock::start(|seen| if seen.streams() { Plan::chat_stream(["a"]) } else { Plan::chat("a") }.then_close()).await;
    let gateway = bed(&mock, "").await;
    for number in 0..100 {
        let answer = chat(&gateway, &json!({ "model": "m", "stream": number % 2 == 0, "messages": [1] })).await;
        assert_eq!(answer.status, 200, "request {number}: {}", answer.text());
    }
    assert_eq!(mock.seen().len(), 100, "no request was seen twice");
}

#[tokio::test]
async fn time_limits_are_named() {
    let mock = Mock::start(|_| Plan::silence()).await;
    let total = bed(&mock, "timeouts: { total: 300ms }\n").await;
    for (name, stream) in [("total", false), ("total_streamed", true)] {
        check(name, &chat(&total, &json!({ "model": "m", "stream": stream, "messages": [1] })).await);
        assert_eq!(mock.gone().await.fate, Fate::ClientGone, "the engine is let go");
    }
}

#[tokio::test]
async fn a_full_queue_is_refused() {
    let gated = Mock::start(|_| Plan::chat("a").behind(1)).await;
    let full = bed(&gated, "limits: { in_flight: 1 }\n").await;
    let waiting = {
        let url = full.at(CHAT);
        tokio::spawn(async move { client::post(&url, &json!({ "model": "m", "messages": [1] })).await.status })
    };
    gated.wait_seen(1).await;
    check("overloaded", &chat(&full, &json!({ "model": "m", "messages": [1] })).await);
    gated.open(1);
    assert_eq!(waiting.await.unwrap(), 200);
    assert_eq!(chat(&full, &json!({ "model": "m", "messages": [1] })).await.status, 200, "its place is given back");
}

#[tokio::test]
async fn the_names_of_the_metrics_are_settled() {
    let mock = Mock::start(polite).await;
    mock.set_vllm(1, 2, 0.5);
    let url = mock.url();
    let gateway = Gateway::start(&format!(
        "pools: {{ p: {{ backends: [\"{url}\"], price: {{ input: 1, output: 2 }} }} }}\nmodels: {{ \"*\": {{ to: p }} }}\n"
    ))
    .await;
    for stream in [false, true] {
        assert_eq!(chat(&gateway, &json!({ "model": "m", "stream": stream, "messages": [1] })).await.status, 200);
    }
    chat(&gateway, &json!({ "model": "err-429", "messages": [1] })).await;
    let metrics =
        gateway.wait_metrics("the engine's gauges", |metrics| metrics.sum("signalbox_engine_waiting", &[]) > 1.0).await;
    let mut names: Vec<String> = metrics
        .0
        .keys()
        .map(|key| {
            let (name, labels) = key.split_once('{').unwrap_or((key, ""));
            let labels: Vec<&str> = labels.split("\",").filter_map(|label| Some(label.split_once('=')?.0)).collect();
            format!("{name}{{{}}}", labels.join(","))
        })
        .collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "snapshots/errors", omit_expression => true }, {
        insta::assert_snapshot!("metrics_names", names.join("\n"));
    });
}
