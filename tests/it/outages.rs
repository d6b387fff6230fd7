//! Series of requests through outages: a request fails only if no healthy backend has room.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use serde_json::{Value, json};

use super::keys::keys;
use crate::support::{
    client::{Answer, End, Sse, answer, data, http, json as with_json},
    gateway::Gateway,
    mock::{Mock, Plan, Seen, chat_events, polite, usage_event},
    until, within,
};

const TOKENS: usize = 60;

fn words() -> Vec<String> {
    (0..TOKENS).map(|number| format!("w{number} ")).collect()
}

fn chat(stream: bool) -> Value {
    json!({ "model": "auto", "stream": stream, "messages": [{ "role": "user", "content": "hi" }] })
}

async fn ask(gateway: &Gateway, body: &Value) -> Answer {
    answer(with_json(http().post(gateway.at("/v1/chat/completions")), body)).await
}

/// Number of failures among `count` requests, eight at a time, every other one streamed.
async fn failures(gateway: &Arc<Gateway>, count: usize) -> usize {
    let left = Arc::new(AtomicUsize::new(count));
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (gateway, left) = (gateway.clone(), left.clone());
            tokio::spawn(async move {
                let mut failed = 0;
                while let Ok(number) = left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)) {
                    let answer = ask(&gateway, &chat(number % 2 == 0)).await;
                    failed += usize::from(answer.status != 200 || answer.text().contains("\"error\""));
                }
                failed
            })
        })
        .collect();
    let mut failed = 0;
    for worker in workers {
        failed += worker.await.expect("no panic");
    }
    failed
}

/// A model that fails in the given way under its own name, and is healthy under the name `spare`.
fn fails(
    plan: impl Fn(usize) -> Option<Plan> + Send + Sync + 'static,
) -> impl Fn(&Seen) -> Plan + Send + Sync + 'static {
    let asked = AtomicUsize::new(0);
    move |seen| {
        if seen.json()["model"] != "main" {
            return polite(seen);
        }
        plan(asked.fetch_add(1, Relaxed)).unwrap_or_else(|| polite(seen))
    }
}

/// The main model and a fallback at the same address: in a pool of its own, or in the same one.
fn policy(mock: &Mock, same_pool: bool) -> String {
    let url = mock.url();
    if same_pool {
        return format!(
            "pools:\n  main: {{ balance: round_robin, backends: [{{ url: \"{url}\", model: main }}, {{ url: \"{url}\", model: spare }}] }}\n\
             models: {{ auto: {{ to: main }} }}\n"
        );
    }
    format!(
        "pools:\n  main: {{ model: main, backends: [\"{url}\"] }}\n  spare: {{ model: spare, backends: [\"{url}\"] }}\n\
         models: {{ auto: {{ to: main, fallback: [spare] }} }}\n"
    )
}

#[tokio::test]
async fn a_flaky_primary_loses_nothing_beside_a_healthy_fallback() {
    for same_pool in [false, true] {
        for percent in [20, 30, 45] {
            // The same scattered requests fail each time.
            let mock = Mock::start(fails(move |number| {
                (number * 7919 % 100 < percent).then(|| Plan::error(503, "overloaded"))
            }))
            .await;
            let gateway = Arc::new(Gateway::start(&policy(&mock, same_pool)).await);
            assert_eq!(failures(&gateway, 300).await, 0, "{percent} %, in the same pool: {same_pool}");
        }
    }
}

#[tokio::test]
async fn a_full_model_takes_no_room_from_another_at_the_same_address() {
    for same_pool in [false, true] {
        let mock = Mock::start(|seen| match seen.json()["model"].as_str() {
            Some("main") => Plan::error(503, "overloaded"),
            _ => Plan::stream().events(chat_events(["one"])).gate(0).event(&usage_event(7, 1)).done(),
        })
        .await;
        let gateway = Gateway::start(&policy(&mock, same_pool)).await;
        // Each begins while those before it are under way.
        let mut streams = Vec::new();
        for number in 0..12 {
            let mut stream = Sse::post(&gateway.at("/v1/chat/completions"), &chat(true)).await;
            let token = async { while !stream.data().await.expect("a token first").contains("one") {} };
            within(&format!("the first token of stream {number}, in the same pool: {same_pool}"), token).await;
            streams.push(stream);
        }
        mock.open(0);
        for stream in streams {
            let (_, _, is_whole) = read(stream).await;
            assert!(is_whole);
        }
    }
}

