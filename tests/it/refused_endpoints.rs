//! Answers with 404, 405 and 501: errors about one request cost others nothing, and an endpoint that is missing is noticed by
//! a probe, logged, and found again within seconds.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use serde_json::{Value, json};

use crate::support::{
    client::{self, Answer, Sse},
    gateway::Gateway,
    mock::{Mock, Plan, Seen, polite},
    until,
};

const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages";
const CHAT: &str = "/v1/chat/completions";

/// Errors about objects, parameters and kinds of input, as engines and providers word them.
fn about_requests() -> Vec<(u16, Value)> {
    let openai = |message: &str| json!({ "error": { "message": message, "type": "invalid_request_error", "param": null, "code": null } });
    vec![
        (404, openai("Previous response with id 'resp_1' not found.")),
        (
            404,
            json!({ "error": { "message": "Not found", "type": "invalid_request_error", "param": "previous_response_id" } }),
        ),
        (404, openai("No file with id 'file-1' exists")),
        (404, openai("No such picture: https://pictures.example/1.png")),
        (404, openai("No endpoints found that support image input")),
        (404, openai("The tool's model `painter-1` does not exist.")),
        (404, json!({ "type": "error", "error": { "type": "not_found_error", "message": "container: c_1" } })),
        (
            404,
            json!([{ "error": { "code": 404, "message": "Entity was not found: cachedContents/1", "status": "NOT_FOUND" } }]),
        ),
        (
            404,
            json!({ "type": "about:blank", "title": "Not Found", "status": 404, "detail": "prompt 1 was not found" }),
        ),
        (404, json!({ "detail": "The adapter sql does not exist." })),
        (405, openai("This parameter is not allowed here: logit_bias")),
        (501, openai("Background mode is not implemented")),
        (501, json!({ "error": "pictures are not implemented" })),
    ]
}

/// Answers as of servers that have no such path.
fn bare() -> Vec<Plan> {
    vec![
        Plan::status(404),
        Plan::text(404, "text/plain", "404 page not found\n"),
        Plan::text(404, "text/html", "<html><head><title>404 Not Found</title></head><center>nginx</center></html>"),
        Plan::json(404, &json!({ "detail": "Not Found" })),
        Plan::json(405, &json!({ "detail": "Method Not Allowed" })),
        Plan::text(501, "text/html", "<!DOCTYPE html><title>501</title>"),
        Plan::error(404, "Invalid URL (POST /v1/responses)"),
    ]
}

fn request(path: &str, content: &str, streams: bool) -> Value {
    match path {
        RESPONSES => json!({ "model": "m", "input": content, "stream": streams }),
        _ => {
            json!({ "model": "m", "max_tokens": 9, "stream": streams, "messages": [{ "role": "user", "content": content }] })
        }
    }
}

fn content(seen: &Seen) -> String {
    let body = seen.json();
    body["input"].as_str().or(body["messages"][0]["content"].as_str()).unwrap_or_default().to_owned()
}

fn native_answer(seen: &Seen) -> Plan {
    match &*seen.path {
        RESPONSES => Plan::json(
            200,
            &json!({
                "id": "resp_2", "object": "response", "status": "completed", "model": "m", "output": [],
                "usage": { "input_tokens": 1, "output_tokens": 1, "total_tokens": 2 },
            }),
        ),
        MESSAGES => Plan::json(
            200,
            &json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": null,
                "content": [{ "type": "text", "text": "native" }], "stop_reason": "end_turn",
                "usage": { "input_tokens": 3, "output_tokens": 1 },
            }),
        ),
        _ => polite(seen),
    }
}

/// An engine with all APIs. A request whose content is `case N` gets the plan of that number.
async fn scripted(plans: Vec<Plan>) -> Mock {
    let mock = Mock::start(move |seen| {
        let case = content(seen).strip_prefix("case ").and_then(|number| number.parse::<usize>().ok());
        case.map_or_else(|| native_answer(seen), |number| plans[number].clone())
    })
    .await;
    mock.set_apis([CHAT, RESPONSES, MESSAGES]);
    mock
}

async fn speaks(gateway: &Gateway, endpoint: &str) -> bool {
    let state = gateway.get_json("/admin/state").await;
    state["pools"][0]["speaks"].as_array().is_some_and(|all| all.iter().any(|it| it == endpoint))
}

