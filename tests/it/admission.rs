//! Admission: requests without room wait in order, spill over or are refused with Retry-After; and each decision is recorded.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
};

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use signalbox::fleet::Engine;
use tokio::task::JoinHandle;

use super::accounting::{Dice, House, fate};
use crate::support::{
    client::{Answer, Sse, answer, http, json},
    gateway::Gateway,
    mock::{Mock, Plan, Seen, chat_events, polite},
    until, within,
};

/// Requests with `x-hold` get a first token, and the rest after gate 1 opens.
fn holding(seen: &Seen) -> Plan {
    match seen.header("x-hold") {
        Some(_) => Plan::stream().events(&chat_events(["a", "b"])[..2]).gate(1).events(chat_events(["b"])).done(),
        None => polite(seen),
    }
}

fn chat(model: &str, stream: bool) -> Value {
    json!({ "model": model, "stream": stream, "messages": [{ "role": "user", "content": "is there room?" }] })
}

/// One engine with room for one request in the pool `main`, a pool `spare` behind it, and more of the policy.
fn one(a: &Mock, b: &Mock, limits: &str) -> String {
    format!(
        "engines:\n  a: {{ url: \"{}\", max_concurrency: 1 }}\n  b: {{ url: \"{}\" }}\n\
         pools:\n  main: {{ model: m, backends: [{{ engine: a }}] }}\n  spare: {{ model: n, backends: [{{ engine: b }}] }}\n\
         models:\n  alone: {{ to: main }}\n  auto: {{ to: main, fallback: [spare] }}\n  \
         quick: {{ to: main, bound: {{ ttft: 1ms }} }}\nlimits: {{ {limits} }}\n",
        a.url(),
        b.url()
    )
}

async fn hold(gateway: &Gateway, model: &str) -> Sse {
    let request = json(http().post(gateway.at("/v1/chat/completions")), &chat(model, true)).header("x-hold", "yes");
    let stream = Sse::send(request).await;
    assert_eq!(stream.status, 200);
    stream
}

fn send(gateway: &Gateway, model: &str, id: &str) -> JoinHandle<Answer> {
    let request = json(http().post(gateway.at("/v1/chat/completions")), &chat(model, false)).header("x-request-id", id);
    tokio::spawn(answer(request))
}