#[tokio::test]
async fn a_primary_that_always_fails_loses_nothing_beside_a_fallback_at_the_same_address() {
    let ways = [
        ("500", Plan::error(500, "internal")),
        ("429", Plan::error(429, "slow down")),
        ("503", Plan::error(503, "overloaded")),
        ("html", Plan::text(200, "text/html", "<html>maintenance</html>")),
        ("garbage", Plan::garbage("\u{0}\u{1}what?\r\n\r\n")),
        ("reset", Plan::reset_at_once()),
    ];
    for (name, way) in ways {
        let mock = Mock::start(fails(move |_| Some(way.clone()))).await;
        let gateway = Arc::new(Gateway::start(&policy(&mock, false)).await);
        assert_eq!(failures(&gateway, 200).await, 0, "{name}");
        let tries = mock.seen().iter().filter(|seen| seen.json()["model"] == "main").count();
        assert!(tries < 60, "{name}: the primary was asked {tries} times");
    }
}

#[tokio::test]
async fn if_every_backend_fails_attempts_stay_close_to_requests() {
    for (status, message) in [(503, "overloaded"), (500, "internal"), (429, "slow down")] {
        let (one, two) = (
            Mock::start(move |_| Plan::error(status, message)).await,
            Mock::start(move |_| Plan::error(status, message)).await,
        );
        let policy = format!(
            "pools:\n  main: {{ model: main, backends: [\"{}\"] }}\n  spare: {{ model: spare, backends: [\"{}\"] }}\n\
             models: {{ auto: {{ to: main, fallback: [spare] }} }}\n",
            one.url(),
            two.url()
        );
        let gateway = Arc::new(Gateway::start(&policy).await);
        let requests = 600;
        assert_eq!(failures(&gateway, requests).await, requests);
        let attempts = one.seen().len() + two.seen().len();
        assert!(attempts <= requests * 12 / 10 + 60, "{status}: {attempts} attempts for {requests} requests");
    }
}

/// Continues an answer, or begins one that stalls after 40 tokens until its gate opens, and is then cut.
fn continues(cut: bool) -> impl Fn(&Seen) -> Plan + Send + Sync + 'static {
    move |seen| {
        let body = seen.json();
        let last = body["messages"].as_array().and_then(|all| all.last().cloned()).unwrap_or_default();
        let said =
            if last["role"] == "assistant" { last["content"].as_str().unwrap_or("").split(' ').count() - 1 } else { 0 };
        if cut && said == 0 {
            return Plan::stream().events(&chat_events(words())[..=40]).gate(0).cut();
        }
        let events = chat_events(&words()[said..]);
        Plan::stream().events(events).event(&usage_event(7 + said, TOKENS - said)).done()
    }
}

async fn known_as_vllm(gateway: &Gateway, count: usize) {
    until("the engines to be known", async || {
        gateway.get_json("/admin/state").await.to_string().matches("\"kind\":\"vllm\"").count() == count
    })
    .await;
}

/// Reads a whole stream: its text, its counted completion tokens, and whether it ended well.
async fn read(mut stream: Sse) -> (String, u64, bool) {
    let (events, end) = stream.rest().await;
    let chunks: Vec<Value> =
        events.iter().filter_map(|event| data(event)).filter_map(|data| serde_json::from_str(&data).ok()).collect();
    let text = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    let usage = chunks.iter().filter_map(|chunk| chunk["usage"]["completion_tokens"].as_u64()).next_back();
    let done = events.last().and_then(|event| data(event)).is_some_and(|data| data == "[DONE]");
    (text, usage.unwrap_or(0), done && matches!(end, End::Clean))
}