async fn one_pool(mock: &Mock) -> Gateway {
    let policy = format!("pools: {{ p: {{ model: m, backends: [\"{}\"] }} }}\n", mock.url());
    let gateway = Gateway::start(&policy).await;
    until("the engine to be known", async || speaks(&gateway, "messages").await).await;
    gateway
}

async fn ask(gateway: &Gateway, path: &str, content: &str) -> Answer {
    client::post(&gateway.at(path), &request(path, content, false)).await
}

fn is_native(answer: &Answer) -> bool {
    answer.status == 200 && answer.header("x-signalbox-translated").is_empty()
}

/// Probes for one path so far.
fn probes(mock: &Mock, path: &str) -> usize {
    mock.probes().iter().filter(|seen| seen.method == "POST" && seen.path == path).count()
}

#[tokio::test]
async fn an_error_about_a_request_turns_no_endpoint_off() {
    let cases = about_requests();
    let mock = scripted(cases.iter().map(|(status, body)| Plan::json(*status, body)).collect()).await;
    let gateway = one_pool(&mock).await;
    for path in [RESPONSES, MESSAGES] {
        let before = probes(&mock, path);
        for (number, (status, body)) in cases.iter().enumerate() {
            let name = format!("case {number}");
            let refused = if number % 2 == 0 {
                ask(&gateway, path, &name).await.status
            } else {
                Sse::post(&gateway.at(path), &request(path, &name, true)).await.status
            };
            assert_eq!(refused, *status, "{path}: {body}");
            let other = ask(&gateway, path, "hi").await;
            assert!(is_native(&other), "{path}: {body}: {}", other.text());
        }
        assert_eq!(probes(&mock, path), before, "{path}: there is no reason to ask again");
    }
    // Requests about objects, and a count of tokens that the engine lacks.
    let gone = client::get(&gateway.at("/v1/responses/resp_1")).await;
    let counted = client::post(&gateway.at("/v1/messages/count_tokens"), &request(MESSAGES, "case 0", false)).await;
    assert_eq!((gone.status.as_u16(), counted.status.as_u16()), (404, 404));
    assert!(is_native(&ask(&gateway, RESPONSES, "hi").await) && is_native(&ask(&gateway, MESSAGES, "hi").await));
    let state = gateway.get_json("/admin/state").await;
    assert_eq!(state["pools"][0]["backends"][0]["breaker"], "closed");
}

#[tokio::test]
async fn a_bare_answer_makes_a_probe_and_that_decides() {
    let mock = scripted(bare()).await;
    let gateway = one_pool(&mock).await;
    let before = probes(&mock, RESPONSES);
    for number in 0..bare().len() {
        assert!(!ask(&gateway, RESPONSES, &format!("case {number}")).await.status.is_success());
        assert!(is_native(&ask(&gateway, RESPONSES, "hi").await), "case {number}");
    }
    until("the engine to be asked again", async || probes(&mock, RESPONSES) > before).await;
    assert!(is_native(&ask(&gateway, RESPONSES, "hi").await));
    assert_eq!(mock.seen().iter().filter(|seen| seen.path == CHAT).count(), 0, "nothing was translated");
}

#[tokio::test]
async fn a_lost_endpoint_is_logged_and_found_again_within_seconds() {
    let is_there = Arc::new(AtomicBool::new(true));
    let there = is_there.clone();
    let mock = Mock::start(move |seen| match &*seen.path {
        RESPONSES if !there.load(Relaxed) => Plan::json(404, &json!({ "detail": "Not Found" })),
        _ => native_answer(seen),
    })
    .await;
    mock.set_apis([CHAT, RESPONSES, MESSAGES]);
    let gateway = one_pool(&mock).await;
    is_there.store(false, Relaxed);
    mock.set_apis([CHAT, MESSAGES]);
    assert_eq!(ask(&gateway, RESPONSES, "hi").await.status, 404);
    gateway.wait_log("serves /v1/responses no longer").await;
    assert_eq!(ask(&gateway, RESPONSES, "hi").await.header("x-signalbox-translated"), "responses");
    let state = gateway.get_json("/admin/state").await;
    let missing = &state["pools"][0]["backends"][0]["missing"];
    let of = missing.as_array().and_then(|all| all.iter().find(|it| it["endpoint"] == "responses"));
    let of = of.unwrap_or_else(|| panic!("{missing}"));
    assert_eq!((&of["was_served"], &of["answer"]), (&json!(true), &json!("a probe got 404")));
    assert!(of["again_s"].as_f64().is_some_and(|again| again <= 2.0), "{of}");
    assert!(state["health"].to_string().contains("responses is missing"), "{}", state["health"]);
    is_there.store(true, Relaxed);
    mock.set_apis([CHAT, RESPONSES, MESSAGES]);
    until("the endpoint to be back", async || is_native(&ask(&gateway, RESPONSES, "hi").await)).await;
    gateway.wait_log("serves /v1/responses now").await;
}

