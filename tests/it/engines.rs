//! The gateway in front of real llama.cpp engines, if their models are present (see `tests/support/engine.rs`).
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use std::collections::BTreeMap;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::{
    client::{self, Answer, End, Sse, http},
    engine::{Engine, Model},
    gateway::Gateway,
    sdk,
};

/// Two chat engines in one pool, an embedding engine in another, and a gateway.
struct Bed {
    engines: [Engine; 3],
    gateway: Gateway,
}

/// `None` without models.
async fn bed() -> Option<Bed> {
    let [one, two, embed] =
        [(Model::Chat, 2), (Model::Chat, 2), (Model::Embed, 1)].map(|(model, slots)| Engine::start(model, slots, 2048));
    let engines = [one.await?, two.await?, embed.await?];
    let url = |at: usize| engines[at].url();
    let policy = format!(
        "engines:\n  one: {{ url: \"{}\" }}\n  two: {{ url: \"{}\" }}\n  vec: {{ url: \"{}\" }}\n\
         pools:\n  chat: {{ balance: round_robin, backends: [{{ engine: one }}, {{ engine: two }}] }}\n  embed: {{ backends: [{{ engine: vec }}] }}\n\
         \x20 one: {{ backends: [{{ engine: one }}] }}\n  two: {{ backends: [{{ engine: two }}] }}\n\
         models: {{ chat: {{ to: chat }}, embed: {{ to: embed }}, one: {{ to: one }}, two: {{ to: two }} }}\n",
        url(0),
        url(1),
        url(2)
    );
    let gateway = Gateway::start(&policy).await;
    Some(Bed { engines, gateway })
}

fn ask(more: Value) -> Value {
    let mut body = json!({ "model": "chat", "max_tokens": 8, "temperature": 0, "messages": [{ "role": "user", "content": "hi" }] });
    let Value::Object(more) = more else { panic!("an object") };
    body.as_object_mut().unwrap().extend(more);
    body
}

impl Bed {
    async fn chat(&self, more: Value) -> Answer {
        client::post(&self.gateway.at("/v1/chat/completions"), &ask(more)).await
    }

    async fn stream(&self, more: Value) -> Sse {
        let mut body = ask(more);
        body["stream"] = json!(true);
        Sse::post(&self.gateway.at("/v1/chat/completions"), &body).await
    }

    /// Sends one long stream after another, without end; each fits the 1024 tokens of a slot with its prompt.
    async fn keep_asking(&self, model: &str) {
        loop {
            self.stream(json!({ "model": model, "max_tokens": 900, "ignore_eos": true })).await.rest().await;
        }
    }
}

#[tokio::test]
async fn a_real_engine_answers_through_the_gateway() {
    let Some(bed) = Box::pin(bed()).await else { return };
    let (text, end) = bed.stream(json!({})).await.text().await;
    assert!(!text.is_empty() && matches!(end, End::Clean), "{text:?} {end:?}");
    let (events, _) = bed.stream(json!({})).await.rest().await;
    assert_eq!(events.last().unwrap(), "data: [DONE]\n\n");
    assert!(!events.iter().any(|event| client::data(event).unwrap().contains("\"choices\":[]")), "{events:?}");
    let (events, _) = bed.stream(json!({ "stream_options": { "include_usage": true } })).await.rest().await;
    let usage: Value = serde_json::from_str(&client::data(&events[events.len() - 2]).unwrap()).unwrap();
    assert_eq!(usage["usage"]["completion_tokens"], 8, "{usage}");

    // The same prompt twice at the same engine: the second time it is found in the prefix cache, and we see it.
    let long = json!({ "messages": [{ "role": "user", "content": "once upon a time ".repeat(40) }] });
    for _ in 0..4 {
        assert_eq!(bed.chat(long.clone()).await.status, 200);
    }
    let answer = bed.chat(long).await.json();
    let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_f64().unwrap();
    assert!(cached > 0.0, "{answer}");
    let metrics = bed.gateway.metrics().await;
    assert!(metrics.sum("signalbox_tokens_total", &["kind=\"cached\"", "pool=\"chat\""]) >= cached, "{metrics:?}");
    assert!(metrics.sum("signalbox_tokens_total", &["kind=\"completion\"", "pool=\"chat\""]) >= 64.0, "{metrics:?}");

    let vectors =
        client::post(&bed.gateway.at("/v1/embeddings"), &json!({ "model": "embed", "input": ["a", "b"] })).await;
    assert_eq!((vectors.json()["data"].as_array().unwrap().len(), vectors.header("x-signalbox-pool")), (2, "embed"));

    let tools = json!([{ "type": "function", "function": {
        "name": "weather",
        "parameters": { "type": "object", "properties": { "city": { "type": "string", "maxLength": 8 } }, "required": ["city"] },
    } }]);
    let called = json!({ "tools": tools, "tool_choice": "required", "max_tokens": 300 });
    let answer = bed.chat(called.clone()).await.json();
    let call = &answer["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(call["name"], "weather", "{answer}");
    let (events, end) = bed.stream(called).await.rest().await;
    let calls = events.iter().filter(|event| client::data(event).unwrap().contains("tool_calls")).count();
    assert!(calls >= 2 && matches!(end, End::Clean), "{events:?}");

    let schema = json!({ "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"], "additionalProperties": false });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "v", "strict": true, "schema": schema } });
    let answer = bed.chat(json!({ "response_format": format, "max_tokens": 200 })).await.json();
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(serde_json::from_str::<Value>(text).unwrap()["ok"].is_boolean(), "{text}");
}