#[tokio::test]
async fn a_hundred_streams_of_an_engine_that_dies_are_all_resumed_and_counted() {
    let dying = Mock::start(continues(true)).await;
    let siblings = [Mock::start(continues(false)).await, Mock::start(continues(false)).await];
    for mock in [&dying, &siblings[0], &siblings[1]] {
        mock.set_vllm(0, 0, 0.1);
    }
    // All begin on the first; the others serve the same model under another name, in the next pool.
    let policy = format!(
        "pools:\n  main: {{ model: m, backends: [\"{}\"] }}\n  \
           spare: {{ backends: [{{ url: \"{}\", model: org/m, same_as: m }}, {{ url: \"{}\", model: org/m, same_as: m }}] }}\n\
         models: {{ auto: {{ to: main, fallback: [spare], spill: off }} }}\n",
        dying.url(),
        siblings[0].url(),
        siblings[1].url()
    );
    let gateway = Arc::new(Gateway::start(&policy).await);
    known_as_vllm(&gateway, 3).await;
    let body = json!({ "model": "auto", "stream": true, "stream_options": { "include_usage": true },
        "messages": [{ "role": "user", "content": "Count." }] });
    let streams: Vec<_> = (0..100)
        .map(|_| {
            let (gateway, body) = (gateway.clone(), body.clone());
            tokio::spawn(async move {
                read(Sse::send(with_json(http().post(gateway.at("/v1/chat/completions")), &body)).await).await
            })
        })
        .collect();
    gateway.wait_metrics("all to be under way", |now| now.sum("signalbox_backend_decoding", &[]) > 99.5).await;
    dying.open(0);
    let (mut broken, mut miscounted) = (0, 0);
    for stream in streams {
        let (text, usage, well) = stream.await.expect("no panic");
        broken += usize::from(!well || text != words().concat());
        miscounted += usize::from(usage != TOKENS as u64);
    }
    assert_eq!((broken, miscounted), (0, 0));
}

#[tokio::test]
async fn nothing_stays_on_an_engine_that_hangs() {
    let hung = Mock::start(|_| Plan::silence()).await;
    let sound = Mock::start(polite).await;
    let policy = format!(
        "timeouts: {{ first_token: 500ms }}\n\
         pools:\n  main: {{ model: main, backends: [\"{}\"] }}\n  spare: {{ model: spare, backends: [\"{}\"] }}\n\
         models: {{ auto: {{ to: main, fallback: [spare], spill: off, hedge: off }} }}\n",
        hung.url(),
        sound.url()
    );
    let gateway = Arc::new(Gateway::start(&policy).await);
    let asked: Vec<_> = (0..100)
        .map(|_| {
            let gateway = gateway.clone();
            tokio::spawn(async move { ask(&gateway, &chat(true)).await.status })
        })
        .collect();
    for request in asked {
        assert_eq!(request.await.expect("no panic"), 200);
    }
    // What comes later does not wait at all: the breaker is open.
    gateway.wait_log("breaker: opened").await;
}

#[tokio::test]
async fn a_model_that_stalls_leaves_its_siblings_at_the_same_address_alone() {
    let mock =
        Mock::start(|seen: &Seen| if seen.json()["model"] == "stalls" { Plan::silence() } else { polite(seen) }).await;
    let url = mock.url();
    let policy = format!(
        "timeouts: {{ first_token: 200ms, total: 1s }}\n\
         pools:\n  a: {{ model: stalls, backends: [\"{url}\"] }}\n  b: {{ model: sound, backends: [\"{url}\"] }}\n  c: {{ model: spare, backends: [\"{url}\"] }}\n\
         models: {{ a: {{ to: a }}, auto: {{ to: b, fallback: [c] }} }}\n"
    );
    let gateway = Arc::new(Gateway::start(&policy).await);
    let stalling: Vec<_> = (0..8)
        .map(|_| {
            let gateway = gateway.clone();
            tokio::spawn(async move {
                ask(
                    &gateway,
                    &json!({ "model": "a", "stream": true, "messages": [{ "role": "user", "content": "hi" }] }),
                )
                .await
            })
        })
        .collect();
    while !stalling.iter().all(tokio::task::JoinHandle::is_finished) {
        let answer = ask(&gateway, &chat(false)).await;
        assert_eq!((answer.status.as_u16(), answer.header("x-signalbox-pool")), (200, "b"));
    }
    let breakers = gateway.metrics().await;
    let open =
        |pool: &str| breakers.sum("signalbox_backend_breaker", &[&format!("pool=\"{pool}\""), "state=\"closed\""]);
    assert_eq!((open("a"), open("b")), (0.0, 1.0), "{breakers:?}");
}