/// A pool and the one that stands in for it. Engines are neither probed nor scraped.
async fn with_fallback(first: &Mock, second: &Mock, route: &str) -> Gateway {
    Gateway::start(&format!(
        "engines:\n  a: {{ url: \"{}\", scrape: false }}\n  b: {{ url: \"{}\", scrape: false }}\n\
         pools:\n  first: {{ model: m, backends: [{{ engine: a }}] }}\n  second: {{ model: n, backends: [{{ engine: b }}] }}\n\
         models: {{ m: {{ to: first, fallback: [second]{route} }} }}\n",
        first.url(),
        second.url()
    ))
    .await
}

#[tokio::test]
async fn a_refused_request_moves_on_and_others_stay() {
    let cases = about_requests();
    let plans = cases.iter().map(|(status, body)| Plan::json(*status, body).header("retry-after", "60")).collect();
    let (first, second) = (scripted(plans).await, Mock::start(polite).await);
    let gateway = with_fallback(&first, &second, ", spill: off").await;
    for round in 0..4 {
        for (number, (status, body)) in cases.iter().enumerate() {
            let answer = ask(&gateway, CHAT, &format!("case {number}")).await;
            let is_elsewhere = answer.status == 200 && answer.header("x-signalbox-pool") == "second";
            assert!(is_elsewhere, "{status}: {body}: {}", answer.text());
            let other = ask(&gateway, CHAT, "hi").await;
            assert_eq!((other.status.as_u16(), other.header("x-signalbox-pool")), (200, "first"), "{round}: {body}");
        }
    }
    let state = gateway.get_json("/admin/state").await;
    assert_eq!(state["pools"][0]["backends"][0]["breaker"], "closed");
}

#[tokio::test]
async fn bare_answers_in_a_row_leave_an_unprobed_backend_out_for_seconds() {
    let says = Arc::new(Mutex::new(Some(Plan::status(404))));
    let said = says.clone();
    let first = Mock::start(move |seen| said.lock().unwrap().clone().unwrap_or_else(|| polite(seen))).await;
    let second = Mock::start(polite).await;
    let gateway = with_fallback(&first, &second, ", spill: off").await;
    for _ in 0..20 {
        assert_eq!(ask(&gateway, CHAT, "hi").await.header("x-signalbox-pool"), "second");
    }
    assert!((3..=5).contains(&first.seen().len()), "{} requests", first.seen().len());
    gateway.wait_log("seems to lack chat").await;
    let state = gateway.get_json("/admin/state").await;
    let missing = &state["pools"][0]["backends"][0]["missing"];
    assert_eq!((&missing[0]["endpoint"], &missing[0]["was_served"]), (&json!("chat"), &json!(true)), "{missing}");
    *says.lock().unwrap() = None;
    until("the backend to be back", async || ask(&gateway, CHAT, "hi").await.header("x-signalbox-pool") == "first")
        .await;
    gateway.wait_log("answers at chat again").await;
    assert!(first.probes().iter().all(|seen| seen.method == "GET"), "it is never probed");
}

#[tokio::test]
async fn a_model_that_is_away_is_asked_for_again_within_seconds() {
    let is_there = Arc::new(AtomicBool::new(false));
    let there = is_there.clone();
    let first = Mock::start(move |seen| {
        if there.load(Relaxed) { polite(seen) } else { Plan::json(404, &json!({ "error": "Model not found" })) }
    })
    .await;
    let second = Mock::start(polite).await;
    let gateway = with_fallback(&first, &second, "").await;
    for _ in 0..30 {
        assert_eq!(ask(&gateway, CHAT, "hi").await.header("x-signalbox-pool"), "second");
    }
    assert!(first.seen().len() <= 6, "others take its requests: {}", first.seen().len());
    is_there.store(true, Relaxed);
    until("the model to be back", async || ask(&gateway, CHAT, "hi").await.header("x-signalbox-pool") == "first").await;
}