#[tokio::test]
async fn refusals_of_a_real_engine_are_passed_on() {
    let Some(bed) = Box::pin(bed()).await else { return };
    // Somewhat too much for a context of 1024, which the estimate leaves open.
    let long = json!({ "messages": [{ "role": "user", "content": "many words ".repeat(540) }] });
    let direct = client::post(&format!("{}/chat/completions", bed.engines[0].url()), &ask(long.clone())).await;
    let Answer { status, body, .. } = bed.chat(long.clone()).await;
    assert_eq!((status.as_u16(), &body), (400, &direct.body), "{}", String::from_utf8_lossy(&body));
    assert!(direct.text().contains("exceed_context_size_error"), "{}", direct.text());
    let mut stream = bed.stream(long).await;
    assert_eq!((stream.status.as_u16(), stream.rest().await.0.concat()), (400, direct.body.to_vec()));
    // What cannot fit by any count does not get there: the engine has said how much it takes.
    let hopeless = bed.chat(json!({ "messages": [{ "role": "user", "content": "many words ".repeat(4000) }] })).await;
    assert_eq!(
        (hopeless.status.as_u16(), hopeless.json()["error"]["code"].as_str()),
        (400, Some("context_length_exceeded"))
    );
    assert!(hopeless.text().contains("holds 1024"), "{}", hopeless.text());
    // A message without a role is a 500 to llama.cpp; on two engines, one of which serves others, it is the request's fault.
    for _ in 0..6 {
        assert_eq!(bed.chat(json!({})).await.status, 200);
        let answer = bed.chat(json!({ "messages": [{ "content": "hi" }] })).await;
        assert_eq!(
            (answer.status.as_u16(), answer.text().contains("Missing 'role'")),
            (400, true),
            "{}",
            answer.text()
        );
    }
    assert_eq!(bed.chat(json!({})).await.status, 200);
}

#[tokio::test]
async fn two_hundred_requests_in_a_row_reach_real_engines() {
    let Some(bed) = Box::pin(bed()).await else { return };
    let client = http();
    let mut backends: BTreeMap<String, u32> = BTreeMap::new();
    for number in 0..200 {
        let mut body = ask(json!({ "max_tokens": 2 }));
        body["stream"] = json!(number % 3 != 0);
        let request = client::json(client.post(bed.gateway.at("/v1/chat/completions")), &body);
        let answer = client::answer(request).await;
        assert_eq!(answer.status, 200, "request {number}: {}", answer.text());
        let whole = if number % 3 == 0 { "\"finish_reason\":\"length\"" } else { "data: [DONE]\n\n" };
        assert!(answer.text().contains(whole), "request {number}: {}", answer.text());
        *backends.entry(answer.header("x-signalbox-backend").to_owned()).or_default() += 1;
    }
    assert_eq!(backends, BTreeMap::from([("one".to_owned(), 100), ("two".to_owned(), 100)]));
    let metrics = bed.gateway.metrics().await;
    assert!((metrics.sum("signalbox_requests_total", &["outcome=\"ok\""]) - 200.0).abs() < 0.1, "{metrics:?}");
}