#[tokio::test]
async fn a_success_of_another_model_does_not_close_the_breaker() {
    let mock = Mock::start(fails(|_| Some(Plan::error(500, "broken")))).await;
    let gateway = Gateway::start(&policy(&mock, false)).await;
    for _ in 0..40 {
        let answer = ask(&gateway, &chat(false)).await;
        assert_eq!((answer.status.as_u16(), answer.header("x-signalbox-model")), (200, "spare"));
    }
    let tries = mock.seen().iter().filter(|seen| seen.json()["model"] == "main").count();
    assert!(tries <= 10, "asked {tries} times, though it fails each time");
}

/// llama.cpp's errors for requests that it takes the blame for.
fn blames_itself(seen: &Seen) -> Plan {
    match &*seen.path {
        "/v1/embeddings" => Plan::error(501, "This server does not support embeddings. Start it with `--embeddings`"),
        _ if seen.json()["messages"][0]["role"].is_null() => Plan::error(500, "Missing 'role' in message"),
        _ => polite(seen),
    }
}

#[tokio::test]
async fn the_faulty_requests_of_one_caller_cost_another_nothing() {
    let (one, two) = (Mock::start(blames_itself).await, Mock::start(blames_itself).await);
    let policy = format!(
        "{}pools:\n  main: {{ model: main, backends: [\"{}\"] }}\n  spare: {{ model: spare, backends: [\"{}\"] }}\n\
         models: {{ auto: {{ to: main, fallback: [spare] }} }}\n",
        keys(&[("faulty", ""), ("sound", "")]),
        one.url(),
        two.url()
    );
    let gateway = Gateway::start(&policy).await;
    let faulty = json!({ "model": "auto", "messages": [{ "content": "hi" }] });
    for round in 0..60 {
        let answer = super::keys::ask(&gateway, "sound", &chat(false), &[]).await;
        assert_eq!((answer.status.as_u16(), answer.header("x-signalbox-pool")), (200, "main"), "round {round}");
        let answer = super::keys::ask(&gateway, "faulty", &faulty, &[]).await;
        assert_eq!(answer.status, 400, "round {round}: {}", answer.text());
        assert!(answer.text().contains("Missing 'role'"), "{}", answer.text());
    }
}

/// A request that is tried again at its only backend is one failure there, however often it fails.
#[tokio::test]
async fn a_faulty_request_opens_no_breaker_of_its_only_engine() {
    let unknown = |seen: &Seen| {
        let is_faulty = seen.json()["messages"][0]["role"].is_null();
        if is_faulty { Plan::error(500, "list index out of range") } else { polite(seen) }
    };
    let mock = Mock::start(unknown).await;
    let gateway = Gateway::start(&format!("pools: {{ p: {{ model: auto, backends: [\"{}\"] }} }}\n", mock.url())).await;
    for round in 0..3 {
        assert_eq!(ask(&gateway, &chat(false)).await.status, 200, "round {round}");
        let faulty = json!({ "model": "auto", "messages": [{ "content": "hi" }] });
        assert_eq!(ask(&gateway, &faulty).await.status, 500, "round {round}");
    }
    assert!(mock.seen().len() > 7, "some were tried again: {}", mock.seen().len());
    let opened = gateway.metrics().await.sum("signalbox_engine_breaker_opened_total", &[]);
    assert!(opened.abs() < 0.5, "{opened}");
}

