//! Failover: backends that fail or disappear, and the balancing among the others.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{
    client::{End, Sse, answer, http, json, post},
    gateway::Gateway,
    mock::{Mock, Plan, Seen, chat_events, polite},
    until,
};

fn chat(model: &str, prompt: &str, stream: bool) -> Value {
    json!({ "model": model, "stream": stream, "messages": [{ "role": "user", "content": prompt }] })
}

/// A pool `main` of the engines `a` and `b`, and more of the policy.
fn two(a: &Mock, b: &Mock, pool: &str, more: &str) -> String {
    format!(
        "engines:\n  a: {{ url: \"{}\" }}\n  b: {{ url: \"{}\" }}\n\
         pools:\n  main: {{ {pool} model: m, backends: [{{ engine: a }}, {{ engine: b }}] }}\n{more}",
        a.url(),
        b.url()
    )
}

async fn ask(gateway: &Gateway, model: &str) -> (u16, String, String) {
    ask_by(&http(), gateway, model).await
}

async fn ask_by(client: &reqwest::Client, gateway: &Gateway, model: &str) -> (u16, String, String) {
    let answer = answer(json(client.post(gateway.at("/v1/chat/completions")), &chat(model, "hi", false))).await;
    (answer.status.as_u16(), answer.header("x-signalbox-pool").into(), answer.header("x-signalbox-backend").into())
}

/// Answers of each backend over `count` requests in sequence.
async fn shares(gateway: &Gateway, count: usize) -> HashMap<String, usize> {
    let (client, mut shares) = (http(), HashMap::new());
    for number in 0..count {
        // Equal questions are one conversation, which stays on its side of a fixed share.
        let body = chat("m", &format!("question {number}"), false);
        let answer = answer(json(client.post(gateway.at("/v1/chat/completions")), &body)).await;
        assert_eq!(answer.status, 200);
        *shares.entry(answer.header("x-signalbox-backend").into()).or_default() += 1;
    }
    shares
}

async fn state_of(gateway: &Gateway, backend: &str) -> String {
    let state = gateway.get_json("/admin/state").await;
    let backends = state["pools"].as_array().into_iter().flatten().filter_map(|pool| pool["backends"].as_array());
    let found = backends.flatten().find(|it| it["name"] == backend).expect("the backend is listed");
    found["state"].as_str().expect("a state").to_owned()
}