async fn wait_queue(gateway: &Gateway, depth: u32) {
    let deep = |depth: f64| (depth - 0.5)..(depth + 0.5);
    gateway
        .wait_metrics("the queue's depth", |now| {
            deep(depth.into()).contains(&now.sum("signalbox_queue_depth", &[r#"pool="main""#]))
        })
        .await;
}

fn refusal(answer: &Answer) -> (u16, String, u64) {
    let code = answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned();
    (answer.status.as_u16(), code, answer.header("retry-after").parse().unwrap_or_default())
}

#[tokio::test]
async fn those_who_wait_go_in_the_order_of_their_arrival() {
    let (a, b) = (Mock::start(holding).await, Mock::start(polite).await);
    let gateway = Gateway::start(&one(&a, &b, "")).await;
    let held = hold(&gateway, "alone").await;
    let mut waiting = Vec::new();
    for number in 0..6_u32 {
        waiting.push(send(&gateway, "alone", &format!("w{number}")));
        wait_queue(&gateway, number + 1).await;
    }
    assert_eq!(a.seen().len(), 1, "the engine has room for one");
    a.open(1);
    let mut predicted = Vec::new();
    for one in waiting {
        let answered = one.await.unwrap();
        assert_eq!(answered.status, 200);
        predicted.push(answered.header("x-signalbox-predicted-ttft-ms").parse::<f64>().unwrap());
    }
    let order: Vec<_> =
        a.seen().iter().skip(1).filter_map(|seen| seen.header("x-request-id").map(str::to_owned)).collect();
    assert_eq!(order, ["w0", "w1", "w2", "w3", "w4", "w5"]);
    drop(held);
    let admission = &gateway.decision("w5").await["admission"];
    assert_eq!((&admission["result"], &admission["queued"]), (&json!("admitted"), &json!(true)));
    assert!(admission["waited_ms"].as_f64() > Some(0.0), "{admission}");
    let last = &gateway.decision("w5").await;
    let attempt = &last["attempts"][0];
    let total = attempt["began_ms"].as_f64().unwrap() + attempt["predicted"]["ttft_ms"].as_f64().unwrap();
    assert!((predicted[5] - total).abs() < 0.11, "the wait is part of the prediction: {predicted:?}, {last}");
    assert!(attempt["began_ms"].as_f64() >= admission["waited_ms"].as_f64(), "{last}");
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.sum("signalbox_queue_admitted_total", &[]) as u32, 6);
    assert_eq!(metrics.sum("signalbox_queue_wait_seconds_count", &[]) as u32, 6);
}

/// Callers are told apart by their keys, else by their sessions.
#[tokio::test]
async fn a_lone_request_does_not_wait_for_all_of_another_caller() {
    for keyed in [true, false] {
        let (a, b) = (Mock::start(holding).await, Mock::start(polite).await);
        let keys = if keyed { super::keys::keys(&[("flood", ""), ("lone", ""), ("third", "")]) } else { String::new() };
        let gateway = Gateway::start(&(one(&a, &b, "") + &keys)).await;
        let ask = |caller: &str, id: &str, more: Value| {
            let mut body = chat("alone", false);
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let request = json(http().post(gateway.at("/v1/chat/completions")), &body).header("x-request-id", id);
            if keyed { request.bearer_auth(caller) } else { request.header("x-signalbox-session", caller) }
        };
        let held = ask("flood", "first", json!({ "stream": true })).header("x-hold", "yes");
        let held = Sse::send(held).await;
        assert_eq!(held.status, 200);
        let mut waiting = Vec::new();
        let flood = (0..20).map(|n| ("flood", format!("flood{n}")));
        let others = [("lone", "lone".to_owned()), ("third", "third0".to_owned()), ("third", "third1".to_owned())];
        for ((caller, id), depth) in flood.chain(others).zip(1..) {
            waiting.push(tokio::spawn(answer(ask(caller, &id, json!({})))));
            wait_queue(&gateway, depth).await;
        }
        a.open(1);
        for one in waiting {
            assert_eq!(one.await.unwrap().status, 200);
        }
        drop(held);
        let seen = a.seen();
        let at = |id: &str| seen.iter().position(|seen| seen.header("x-request-id") == Some(id)).unwrap();
        assert!(at("lone") <= 3 && at("third0") <= 3 && at("third1") <= 6, "{} {}", at("lone"), at("third1"));
        assert!(at("flood0") < at("flood1") && at("flood1") < at("flood19"), "one caller's go in their order");
    }
}

/// An engine may compute any number of prompts side by side. Only its first tokens can show that it does not.
#[tokio::test]
async fn prompts_are_sent_side_by_side_to_an_engine_that_has_shown_no_queue() {
    const AT_ONCE: usize = 24;
    let engine = Mock::start(|_| Plan::stream().gate(1).events(chat_events(["a", "b"])).done()).await;
    engine.set_metrics("vllm:num_requests_running 0.0\nvllm:num_requests_waiting 0.0\nvllm:kv_cache_usage_perc 0.25\n");
    for balance in ["least_cost", "round_robin"] {
        let gateway = Gateway::start(&format!(
            "engines: {{ e: {{ url: \"{}\" }} }}\npools: {{ main: {{ backends: [{{ engine: e }}], balance: {balance} }} }}\nmodels: {{ m: {{ to: main }} }}\n",
            engine.url()
        ))
        .await;
        gateway
            .wait_metrics("a reading", |it| it.sum("signalbox_engine_kv_usage_ratio", &[r#"engine="e""#]) > 0.2)
            .await;
        let before = engine.seen().len();
        // Each takes a second and more by what is known of engines.
        let ask = |id: usize| {
            let content = format!("{id} ").repeat(20_000);
            let body = json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": content }] });
            json(http().post(gateway.at("/v1/chat/completions")), &body)
        };
        let sent: Vec<_> = (0..AT_ONCE).map(|id| tokio::spawn(Sse::send(ask(id)))).collect();
        until("all to be there", async || engine.seen().len() == before + AT_ONCE).await;
        engine.open(1);
        for sent in sent {
            assert_eq!(sent.await.unwrap().status, 200);
        }
        engine.shut(1);
    }
}

#[tokio::test]
async fn a_full_queue_and_an_expired_wait_get_retry_after() {
    let (a, b) = (Mock::start(holding).await, Mock::start(polite).await);
    let gateway = Gateway::start(&one(&a, &b, "queue: { length: 1, wait: 2s }")).await;
    let _held = hold(&gateway, "alone").await;
    let in_vain = send(&gateway, "alone", "vain");
    wait_queue(&gateway, 1).await;
    let (status, code, after) = refusal(&send(&gateway, "alone", "full").await.unwrap());
    assert_eq!((status, code.as_str()), (503, "overloaded"));
    assert!((1..=120).contains(&after), "{after}");
    let (status, code, after) = refusal(&in_vain.await.unwrap());
    assert_eq!((status, code.as_str()), (503, "queue_timeout"));
    assert!((1..=120).contains(&after), "{after}");
    assert_eq!(gateway.decision("vain").await["admission"]["result"], "queue_timeout");
    assert_eq!(gateway.decision("full").await["admission"]["result"], "queue_full");
    let metrics = gateway.metrics().await;
    for reason in ["queue_full", "queue_timeout"] {
        assert_eq!(metrics.sum("signalbox_shed_total", &[&format!("reason=\"{reason}\"")]) as u32, 1);
    }
    assert_eq!(a.seen().len(), 1);
}

#[tokio::test]
async fn one_who_leaves_the_queue_makes_way() {
    let (a, b) = (Mock::start(holding).await, Mock::start(polite).await);
    let gateway = Gateway::start(&one(&a, &b, "queue: { length: 1, wait: 60s }")).await;
    let _held = hold(&gateway, "alone").await;
    let leaving = send(&gateway, "alone", "leaving");
    wait_queue(&gateway, 1).await;
    leaving.abort();
    wait_queue(&gateway, 0).await;
    let staying = send(&gateway, "alone", "staying");
    wait_queue(&gateway, 1).await;
    // A new policy changes nothing for those who wait under the old one.
    gateway.rewrite(&one(&a, &b, "queue: { length: 2, wait: 60s }"));
    gateway
        .wait_metrics("the reload", |now| now.sum("signalbox_config_reloads_total", &[r#"result="ok""#]) > 0.5)
        .await;
    a.open(1);
    assert_eq!(staying.await.unwrap().status, 200);
    let metrics = gateway.wait_metrics("the end", |now| now.sum("signalbox_in_flight", &[]) < 0.5).await;
    assert_eq!(metrics.sum("signalbox_client_gone_total", &[r#"stage="queued""#]) as u32, 1);
    assert!(a.seen().iter().all(|seen| seen.header("x-request-id") != Some("leaving")));
}

#[tokio::test]
async fn a_request_that_would_be_late_is_shed_unless_the_engine_is_idle() {
    let (a, b) = (Mock::start(holding).await, Mock::start(polite).await);
    let policy = one(&a, &b, "").replace("max_concurrency: 1", "max_concurrency: 9");
    let gateway = Gateway::start(&policy).await;
    assert_eq!(send(&gateway, "quick", "idle").await.unwrap().status, 200, "an idle engine takes it");
    let _held = hold(&gateway, "alone").await;
    let (status, code, after) = refusal(&send(&gateway, "quick", "late").await.unwrap());
    assert_eq!((status, code.as_str()), (429, "slo_unattainable"));
    assert!((1..=120).contains(&after), "{after}");
    assert_eq!(gateway.decision("late").await["admission"]["result"], "slo_unattainable");
    let own = |bound: &str| {
        let request = json(http().post(gateway.at("/v1/chat/completions")), &chat("alone", false));
        answer(request.header("x-signalbox-bound-ttft", bound))
    };
    assert_eq!(refusal(&own("1ms").await).1, "slo_unattainable");
    assert_eq!((own("5m").await.status.as_u16(), own("soon").await.status.as_u16()), (200, 400));
    assert_eq!(send(&gateway, "alone", "unbound").await.unwrap().status, 200);
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.sum("signalbox_shed_total", &[r#"reason="slo_unattainable""#]) as u32, 2);
    a.open(1);
}

#[tokio::test]
async fn requests_without_room_in_the_first_pool_spill_over() {
    let (a, b) = (Mock::start(holding).await, Mock::start(polite).await);
    let gateway = Gateway::start(&one(&a, &b, "")).await;
    assert_eq!(send(&gateway, "auto", "first").await.unwrap().header("x-signalbox-pool"), "main");
    let _held = hold(&gateway, "alone").await;
    assert_eq!(send(&gateway, "auto", "second").await.unwrap().header("x-signalbox-pool"), "spare");
    assert_eq!(gateway.decision("second").await["admission"]["result"], "spilled");
    // Nor does one that waits in the same queue hold it up.
    let waiting = send(&gateway, "alone", "waiting");
    wait_queue(&gateway, 1).await;
    assert_eq!(send(&gateway, "auto", "third").await.unwrap().header("x-signalbox-pool"), "spare");
    assert_eq!(gateway.decision("third").await["admission"]["queued"], false);
    // Nor do many, each with a route of its own because it names the pool.
    let named = |number: u32| {
        let request = json(http().post(gateway.at("/v1/chat/completions")), &chat("alone", false));
        tokio::spawn(answer(request.header("x-signalbox-pool", "main").header("x-request-id", format!("n{number}"))))
    };
    let many: Vec<_> = (0..24).map(named).collect();
    wait_queue(&gateway, 25).await;
    assert_eq!(send(&gateway, "auto", "fourth").await.unwrap().header("x-signalbox-pool"), "spare");
    assert_eq!(gateway.decision("fourth").await["admission"]["queued"], false);
    a.open(1);
    for waiting in many.into_iter().chain([waiting]) {
        assert_eq!(waiting.await.unwrap().header("x-signalbox-pool"), "main");
    }
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.sum("signalbox_spilled_total", &[r#"pool="main""#]) as u32, 3);
}

#[tokio::test]
async fn a_failed_attempt_waits_for_room_at_the_next_backend() {
    let failing = |seen: &Seen| if seen.header("x-hold").is_some() { holding(seen) } else { Plan::error(500, "no") };
    let (a, b) = (Mock::start(holding).await, Mock::start(failing).await);
    let gateway = Gateway::start(&one(&a, &b, "")).await;
    let _held = hold(&gateway, "alone").await;
    // `main` is full, `spare` fails: it waits for `main`.
    let waiting = send(&gateway, "auto", "again");
    wait_queue(&gateway, 1).await;
    assert!((1..=2).contains(&b.seen().len()), "given a second chance at most");
    a.open(1);
    let answered = waiting.await.unwrap();
    assert_eq!((answered.status.as_u16(), answered.header("x-signalbox-pool")), (200, "main"));
}

#[tokio::test]
async fn a_request_that_may_not_wait_uses_room_in_another_pool() {
    let (a, b) = (Mock::start(holding).await, Mock::start(polite).await);
    let policy = one(&a, &b, "queue: { wait: 0s }")
        .replace("alone: { to: main }", "alone: { to: main, queue: 1m }\n  other: { to: spare }");
    let gateway = Gateway::start(&policy).await;
    let _held = hold(&gateway, "alone").await;
    let waiting = send(&gateway, "alone", "waiting");
    wait_queue(&gateway, 1).await;
    assert_eq!(send(&gateway, "other", "other").await.unwrap().status, 200);
    a.open(1);
    assert_eq!(waiting.await.unwrap().status, 200);
}

/// Two engines in one pool, the first with room for one request; the second fails until the flag is cleared.
async fn one_full_one_failing() -> (Mock, Mock, Arc<AtomicBool>, Gateway) {
    let works = Arc::new(AtomicBool::new(false));
    let works_now = works.clone();
    let failing = move |seen: &Seen| if works_now.load(SeqCst) { polite(seen) } else { Plan::error(500, "no") };
    let (a, b) = (Mock::start(holding).await, Mock::start(failing).await);
    let policy = format!(
        "engines:\n  a: {{ url: \"{}\", max_concurrency: 1, scrape: false }}\n  b: {{ url: \"{}\", scrape: false }}\n\
         pools:\n  main: {{ model: m, backends: [{{ engine: a }}, {{ engine: b }}] }}\n\
         limits: {{ queue: {{ wait: 8s }} }}\n",
        a.url(),
        b.url()
    );
    let gateway = Gateway::start(&policy).await;
    (a, b, works, gateway)
}

#[tokio::test]
async fn one_who_waits_goes_where_requests_failed_once_that_is_tried_again() {
    let (a, b, works, gateway) = one_full_one_failing().await;
    let held = hold(&gateway, "m").await;
    // They fail there one after the other until it is avoided, and wait for the other engine.
    let mut failed = Vec::new();
    for number in 0..3 {
        if b.seen().len() < 3 {
            failed.push(send(&gateway, "m", &format!("failed-{number}")));
            wait_queue(&gateway, failed.len() as u32).await;
        }
    }
    failed.iter().for_each(JoinHandle::abort);
    wait_queue(&gateway, 0).await;
    works.store(true, SeqCst);
    let answered = send(&gateway, "m", "waiting").await.unwrap();
    assert_eq!((answered.status.as_u16(), answered.header("x-signalbox-backend")), (200, "b"), "{}", answered.text());
    a.open(1);
    drop(held);
}

#[tokio::test]
async fn room_left_by_a_failed_attempt_is_not_offered_at_a_failing_backend() {
    let failing = |seen: &Seen| {
        let plan = Plan::error(500, "no");
        if seen.header("x-request-id") == Some("last") { plan.behind(2) } else { plan }
    };
    let (a, b) = (Mock::start(holding).await, Mock::start(failing).await);
    let policy = format!(
        "engines:\n  a: {{ url: \"{}\", max_concurrency: 1, scrape: false }}\n  \
         b: {{ url: \"{}\", max_concurrency: 1, scrape: false }}\n\
         pools:\n  main: {{ model: m, backends: [{{ engine: a }}, {{ engine: b }}] }}\n",
        a.url(),
        b.url()
    );
    let gateway = Gateway::start(&policy).await;
    let _held = hold(&gateway, "m").await;
    let mut depth = 0;
    let mut failed = Vec::new();
    while b.seen().len() < 2 {
        depth += 1;
        failed.push(send(&gateway, "m", "failed"));
        wait_queue(&gateway, depth).await;
    }
    failed.push(send(&gateway, "m", "last"));
    b.wait_for("the last failure", |seen| seen.header("x-request-id") == Some("last")).await;
    let _waiting = send(&gateway, "m", "waiting");
    wait_queue(&gateway, depth + 1).await;
    b.open(2);
    // The one that failed waits too now, for the other engine.
    wait_queue(&gateway, depth + 2).await;
    assert!(b.seen().iter().all(|seen| seen.header("x-request-id") != Some("waiting")));
}

#[tokio::test]
async fn a_conversation_stays_where_it_was() {
    let (a, b) = (Mock::start(polite).await, Mock::start(polite).await);
    let policy = format!(
        "engines:\n  a: {{ url: \"{}\" }}\n  b: {{ url: \"{}\" }}\n\
         pools:\n  main: {{ model: m, backends: [{{ engine: a }}, {{ engine: b }}] }}\n",
        a.url(),
        b.url()
    );
    let gateway = Gateway::start(&policy).await;
    let client = http();
    let ask = async |turn: usize, header: &str, session: &str| {
        // Turns share no prefix, so that no prefix decides the placement.
        let prompt = format!("{turn}{session}{header} ").repeat(2_000);
        let body = json!({ "model": "m", "messages": [{ "role": "user", "content": prompt }] });
        let request = json(client.post(gateway.at("/v1/chat/completions")), &body).header(header, session);
        answer(request).await.header("x-signalbox-backend").to_owned()
    };
    for header in ["x-signalbox-session", "x-claude-code-session-id", "session_id"] {
        let sessions = ["one", "two", "three"].map(|name| format!("{header}/{name}"));
        let mut homes = Vec::new();
        for session in &sessions {
            homes.push(ask(0, header, session).await);
        }
        for turn in 1..5 {
            for (home, session) in homes.iter().zip(&sessions) {
                assert_eq!(ask(turn, header, session).await, *home, "turn {turn} of {session}");
            }
        }
    }
    let mut others = BTreeSet::new();
    for turn in 0..6 {
        others.insert(ask(turn, "x-unknown", "no session").await);
    }
    assert_eq!(others.len(), 2, "what belongs to no conversation goes anywhere");
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.sum("signalbox_sessions", &[]) as u32, 9);
}

#[tokio::test]
async fn a_decision_shows_every_candidate_with_its_terms() {
    let (a, b) = (Mock::start(holding).await, Mock::start(holding).await);
    let policy = format!(
        "engines:\n  a: {{ url: \"{}\" }}\n  b: {{ url: \"{}\" }}\n  c: {{ url: \"{}\", max_concurrency: 1 }}\n\
         pools:\n  main: {{ model: m, backends: [{{ engine: a }}, {{ engine: b }}, {{ engine: c }}] }}\n  \
         last: {{ model: l, backends: [{{ engine: c }}] }}\n",
        a.url(),
        b.url(),
        b.url().replace("127.0.0.1", "localhost")
    );
    let gateway = Gateway::start(&policy).await;
    let _held = hold(&gateway, "l").await;
    let request = json(http().post(gateway.at("/v1/chat/completions")), &chat("m", true));
    let answered = answer(request.header("x-signalbox-explain", "1").header("x-request-id", "why")).await;
    assert_eq!(answered.status, 200);
    let explained = answered.header("x-signalbox-explain");
    assert!(explained.starts_with("a=") && explained.contains(",b=") && !explained.contains("c/m="), "{explained}");
    assert!(answered.header("x-signalbox-predicted-ttft-ms").parse::<f64>().unwrap() > 0.0);

    let line = gateway.decision("why").await;
    assert_eq!((&line["admission"]["pool"], &line["admission"]["queued"]), (&json!("main"), &json!(false)));
    let attempt = &line["attempts"][0];
    assert_eq!((&attempt["reason"], &attempt["full"]), (&json!("least_cost"), &json!(["c/m"])));
    let candidates = attempt["candidates"].as_array().unwrap();
    assert_eq!(candidates.iter().map(|it| &it["backend"]).collect::<Vec<_>>(), ["a", "b"]);
    let terms = [
        "cost",
        "in_flight",
        "foreign",
        "queued_tokens",
        "uncached_tokens",
        "cached_tokens",
        "decoding",
        "overflow_tokens",
        "utilisation",
        "speed",
        "ttft_ms",
        "ttft_p90_ms",
        "attainment",
    ];
    for candidate in candidates {
        assert!(terms.iter().all(|term| candidate[term].is_number()), "{candidate}");
        assert!(candidate["weight"].is_null() && candidate["avoided"].is_boolean(), "{candidate}");
    }
    assert!(attempt["predicted"]["ttft_ms"].as_f64() < attempt["predicted"]["ttft_p90_ms"].as_f64(), "{attempt}");
    assert!(attempt["ttft_ms"].as_f64() > Some(0.0), "{attempt}");
    let plain = send(&gateway, "m", "plain").await.unwrap();
    assert_eq!(plain.header("x-signalbox-explain"), "");
    b.open(1);
}

/// Hundreds of requests at once, a third of whose clients leave at some time: no engine exceeds its limit, all clients that stay are served,
/// and in the end nothing waits and nothing is held.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_never_exceed_the_limit_and_all_are_served() {
    const CROWD: usize = 400;
    let engines: Arc<OnceLock<Vec<Arc<Engine>>>> = Arc::default();
    let peaks: Arc<[AtomicU32; 2]> = Arc::default();
    let watching = |which: usize| {
        let (engines, peaks) = (engines.clone(), peaks.clone());
        move |seen: &Seen| {
            let mut engines: Vec<_> = engines.get().into_iter().flatten().collect();
            engines.sort_by_key(|engine| engine.name.clone());
            peaks[which].fetch_max(engines[which].load.in_flight(), SeqCst);
            fate(seen)
        }
    };
    let (a, b) = (Mock::start(watching(0)).await, Mock::start(watching(1)).await);
    let policy = format!(
        "engines:\n  a: {{ url: \"{}\", max_concurrency: 2, scrape: false }}\n  \
         b: {{ url: \"{}\", max_concurrency: 3, scrape: false }}\n\
         pools:\n  main: {{ model: m, backends: [{{ engine: a }}, {{ engine: b }}] }}\n  \
         spare: {{ model: n, backends: [{{ engine: b }}], objectives: [{{ tpot: {{ p95: 50ms }} }}] }}\n\
         models:\n  auto: {{ to: main, fallback: [spare] }}\n  back: {{ to: spare, fallback: [main] }}\n",
        a.url(),
        b.url()
    );
    let house = Arc::new(House::new(&policy));
    engines.set(house.engines.clone()).expect("set once");
    let mut dice = Dice(0x0c0d);
    let crowd: Vec<_> = (0..CROWD)
        .map(|number| {
            let fate = ["whole", "stream", "400", "cut", "in-band", "stream", "whole"][dice.roll(7)];
            let request = Request::post("/v1/chat/completions")
                .header("x-fate", fate)
                .header("x-request-id", number.to_string())
                .body(Body::from(chat(["auto", "back", "m", "n"][dice.roll(4)], fate != "whole").to_string()))
                .expect("a request");
            let house = house.clone();
            let leaves = dice.roll(3) == 0;
            let asking = tokio::spawn(async move {
                let answer = (house.walk)(request).await;
                let status = answer.status().as_u16();
                // An answer that is cut ends with an error.
                let _ = answer.into_body().collect().await;
                status
            });
            (asking, leaves)
        })
        .collect();
    for (asking, leaves) in crowd {
        if leaves {
            asking.abort();
            continue;
        }
        let status = within("an answer", asking).await.unwrap();
        assert!([200, 400].contains(&status), "{status}");
    }
    until("those who left to be gone", async || house.under_way() == [0; 5]).await;
    assert!(house.parts.queues.is_empty());
    assert!(house.parts.queues.standings(house.parts.clock.now()).is_empty());
    let peaks = [0, 1].map(|which: usize| peaks[which].load(SeqCst));
    assert_eq!(peaks, [2, 3], "as many as there may be, and not one more");
    assert_eq!(house.parts.metrics.requests_total(), CROWD as u64);
}

#[tokio::test]
async fn a_request_with_a_bound_goes_to_the_first_pool_that_keeps_it() {
    let silent = |seen: &Seen| if seen.header("x-hold").is_some() { Plan::silence() } else { polite(seen) };
    let (a, b) = (Mock::start(silent).await, Mock::start(silent).await);
    let policy = one(&a, &b, "").replace("max_concurrency: 1", "max_concurrency: 9").replace(
        "quick: { to: main, bound: { ttft: 1ms } }",
        "quick: { to: main, fallback: [spare], bound: { ttft: 3s } }",
    );
    let gateway = Gateway::start(&policy).await;
    assert_eq!(send(&gateway, "quick", "first").await.unwrap().header("x-signalbox-pool"), "main");
    // Some 100 thousand tokens are computed before whatever comes next.
    let body = json!({ "model": "alone", "stream": true, "messages": [{ "role": "user", "content": "word ".repeat(80_000) }] });
    let request = json(http().post(gateway.at("/v1/chat/completions")), &body).header("x-hold", "yes");
    let busy = tokio::spawn(answer(request));
    a.wait_under_way(1).await;
    assert_eq!(send(&gateway, "quick", "second").await.unwrap().header("x-signalbox-pool"), "spare");
    let line = gateway.decision("second").await;
    assert_eq!(line["admission"]["result"], "spilled", "{line}");
    assert!(line["attempts"][0]["candidates"][0]["attainment"].as_f64() >= Some(0.9), "{line}");
    assert_eq!(send(&gateway, "auto", "unbound").await.unwrap().header("x-signalbox-pool"), "main");
    busy.abort();
    a.gone().await;
    until("the route to come back", async || {
        send(&gateway, "quick", "back").await.unwrap().header("x-signalbox-pool") == "main"
    })
    .await;
}

/// On paused time: hundreds of requests wait for an engine that never answers, and leave or expire at any time.
#[tokio::test(start_paused = true)]
async fn an_expired_wait_is_refused_and_leaves_nothing_behind() {
    const CROWD: usize = 300;
    let mock = Mock::start(|_| Plan::silence()).await;
    let policy = format!(
        "engines:\n  a: {{ url: \"{}\", max_concurrency: 2, scrape: false }}\n\
         pools:\n  main: {{ model: m, backends: [{{ engine: a }}] }}\n\
         models:\n  short: {{ routes: [{{ to: main, queue: 2s }}] }}\n  bound: {{ to: main, bound: {{ ttft: 5s }} }}\n",
        mock.url()
    );
    let house = Arc::new(House::new(&policy));
    let mut dice = Dice(0xdeaf);
    let crowd: Vec<_> = (0..CROWD)
        .map(|_| {
            let body = chat(["m", "short", "bound"][dice.roll(3)], true).to_string();
            let request = Request::post("/v1/chat/completions").body(Body::from(body)).expect("a request");
            let house = house.clone();
            let leaves = dice.roll(3) == 0;
            let asking = tokio::spawn(async move { (house.walk)(request).await.status().as_u16() });
            (asking, leaves)
        })
        .collect();
    for (asking, leaves) in crowd {
        if leaves {
            asking.abort();
        }
        // Aborted is over only when it was dropped.
        if let Ok(status) = asking.await {
            // A stream that is open after ten seconds gets the error in band.
            assert!([200, 429, 503, 504].contains(&status), "{status}");
        }
    }
    assert_eq!(house.under_way(), [0; 5]);
    assert!(house.parts.queues.is_empty());
    assert_eq!(house.parts.metrics.requests_total(), CROWD as u64);
}
