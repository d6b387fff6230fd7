//! The HTTP server of simulated engines over real loopback connections.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use serde_json::{Value, json};

use super::{Profile, Running, fleet, start};

/// A profile so fast that tests need not wait for it.
fn quick() -> Profile {
    Profile {
        step_ms: 0.1,
        sequence_ms: 0.0,
        prompt_ms: 0.1,
        prefill_ms: 0.0001,
        context_tokens: 4_096,
        ..Profile::small()
    }
}

/// A profile so slow that nothing finishes during a test.
fn slow() -> Profile {
    Profile { step_ms: 1e9, max_sequences: 1, ..Profile::small() }
}

fn client() -> reqwest::Client {
    // The error means that another test has installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

async fn engine(profile: Profile) -> Running {
    start(profile, "sim", SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap()
}

fn post(engine: &Running, path: &str, body: &Value) -> reqwest::RequestBuilder {
    client().post(engine.url() + path).header("content-type", "application/json").body(body.to_string())
}

async fn ask(engine: &Running, path: &str, body: &Value) -> (u16, Value) {
    let response = post(engine, path, body).send().await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap())
}

async fn get(engine: &Running, path: &str) -> String {
    client().get(engine.url() + path).send().await.unwrap().text().await.unwrap()
}

/// Events of a stream, the last of which has to be `[DONE]`.
async fn events(engine: &Running, path: &str, body: &Value) -> Vec<Value> {
    let response = post(engine, path, body).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
    let text = response.text().await.unwrap();
    let mut frames: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(frames.pop(), Some(""));
    assert_eq!(frames.pop(), Some("data: [DONE]"));
    frames.iter().map(|frame| serde_json::from_str(frame.strip_prefix("data: ").unwrap()).unwrap()).collect()
}

fn hello(more: &Value) -> Value {
    let mut body = json!({"model": "sim", "messages": [{"role": "user", "content": "Hello ".repeat(40)}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn a_chat_streams_role_tokens_finish_and_usage() {
    let engine = engine(quick()).await;
    let body = hello(&json!({"stream": true, "stream_options": {"include_usage": true}, "max_tokens": 12}));
    let events = events(&engine, CHAT, &body).await;
    assert_eq!(events.len(), 15, "role, twelve tokens, finish, usage");
    assert_eq!(events[0]["object"], "chat.completion.chunk");
    assert_eq!(events[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert!(events.iter().all(|event| event["id"] == events[0]["id"] && event["model"] == "sim"));
    assert!(events[..14].iter().all(|event| event["usage"].is_null() && event.get("usage").is_some()));
    let text: String =
        events[1..13].iter().map(|event| event["choices"][0]["delta"]["content"].as_str().unwrap()).collect();
    assert!(text.starts_with("This is a simulated answer"), "{text}");
    assert!(events[1..13].iter().all(|event| event["choices"][0]["finish_reason"].is_null()));
    assert_eq!(events[13]["choices"][0], json!({"index": 0, "delta": {}, "logprobs": null, "finish_reason": "length"}));
    assert_eq!(events[14]["choices"], json!([]));
    let usage = json!({"prompt_tokens": 63, "completion_tokens": 12, "total_tokens": 75, "prompt_tokens_details": {"cached_tokens": 0}});
    assert_eq!(events[14]["usage"], usage);
}

#[tokio::test]
async fn a_stream_without_usage_has_no_such_field() {
    let engine = engine(quick()).await;
    let events = events(&engine, CHAT, &hello(&json!({"stream": true}))).await;
    assert!(events.iter().all(|event| event.get("usage").is_none()));
    assert_eq!(events.last().unwrap()["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn a_whole_answer_repeats_itself_and_finds_its_prefix_cached() {
    let engine = engine(quick()).await;
    let (status, first) = ask(&engine, CHAT, &hello(&json!({}))).await;
    let (_, second) = ask(&engine, CHAT, &hello(&json!({}))).await;
    assert_eq!((status, &first["object"]), (200, &json!("chat.completion")));
    assert_eq!(first["choices"], second["choices"]);
    assert_ne!(first["id"], second["id"]);
    assert_eq!(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    assert_eq!(second["usage"]["prompt_tokens_details"]["cached_tokens"], 48, "three blocks of 63 tokens");
    let metrics = get(&engine, "/metrics").await;
    assert!(metrics.contains("vllm:prefix_cache_queries_total{engine=\"0\",model_name=\"sim\"} 126\n"), "{metrics}");
    assert!(metrics.contains("vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"sim\"} 48\n"));
    assert!(metrics.contains("vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"sim\"} 2\n"));
}

#[tokio::test]
async fn several_choices_come_in_one_stream() {
    let engine = engine(quick()).await;
    let events = events(&engine, CHAT, &hello(&json!({"stream": true, "n": 3, "max_tokens": 5}))).await;
    for index in 0..3 {
        let own: Vec<_> = events.iter().filter(|event| event["choices"][0]["index"] == index).collect();
        assert_eq!(own.len(), 7, "role, five tokens, finish");
    }
}

#[tokio::test]
async fn a_completion_answers_every_prompt() {
    let engine = engine(quick()).await;
    let body = json!({"model": "sim", "prompt": ["one", "two"], "max_tokens": 3});
    let (_, whole) = ask(&engine, "/v1/completions", &body).await;
    assert_eq!((&whole["object"], whole["choices"].as_array().unwrap().len()), (&json!("text_completion"), 2));
    assert_eq!(whole["choices"][1]["text"], "This is a");
    let body = json!({"model": "sim", "prompt": "one", "stream": true, "max_tokens": 3});
    let events = events(&engine, "/v1/completions", &body).await;
    let text: String = events.iter().map(|event| event["choices"][0]["text"].as_str().unwrap()).collect();
    assert_eq!((text.as_str(), events.len()), ("This is a", 4));
}

#[tokio::test]
async fn a_tool_call_comes_whole_or_in_pieces() {
    let engine = engine(quick()).await;
    let tool = json!({"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}
    }}});
    let mut body = hello(&json!({"tools": [tool], "tool_choice": "required"}));
    let (_, whole) = ask(&engine, CHAT, &body).await;
    let choice = &whole["choices"][0];
    let function = &choice["message"]["tool_calls"][0]["function"];
    assert_eq!((&choice["finish_reason"], &function["name"]), (&json!("tool_calls"), &json!("get_weather")));
    body["stream"] = json!(true);
    let events = events(&engine, CHAT, &body).await;
    let calls: Vec<_> = events.iter().map(|event| &event["choices"][0]["delta"]["tool_calls"][0]).collect();
    assert_eq!((&calls[0]["function"]["name"], &calls[0]["type"]), (&json!("get_weather"), &json!("function")));
    let arguments: String = calls.iter().filter_map(|call| call["function"]["arguments"].as_str()).collect();
    assert_eq!(function["arguments"], arguments.as_str());
    assert_eq!(serde_json::from_str::<Value>(&arguments).unwrap(), json!({"city": "simulated city", "days": 3}));
}

#[tokio::test]
async fn embeddings_come_as_numbers_or_base64() {
    let engine = engine(quick()).await;
    let mut body = json!({"model": "sim", "input": ["red trains", "blue trains"], "dimensions": 8});
    let (status, floats) = ask(&engine, "/v1/embeddings", &body).await;
    assert_eq!((status, floats["data"].as_array().unwrap().len()), (200, 2));
    let vector: Vec<f64> =
        floats["data"][1]["embedding"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    assert!(vector.len() == 8 && (vector.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-5);
    body["encoding_format"] = json!("base64");
    let (_, packed) = ask(&engine, "/v1/embeddings", &body).await;
    assert_eq!(packed["data"][1]["embedding"].as_str().map(str::len), Some(44), "32 bytes");
    assert_eq!(packed["usage"], json!({"prompt_tokens": 6, "total_tokens": 6}));
}

#[tokio::test]
async fn refusals_have_the_shape_of_openai() {
    let engine = engine(quick()).await;
    let long = json!({"model": "sim", "messages": [{"role": "user", "content": "x".repeat(20_000)}]});
    for (path, body, status, code, param) in [
        (CHAT, hello(&json!({"model": "other"})), 404, json!("model_not_found"), json!("model")),
        (CHAT, long, 400, json!("context_length_exceeded"), json!("messages")),
        (CHAT, json!([]), 400, Value::Null, Value::Null),
        ("/v1/embeddings", json!({"model": "other", "input": "a"}), 404, json!("model_not_found"), json!("model")),
        (
            "/v1/embeddings",
            json!({"model": "sim", "input": "x".repeat(20_000)}),
            400,
            json!("context_length_exceeded"),
            json!("input"),
        ),
        ("/v1/nothing", json!({}), 404, Value::Null, Value::Null),
    ] {
        let (given, answer) = ask(&engine, path, &body).await;
        let error = &answer["error"];
        assert_eq!((given, &error["code"], &error["param"]), (status, &code, &param), "{path} {answer}");
        assert!(error["type"] == "invalid_request_error" && error["message"].is_string());
    }
    let bad = client().post(engine.url() + CHAT).body("{\"model\": ").send().await.unwrap();
    assert_eq!(bad.status(), 400);
}

#[tokio::test]
async fn the_engine_introduces_itself() {
    let engine = engine(quick()).await;
    let models: Value = serde_json::from_str(&get(&engine, "/v1/models").await).unwrap();
    assert_eq!(models["data"][0]["owned_by"], "signalbox-simulated");
    assert_eq!((&models["data"][0]["id"], &models["data"][0]["max_model_len"]), (&json!("sim"), &json!(4_096)));
    assert_eq!(get(&engine, "/health").await, "");
}

/// Polls until the engine has this many running and waiting jobs.
async fn until(engine: &Running, running: u32, waiting: u32) {
    let lines = [("running", running), ("waiting", waiting)]
        .map(|(name, number)| format!("vllm:num_requests_{name}{{engine=\"0\",model_name=\"sim\"}} {number}\n"));
    let reached = async {
        loop {
            let page = get(engine, "/metrics").await;
            if lines.iter().all(|line| page.contains(line)) {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), reached).await.unwrap();
}

#[tokio::test]
async fn clients_that_leave_cancel_their_jobs_while_prefilling_and_waiting() {
    for stream in [false, true] {
        let engine = engine(slow()).await;
        let body = hello(&json!({"stream": stream}));
        let first = tokio::spawn(post(&engine, CHAT, &body).send());
        until(&engine, 1, 0).await;
        let second = tokio::spawn(post(&engine, CHAT, &body).send());
        until(&engine, 1, 1).await;
        // The head of a stream arrives at once, so the task is over and drops its response with its handle.
        second.abort();
        drop(second.await);
        until(&engine, 1, 0).await;
        first.abort();
        drop(first.await);
        until(&engine, 0, 0).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_a_stream_cancels_its_job() {
    let engine = engine(Profile { step_ms: 1.0, ..quick() }).await;
    let body = hello(&json!({"stream": true}));
    let mut response = post(&engine, CHAT, &body).header("x-sim-output-tokens", "4000").send().await.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
    drop(response);
    until(&engine, 0, 0).await;
    let page = get(&engine, "/metrics").await;
    let tokens = page
        .lines()
        .find_map(|line| line.strip_prefix("vllm:generation_tokens_total{engine=\"0\",model_name=\"sim\"} "));
    assert!(tokens.unwrap().parse::<u32>().unwrap() < 4_000);
}

#[tokio::test]
async fn a_stopped_engine_cuts_its_streams_and_frees_its_port() {
    let engine = engine(slow()).await;
    let (addr, profile) = (engine.addr, engine.profile);
    let mut response = post(&engine, CHAT, &hello(&json!({"stream": true}))).send().await.unwrap();
    engine.stop().await;
    assert!(response.chunk().await.is_err(), "a cut stream does not end cleanly");
    assert!(start(profile, "sim", addr).await.is_ok());
}

#[tokio::test]
async fn the_fleet_has_three_pools() {
    let groups = fleet().await.unwrap();
    let shape: Vec<_> =
        groups.iter().map(|group| (group.pool, &*group.engines[0].model, group.engines.len())).collect();
    assert_eq!(shape, [("small", "small", 3), ("large", "large", 2), ("long", "long", 1)]);
    let models = get(&groups[2].engines[0], "/v1/models").await;
    assert!(models.contains("\"max_model_len\":1048576"), "{models}");
}