#[tokio::test]
async fn the_queue_of_a_real_engine_is_seen() {
    let Some(bed) = Box::pin(bed()).await else { return };
    // Six at each engine of two slots, for as long as it takes to see it. Each engine is asked by name: taken in turn,
    // the faster one would be idle while all wait at the slower.
    let load = join_all((0..12).map(|number| bed.keep_asking(["one", "two"][number % 2])));
    let seen = bed.gateway.wait_metrics("a queue", |metrics| {
        ["one", "two"].iter().all(|engine| {
            let label = format!("engine=\"{engine}\"");
            let read = |name: &str| metrics.sum(name, &[&label]);
            read("signalbox_engine_running") >= 1.0 && read("signalbox_engine_waiting") >= 1.0
        })
    });
    let metrics = tokio::select! {
        metrics = seen => metrics,
        _ = load => unreachable!("it has no end"),
    };
    assert!(!metrics.0.keys().any(|key| key.starts_with("signalbox_engine_kv_usage_ratio")), "llama.cpp reports none");
    assert!((metrics.sum("signalbox_engine_up", &[]) - 3.0).abs() < 0.1, "{metrics:?}");
    // The clients have left: the engines are free again.
    bed.gateway
        .wait_metrics("the engines to be free", |metrics| {
            metrics.sum("signalbox_engine_running", &[]) + metrics.sum("signalbox_engine_waiting", &[]) < 0.5
                && metrics.sum("signalbox_in_flight", &[]) < 0.5
        })
        .await;
    assert_eq!(bed.chat(json!({})).await.status, 200);
}

#[tokio::test]
async fn the_sdks_are_content_with_real_engines() {
    let Some(bed) = Box::pin(bed()).await else { return };
    let mock = crate::support::mock::Mock::start(crate::support::mock::polite).await;
    let policy = format!(
        "pools:\n  chat: {{ backends: [\"{}\", \"{}\"] }}\n  embed: {{ backends: [\"{}\"] }}\n  mock: {{ backends: [\"{}\"] }}\n\
         models: {{ chat: {{ to: chat }}, embed: {{ to: embed }}, \"err-*\": {{ to: mock }} }}\n",
        bed.engines[0].url(),
        bed.engines[1].url(),
        bed.engines[2].url(),
        mock.url()
    );
    let gateway = Gateway::start(&policy).await;
    let url = gateway.url();
    tokio::join!(sdk::python(&url), sdk::node(&url));
}

#[tokio::test]
async fn an_engine_killed_in_mid_answer_is_stood_in_for() {
    let [one, two] = [(); 2].map(|()| Engine::start(Model::Chat, 2, 4096));
    let (Some(one), Some(two)) = (one.await, two.await) else { return };
    let policy = format!(
        "pools:\n  chat: {{ balance: round_robin, backends: [\"{}\", \"{}\"] }}\nmodels: {{ chat: {{ to: chat }} }}\n",
        one.url(),
        two.url()
    );
    let gateway = Gateway::start(&policy).await;
    gateway.wait_metrics("both to be known", |now| now.sum("signalbox_engine_up", &[]) > 1.5).await;
    let body = json!({ "model": "chat", "max_tokens": 400, "temperature": 0, "stream": true, "ignore_eos": true,
        "stream_options": { "include_usage": true }, "messages": [{ "role": "user", "content": "Count." }] });
    let mut stream = Sse::post(&gateway.at("/v1/chat/completions"), &body).await;
    // Round robin: the first is `one`.
    let mut before = Vec::new();
    while before.len() < 20 {
        before.push(stream.data().await.unwrap());
    }
    drop(one);
    let (events, end) = stream.rest().await;
    assert!(matches!(end, End::Clean), "{end:?}");
    let after = events.iter().filter_map(|event| client::data(event));
    let datas: Vec<String> = before.into_iter().chain(after).collect();
    assert_eq!(datas.last().map(String::as_str), Some("[DONE]"), "{:?}", datas.last());
    let chunks: Vec<Value> = datas.iter().filter_map(|data| serde_json::from_str(data).ok()).collect();
    assert!(chunks.iter().all(|chunk| chunk["error"].is_null()), "no word of it: {chunks:?}");
    let delta = |chunk: &Value| chunk["choices"][0]["delta"].clone();
    assert_eq!(chunks.iter().filter(|chunk| delta(chunk)["role"].is_string()).count(), 1);
    let ids: std::collections::BTreeSet<&str> = chunks.iter().filter_map(|chunk| chunk["id"].as_str()).collect();
    assert_eq!(ids.len(), 1, "one answer: {ids:?}");
    let usage = chunks.iter().find_map(|chunk| chunk["usage"]["completion_tokens"].as_u64());
    assert!(usage.is_some_and(|tokens| (300..=500).contains(&tokens)), "{usage:?}");
    let line = &gateway.get_json("/admin/decisions").await[0];
    assert_eq!((&line["outcome"], line["attempts"].as_array().unwrap().len()), (&json!("ok"), 2), "{line}");
}