#[tokio::test]
async fn an_endpoint_that_an_engine_does_not_implement_is_left_to_others() {
    let (chat_only, embeds) = (Mock::start(blames_itself).await, Mock::start(polite).await);
    chat_only.set_apis(["/v1/chat/completions"]);
    let policy = format!(
        "pools:\n  main: {{ model: m, balance: round_robin, backends: [\"{}\", \"{}\"] }}\nmodels: {{ auto: {{ to: main }} }}\n",
        chat_only.url(),
        embeds.url()
    );
    let gateway = Gateway::start(&policy).await;
    let probes = || chat_only.probes().iter().filter(|seen| seen.method == "POST").count();
    until("all paths to be probed", async || probes() >= 6).await;
    for _ in 0..20 {
        let body = json!({ "model": "auto", "input": "hi" });
        let answer = answer(with_json(http().post(gateway.at("/v1/embeddings")), &body)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert!((1..=3).contains(&chat_only.seen().len()), "{} requests", chat_only.seen().len());
    // It still serves what it implements.
    for _ in 0..20 {
        assert_eq!(ask(&gateway, &chat(false)).await.status, 200);
    }
    assert!(chat_only.seen().len() > 5);
}

#[tokio::test]
async fn a_stream_that_stalls_is_resumed_elsewhere_within_one_idle_limit() {
    let stalls = Mock::start(|_| Plan::stream().events(&chat_events(words())[..=40]).hang()).await;
    let sound = Mock::start(continues(false)).await;
    sound.set_vllm(0, 0, 0.1);
    let policy = format!(
        "timeouts: {{ idle: 2s }}\n\
         pools:\n  main: {{ model: m, backends: [\"{}\"] }}\n  spare: {{ model: m, backends: [\"{}\"] }}\n\
         models: {{ auto: {{ to: main, fallback: [spare], spill: off }} }}\n",
        stalls.url(),
        sound.url()
    );
    let gateway = Gateway::start(&policy).await;
    known_as_vllm(&gateway, 1).await;
    let began = std::time::Instant::now();
    let stream = Sse::send(with_json(http().post(gateway.at("/v1/chat/completions")), &chat(true))).await;
    let (text, _, well) = read(stream).await;
    assert!(well && text == words().concat(), "{text}");
    assert!(began.elapsed() >= Duration::from_secs(1), "half of the limit is waited at least");
    assert_eq!((stalls.seen().len(), sound.seen().len()), (1, 1), "not on the one that stalled");
}

#[tokio::test]
async fn an_engine_that_fails_its_health_check_is_avoided_before_a_request_finds_out() {
    let (sick, sound) = (Mock::start(polite).await, Mock::start(polite).await);
    sick.set_health(503);
    let policy = format!(
        "engines:\n  sick: {{ url: \"{}\", scrape: false, health: {{ path: /health, every: 100ms }} }}\n  sound: {{ url: \"{}\", scrape: false }}\n\
         pools:\n  main: {{ model: m, backends: [{{ engine: sick }}] }}\n  spare: {{ model: m, backends: [{{ engine: sound }}] }}\n\
         models: {{ auto: {{ to: main, fallback: [spare] }} }}\n",
        sick.url(),
        sound.url()
    );
    let gateway = Gateway::start(&policy).await;
    gateway.wait_log("health check: failed twice in a row").await;
    for _ in 0..20 {
        assert_eq!(ask(&gateway, &chat(true)).await.header("x-signalbox-pool"), "spare");
    }
    assert_eq!(sick.seen().len(), 0);
    sick.set_health(200);
    gateway.wait_log("health check: passed again").await;
    assert_eq!(ask(&gateway, &chat(true)).await.header("x-signalbox-pool"), "main");
}

#[tokio::test]
async fn a_backend_that_passes_on_the_model_s_name_has_a_breaker_for_each() {
    let hosted =
        Mock::start(|seen: &Seen| if seen.model() == "broken" { Plan::error(500, "no") } else { polite(seen) }).await;
    let spare = Mock::start(polite).await;
    let policy = format!(
        "pools:\n  hosted: {{ backends: [\"{}\"] }}\n  spare: {{ backends: [\"{}\"] }}\n\
         models: {{ \"*\": {{ to: hosted, fallback: [spare] }} }}\n",
        hosted.url(),
        spare.url()
    );
    let gateway = Gateway::start(&policy).await;
    let pool = async |model: &str| {
        let body = json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }] });
        let answer = ask(&gateway, &body).await;
        assert_eq!(answer.status, 200);
        answer.header("x-signalbox-pool").to_owned()
    };
    for round in 0..30 {
        assert_eq!(pool("broken").await, "spare", "round {round}");
        assert_eq!(pool("sound").await, "hosted", "round {round}");
    }
    let tries = hosted.seen().iter().filter(|seen| seen.model() == "broken").count();
    assert!(tries <= 8, "asked {tries} times for a model that always fails");
    assert!(gateway.metrics().await.sum("signalbox_backend_breaker", &["pool=\"hosted\"", "state=\"closed\""]) < 0.5);
}