#[tokio::test]
async fn an_engine_that_goes_away_is_left_out_and_taken_back() {
    let (a, b) = (Mock::start(polite).await, Mock::start(polite).await);
    a.set_vllm(0, 0, 0.1);
    b.set_vllm(0, 0, 0.1);
    let gateway = Arc::new(Gateway::start(&two(&a, &b, "balance: round_robin,", "")).await);
    until("both engines to be up", async || {
        state_of(&gateway, "a").await == "up" && state_of(&gateway, "b").await == "up"
    })
    .await;

    let over = Arc::new(AtomicBool::new(false));
    let askers: Vec<_> = (0..6)
        .map(|number| {
            let (gateway, over) = (gateway.clone(), over.clone());
            tokio::spawn(async move {
                let mut answered = 0;
                while !over.load(Relaxed) {
                    let body = chat("m", "hi", number % 2 == 0);
                    let answer = post(&gateway.at("/v1/chat/completions"), &body).await;
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    a.wait_seen(10).await;
    b.wait_seen(10).await;
    let addr = b.stop().await;
    gateway
        .wait_metrics("the engine to be marked down", |now| is_down(now.0.get("signalbox_engine_up{engine=\"b\"}")))
        .await;
    until("the backend to be marked down", async || state_of(&gateway, "b").await == "down").await;
    let before = a.seen().len();
    a.wait_seen(before + 50).await;

    let back = Mock::start_at(addr, polite).await;
    back.set_vllm(0, 0, 0.1);
    back.wait_seen(5).await;
    until("the backend to be up again", async || state_of(&gateway, "b").await == "up").await;
    over.store(true, Relaxed);
    for asker in askers {
        assert!(asker.await.unwrap() > 0);
    }
    let metrics =
        gateway.wait_metrics("nothing to be under way", |now| now.sum("signalbox_in_flight", &[]) < 0.5).await;
    let requests = |labels: &[&str]| metrics.sum("signalbox_requests_total", labels);
    assert!((requests(&[]) - requests(&[r#"outcome="ok""#])).abs() < 0.5, "{metrics:?}");
}

fn is_down(value: Option<&f64>) -> bool {
    value.is_some_and(|value| *value < 0.5)
}

#[tokio::test]
async fn an_engine_that_goes_away_in_mid_answer_leaves_no_request_hanging() {
    // With tools the answer cannot be continued.
    let plan = |seen: &Seen| {
        if seen.streams() { Plan::stream().events(&chat_events(["Hel"])[..2]).hang() } else { Plan::silence() }
    };
    let (a, b) = (Mock::start(plan).await, Mock::start(polite).await);
    let gateway = Gateway::start(&two(&a, &b, "balance: round_robin,", "")).await;
    // Round robin: the first and the third go to `a`.
    let mut asked = chat("m", "hi", true);
    asked["tools"] = json!([{ "type": "function", "function": { "name": "f" } }]);
    let mut stream = Sse::post(&gateway.at("/v1/chat/completions"), &asked).await;
    assert_eq!(stream.header("x-signalbox-backend"), "a");
    assert_eq!(ask(&gateway, "m").await.2, "b");
    let url = gateway.at("/v1/chat/completions");
    let whole = tokio::spawn(async move { post(&url, &chat("m", "hi", false)).await });
    a.wait_seen(2).await;
    a.stop().await;
    let (events, end) = stream.rest().await;
    let last = String::from_utf8_lossy(events.last().unwrap()).into_owned();
    assert!(last.contains("stream_cut") && matches!(end, End::Clean), "{last}");
    let whole = whole.await.unwrap();
    assert_eq!((whole.status.as_u16(), whole.header("x-signalbox-backend")), (200, "b"));
}

#[tokio::test]
async fn the_fallback_stands_in_while_the_pool_is_down() {
    let (a, c) = (Mock::start(polite).await, Mock::start(polite).await);
    let policy = format!(
        "engines:\n  a: {{ url: \"{}\" }}\n  c: {{ url: \"{}\" }}\n\
         pools:\n  small: {{ model: s, backends: [{{ engine: a }}] }}\n  large: {{ model: l, backends: [{{ engine: c }}] }}\n\
         models:\n  auto: {{ to: small, fallback: [large] }}\n",
        a.url(),
        c.url()
    );
    let gateway = Gateway::start(&policy).await;
    assert_eq!(ask(&gateway, "auto").await, (200, "small".into(), "a".into()));
    let addr = a.stop().await;
    assert_eq!(ask(&gateway, "auto").await, (200, "large".into(), "c".into()));
    assert_eq!(c.seen()[0].model(), "l");
    let alone = post(&gateway.at("/v1/chat/completions"), &chat("s", "hi", false)).await;
    assert_eq!((alone.status.as_u16(), &alone.json()["error"]["code"]), (503, &json!("upstream_unreachable")));
    let _back = Mock::start_at(addr, polite).await;
    until("the pool to answer again", async || ask(&gateway, "auto").await.1 == "small").await;
}

#[tokio::test]
async fn a_large_pool_that_is_down_leaves_a_try_for_its_fallback() {
    let (down, up) = (Mock::start(|_| Plan::error(503, "down")).await, Mock::start(polite).await);
    let many: Vec<_> = (0..8).map(|n| format!("{{ engine: a, model: m{n} }}")).collect();
    let policy = format!(
        "engines:\n  a: {{ url: \"{}\" }}\n  c: {{ url: \"{}\" }}\n\
         pools:\n  many: {{ backends: [{}] }}\n  last: {{ model: l, backends: [{{ engine: c }}] }}\n\
         models:\n  auto: {{ to: many, fallback: [last] }}\n",
        down.url(),
        up.url(),
        many.join(", ")
    );
    let gateway = Gateway::start(&policy).await;
    for _ in 0..3 {
        assert_eq!(ask(&gateway, "auto").await, (200, "last".into(), "c".into()));
    }
}

#[tokio::test]
async fn only_retryable_failures_go_to_another_backend() {
    for (status, moves) in
        [(429, true), (500, true), (503, true), (408, true), (400, false), (422, false), (401, true), (403, true)]
    {
        let a = Mock::start(move |_| Plan::error(status, "made to order")).await;
        let b = Mock::start(polite).await;
        let gateway = Gateway::start(&two(&a, &b, "balance: round_robin,", "")).await;
        let (answered, _, backend) = ask(&gateway, "m").await;
        assert_eq!(a.seen().len(), 1, "{status}");
        assert_eq!(b.seen().len(), usize::from(moves), "{status}");
        assert_eq!((answered, &*backend), if moves { (200, "b") } else { (status, "") }, "{status}");
    }
}

#[tokio::test]
async fn a_canary_takes_its_share() {
    let (a, b) = (Mock::start(polite).await, Mock::start(polite).await);
    let policy = two(&a, &b, "", "").replace("{ engine: b }", "{ engine: b, weight: 5% }");
    let gateway = Gateway::start(&policy).await;
    let shares = shares(&gateway, 400).await;
    // 20 are expected; each bound is missed once in more than ten million runs.
    let canary = shares.get("b").copied().unwrap_or(0);
    assert!((2..=60).contains(&canary), "{canary} of 400");
}

#[tokio::test]
async fn a_canary_keeps_its_conversations() {
    let (a, b) = (Mock::start(polite).await, Mock::start(polite).await);
    let policy = two(&a, &b, "", "").replace("{ engine: b }", "{ engine: b, weight: 40% }");
    let (one, other) = (Gateway::start(&policy).await, Gateway::start(&policy).await);
    let (client, mut sides) = (http(), HashMap::<String, usize>::new());
    let backend_of = async |gateway: &Gateway, path: &str, body: &serde_json::Value, session: Option<&str>| {
        let request = json(client.post(gateway.at(path)), body);
        let request = session.into_iter().fold(request, |it, name| it.header("x-signalbox-session", name));
        let answer = answer(request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.header("x-signalbox-backend").to_owned()
    };
    for number in 0..24 {
        let question = format!("question {number}");
        let marked = json!([{ "type": "text", "text": question, "cache_control": { "type": "ephemeral" } }]);
        let turn = |path: &str, first: Value, turns: usize| {
            let mut list = vec![json!({ "role": "user", "content": first })];
            for turn in 0..turns {
                list.push(json!({ "role": "assistant", "content": "an answer" }));
                list.push(json!({ "role": "user", "content": format!("and {turn}?") }));
            }
            let name = if path.ends_with("responses") { "input" } else { "messages" };
            let most = if name == "input" { "max_output_tokens" } else { "max_tokens" };
            json!({ "model": "m", most: 9, name: list })
        };
        let mut all = HashSet::new();
        for path in ["/v1/chat/completions", "/v1/messages", "/v1/responses"] {
            for (gateway, turns) in [(&one, 0), (&one, 1), (&other, 3)] {
                all.insert(backend_of(gateway, path, &turn(path, json!(question), turns), None).await);
            }
        }
        all.insert(backend_of(&one, "/v1/messages", &turn("", marked, 2), None).await);
        assert_eq!(all.len(), 1, "{question}: {all:?}");
        *sides.entry(all.into_iter().next().unwrap()).or_default() += 1;
        let mut named = HashSet::new();
        for turn in 0..3 {
            let body = json!({ "model": "m", "prompt": format!("turn {turn}"), "max_tokens": 9 });
            named.insert(backend_of(&one, "/v1/completions", &body, Some(&question)).await);
            named.insert(
                backend_of(&other, "/v1/chat/completions", &chat("m", &format!("{turn}"), false), Some(&question))
                    .await,
            );
        }
        assert_eq!(named.len(), 1, "{question}: {named:?}");
    }
    // The hash is fixed, so these are.
    assert!(sides["a"] > 4 && sides["b"] > 4, "{sides:?}");
}

#[tokio::test]
async fn round_robin_alternates() {
    let (a, b) = (Mock::start(polite).await, Mock::start(polite).await);
    let gateway = Gateway::start(&two(&a, &b, "balance: round_robin,", "")).await;
    for turn in 0..8 {
        assert_eq!(ask(&gateway, "m").await.2, ["a", "b"][turn % 2]);
    }
}

#[tokio::test]
async fn strategies_that_count_requests_avoid_the_busy_backend() {
    for balance in ["least_request", "p2c"] {
        let silent = |seen: &Seen| if seen.streams() { Plan::silence() } else { polite(seen) };
        let (a, b) = (Mock::start(silent).await, Mock::start(silent).await);
        let gateway = Gateway::start(&two(&a, &b, &format!("balance: {balance},"), "")).await;
        let url = gateway.at("/v1/chat/completions");
        let asking = tokio::spawn(async move { post(&url, &chat("m", "hi", true)).await });
        until("the held request to arrive", async || a.under_way() + b.under_way() == 1).await;
        let (busy, free) = if a.under_way() == 1 { (&a, "b") } else { (&b, "a") };
        assert_eq!(shares(&gateway, 10).await, HashMap::from([(free.to_owned(), 10)]), "{balance}");
        assert_eq!(busy.seen().len(), 1);
        asking.abort();
    }
}

#[tokio::test]
async fn peak_ewma_avoids_the_slow_backend() {
    let slow = |seen: &Seen| polite(seen).after(Duration::from_millis(250));
    let (a, b) = (Mock::start(slow).await, Mock::start(polite).await);
    let gateway = Gateway::start(&two(&a, &b, "balance: peak_ewma,", "")).await;
    let shares = shares(&gateway, 12).await;
    assert!(shares["a"] >= 1, "what is not known yet is tried: {shares:?}");
    assert!(shares["b"] >= 8, "{shares:?}");
}

#[tokio::test]
async fn least_cost_sees_tokens_where_requests_look_alike() {
    let held = |seen: &Seen| match seen.header("x-hold") {
        Some(_) => Plan::stream().gate(1).events(chat_events(["done"])).done(),
        None => polite(seen),
    };
    let (a, b) = (Mock::start(held).await, Mock::start(held).await);
    let gateway = Arc::new(Gateway::start(&two(&a, &b, "", "")).await);
    let send_held = |prompt: String| {
        let url = gateway.at("/v1/chat/completions");
        let request = json(http().post(url), &chat("m", &prompt, true));
        tokio::spawn(async move { Sse::send(request.header("x-hold", "yes")).await.text().await.0 })
    };
    let long = send_held("word ".repeat(20_000));
    until("the long prompt to arrive", async || a.under_way() + b.under_way() == 1).await;
    let (busy, free, free_mock) = if a.under_way() == 1 { (&a, "b", &b) } else { (&b, "a", &a) };
    // Two short ones wait on the other backend: more requests there, yet less work.
    let short: Vec<_> = (0..2).map(|_| send_held("hi".to_owned())).collect();
    free_mock.wait_under_way(2).await;
    assert_eq!(shares(&gateway, 5).await, HashMap::from([(free.to_owned(), 5)]));
    assert_eq!(busy.seen().len(), 1);
    a.open(1);
    b.open(1);
    for waiting in short.into_iter().chain([long]) {
        assert_eq!(waiting.await.unwrap(), "done");
    }
}

#[tokio::test]
async fn pools_on_one_engine_see_each_others_load() {
    let held = |seen: &Seen| if seen.streams() { Plan::silence() } else { polite(seen) };
    let (a, b) = (Mock::start(held).await, Mock::start(held).await);
    let policy = format!(
        "engines:\n  a: {{ url: \"{}\" }}\n  b: {{ url: \"{}\" }}\n\
         pools:\n  one: {{ model: x, backends: [{{ engine: a }}] }}\n  \
         main: {{ model: m, backends: [{{ engine: a }}, {{ engine: b }}] }}\n",
        a.url(),
        b.url()
    );
    let gateway = Gateway::start(&policy).await;
    let url = gateway.at("/v1/chat/completions");
    let asking = tokio::spawn(async move { post(&url, &chat("x", &"word ".repeat(1000), true)).await });
    a.wait_under_way(1).await;
    assert_eq!(shares(&gateway, 6).await, HashMap::from([("b".to_owned(), 6)]));
    let line = &gateway.get_json("/admin/decisions").await[0]["attempts"][0]["candidates"];
    assert_eq!(line[0]["in_flight"], 1, "{line}");
    asking.abort();
}
