//! Dispatch before scripted engines, on paused time.

use std::time::Duration;

use http::StatusCode;
use http_body_util::BodyExt;
use tokio::{
    runtime,
    time::{Instant, timeout},
};

use crate::testing::{ANY, Answer, TestGateway, chat, header_of, text};
use signalbox_telemetry::Stage;

const FAST: Duration = Duration::from_millis(100);
const NEVER: Duration = Duration::from_hours(1);

/// Two pools of one engine each, `a` before `b`, with further keys of their route.
fn two(route: &str, a: &[Answer], b: &[Answer]) -> TestGateway {
    let text = format!(
        "engines:\n  a: {{ url: 'http://a/v1', scrape: false }}\n  b: {{ url: 'http://b/v1', scrape: false }}\n\
         pools:\n  first: {{ model: m, backends: [{{ engine: a }}] }}\n  second: {{ model: m, backends: [{{ engine: b }}] }}\n\
         models:\n  m: {{ to: first, fallback: [second]{route} }}\n"
    );
    TestGateway::new(&text, &[("a", a), ("b", b)])
}

fn one(answers: &[Answer]) -> TestGateway {
    let text = "pools:\n  p: { model: m, backends: ['http://a/v1'] }\nmodels:\n  m: { to: p }\n";
    TestGateway::new(text, &[("a", answers)])
}

/// A pool of two equal engines, of which the one that is asked first gives the first answer.
fn pair(route: &str, answers: &[Answer]) -> TestGateway {
    let text = format!(
        "pools:\n  p: {{ model: m, backends: ['http://a/v1', 'http://b/v1'] }}\nmodels:\n  m: {{ to: p{route} }}\n"
    );
    TestGateway::new(&text, &[(ANY, answers)])
}

/// The outcome of each attempt of the last request.
fn outcomes(gateway: &TestGateway) -> Vec<&'static str> {
    gateway.entry().attempts.iter().map(|attempt| attempt.outcome.unwrap_or("running")).collect()
}

fn hosts(gateway: &TestGateway) -> Vec<String> {
    gateway.hosts().into_iter().map(|(host, _)| host).collect()
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_moves_to_another_backend_at_once() {
    let gateway = pair("", &[Answer::status(500, &[]), Answer::stream(FAST, &["hel", "lo"])]);
    let said = text(gateway.dispatched(&chat(true)).await.unwrap()).await;
    assert!(said.contains("hel") && said.ends_with("data: [DONE]\n\n"), "{said}");
    let [(first, 0), (second, 0)] = &gateway.hosts()[..] else { panic!("{:?}", gateway.hosts()) };
    assert_ne!(first, second);
    let entry = gateway.entry();
    assert_eq!((outcomes(&gateway), entry.answered), (vec!["upstream_error", "ok"], Some(1)));
    assert_eq!((entry.outcome, entry.status, entry.stage), ("ok", 200, Stage::Answer));
    assert_eq!((entry.ttft_ms, entry.attempts[1].ttft_ms), (Some(100.0), Some(100.0)));
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_fails_is_asked_once_more_before_the_next() {
    let gateway = two("", &[Answer::status(500, &[])], &[Answer::stream(FAST, &["hello"])]);
    let reply = gateway.dispatched(&chat(true)).await.unwrap();
    assert_eq!((header_of(&reply, "x-signalbox-pool"), hosts(&gateway).join(" ")), ("second", "a a b".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn the_only_backend_is_asked_again_after_the_pause_that_it_wants() {
    let busy = Answer::status(429, &[("retry-after", "2")]);
    let gateway = one(&[busy, Answer::whole(FAST, "hello")]);
    let reply = gateway.dispatched(&chat(false)).await.unwrap();
    assert!(text(reply).await.contains("hello"));
    let [(_, first), (_, second)] = &gateway.hosts()[..] else { panic!("{:?}", gateway.hosts()) };
    assert!(*first == 0 && (2_000..3_000).contains(second), "{second} ms");
    assert_eq!(outcomes(&gateway), ["upstream_rate_limited", "ok"]);
}

#[tokio::test(start_paused = true)]
async fn the_first_fault_is_reported_when_no_backend_answers() {
    let gateway = two("", &[Answer::status(500, &[])], &[Answer::status(503, &[])]);
    let fault = gateway.dispatched(&chat(true)).await.unwrap_err();
    assert_eq!((fault.status, fault.kind), (StatusCode::INTERNAL_SERVER_ERROR, "upstream_error"));
    let entry = gateway.entry();
    assert_eq!((entry.outcome, entry.status, entry.answered), ("upstream_error", 500, None));
    assert!(entry.attempts.len() > 2, "each is asked, and one again: {:?}", outcomes(&gateway));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_request_is_final() {
    let gateway = two("", &[Answer::status(422, &[])], &[Answer::stream(FAST, &["no"])]);
    let fault = gateway.dispatched(&chat(true)).await.unwrap_err();
    assert_eq!(fault.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(hosts(&gateway), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_pooled_connection_that_died_is_replaced_within_the_attempt() {
    let gateway = one(&[Answer::lost(), Answer::whole(FAST, "hello")]);
    let reply = gateway.dispatched(&chat(false)).await.unwrap();
    assert!(text(reply).await.contains("hello"));
    assert_eq!((hosts(&gateway), outcomes(&gateway)), (vec!["a".into(), "a".into()], vec!["ok"]));
}

#[tokio::test(start_paused = true)]
async fn a_silent_attempt_is_hedged_and_the_loser_is_outrun() {
    let gateway = two(", hedge: on", &[Answer::silent()], &[Answer::stream(FAST, &["hello"])]);
    let reply = gateway.dispatched(&chat(true)).await.unwrap();
    assert_eq!(header_of(&reply, "x-signalbox-pool"), "second");
    text(reply).await;
    let [(_, 0), (other, hedged)] = &gateway.hosts()[..] else { panic!("{:?}", gateway.hosts()) };
    // Before the attempt counts as late.
    assert!(other == "b" && (1_000..10_000).contains(hedged), "{hedged} ms");
    assert_eq!(outcomes(&gateway), ["outrun", "ok"]);
    assert!(!gateway.entry().attempts[0].failed);
}

#[tokio::test(start_paused = true)]
async fn of_two_attempts_in_parallel_the_first_to_begin_wins() {
    let route = ", hedge: off, timeouts: { first_token: 3s }";
    let late = Answer::stream(Duration::from_secs(4), &["late"]);
    let gateway = two(route, &[late], &[Answer::stream(Duration::from_secs(9), &["later"])]);
    let reply = gateway.dispatched(&chat(true)).await.unwrap();
    assert_eq!(header_of(&reply, "x-signalbox-pool"), "first");
    assert!(text(reply).await.contains("\"late\""));
    assert_eq!(gateway.hosts(), [("a".to_owned(), 0), ("b".to_owned(), 3_000)]);
    let entry = gateway.entry();
    assert_eq!((outcomes(&gateway), entry.answered), (vec!["ok", "outrun"], Some(0)));
    assert!(entry.attempts[0].failed, "it missed the deadline of its first token");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_among_held_tokens_is_restarted_unseen() {
    let broken = Answer::stream(FAST, &["lost", "lost", "lost"]).cut(2);
    let gateway = pair(", hold_back: 8", &[broken, Answer::stream(FAST, &["whole"])]);
    let said = text(gateway.dispatched(&chat(true)).await.unwrap()).await;
    assert!(said.contains("whole") && !said.contains("lost"), "{said}");
    assert_eq!(outcomes(&gateway), ["stream_cut", "ok"]);
}

#[tokio::test(start_paused = true)]
async fn a_cascade_shows_only_the_answer_that_passes() {
    let refusal = ["I'm", " sorry,", " but", " I", " can't", " help", " with", " that."];
    let small = Answer::stream(FAST, &refusal);
    for (large, result, said) in [
        (Answer::stream(FAST, &["Paris"]), "escalated", "Paris"),
        // The first answer is better than none.
        (Answer::status(400, &[]), "failed", "sorry"),
    ] {
        let policy = "engines:\n  a: { url: 'http://a/v1', scrape: false }\n  b: { url: 'http://b/v1', scrape: false }\n\
            pools:\n  small: { model: s, backends: [{ engine: a }] }\n  large: { model: l, backends: [{ engine: b }] }\n\
            models:\n  m: { to: small, cascade: { to: large, checks: [refusal] } }\n";
        let gateway = TestGateway::new(policy, &[("a", std::slice::from_ref(&small)), ("b", &[large])]);
        let reply = gateway.dispatched(&chat(true)).await.unwrap();
        let label = format!("{result}:refusal");
        assert_eq!(header_of(&reply, "x-signalbox-cascade"), label);
        let answer = text(reply).await;
        assert!(answer.contains(said) && answer.contains("sorry") == (said == "sorry"), "{answer}");
        assert_eq!(gateway.entry().cascade.unwrap().label(), label);
    }
}

#[tokio::test(start_paused = true)]
async fn the_head_of_a_stream_is_sent_after_ten_seconds_of_silence() {
    let gateway = one(&[Answer::stream(Duration::from_secs(25), &["hello"])]);
    let began = Instant::now();
    let reply = gateway.dispatched(&chat(true)).await.unwrap();
    assert_eq!((began.elapsed().as_secs(), reply.status()), (10, StatusCode::OK));
    assert_eq!(header_of(&reply, "content-type"), "text/event-stream");
    let said = text(reply).await;
    assert_eq!((said.matches(": waiting").count(), began.elapsed().as_secs()), (1, 25), "{said}");
    assert!(said.ends_with("data: [DONE]\n\n"), "{said}");
    assert_eq!((gateway.entry().outcome, gateway.entry().ttft_ms), ("ok", Some(25_000.0)));
}

#[tokio::test(start_paused = true)]
async fn a_fault_after_the_head_is_an_event() {
    let failed = Answer::status(400, &[]).later(Duration::from_secs(12));
    let gateway = one(&[failed]);
    let reply = gateway.dispatched(&chat(true)).await.unwrap();
    assert_eq!(reply.status(), StatusCode::OK);
    let said = text(reply).await;
    assert!(said.contains("upstream_refused") && !said.contains("[DONE]"), "{said}");
    let entry = gateway.entry();
    assert_eq!((entry.outcome, entry.status), ("upstream_refused", 200));
}

#[tokio::test(start_paused = true)]
async fn the_total_timeout_ends_the_request_and_blames_no_engine() {
    let gateway = two(", hedge: off, timeouts: { total: 5s }", &[Answer::silent()], &[Answer::silent()]);
    let began = Instant::now();
    let fault = gateway.dispatched(&chat(false)).await.unwrap_err();
    assert_eq!((began.elapsed(), fault.kind), (Duration::from_secs(5), "deadline"));
    let entry = gateway.entry();
    assert_eq!((entry.outcome, entry.status), ("deadline", 504));
    assert!(entry.attempts.iter().all(|attempt| !attempt.failed), "{:?}", entry.attempts);
    let serving = gateway.live.load();
    let breaker = &serving.snapshot.pools[0].backends[0].breaker;
    assert!(!breaker.is_open(gateway.parts.clock.now()));
}

#[tokio::test(start_paused = true)]
async fn the_progress_of_a_request_whose_client_leaves_is_kept() {
    let gateway = one(&[Answer::stream(NEVER, &["never"]), Answer::stream(FAST, &["one", "two"])]);
    // Before the answer.
    let left = timeout(Duration::from_secs(2), gateway.dispatched(&chat(true))).await;
    assert!(left.is_err());
    let entry = gateway.entry();
    assert_eq!((entry.outcome, entry.stage, entry.status), ("client_gone", Stage::Prefill, 0));
    assert_eq!((outcomes(&gateway), entry.e2e_ms), (vec!["client_gone"], 2_000.0));
    assert_eq!((entry.route.as_deref(), entry.admission.as_ref().unwrap().result), (Some("m"), "admitted"));
    // In mid-answer.
    let mut body = gateway.dispatched(&chat(true)).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    let entry = gateway.entry();
    assert_eq!((entry.outcome, entry.stage, entry.status), ("client_gone", Stage::Answer, 200));
    assert_eq!((entry.answered, entry.ttft_ms), (Some(0), Some(100.0)));
}

/// Blocks and bytes that a chat takes from the allocator, the scripted engine's included.
fn allocated(streamed: bool, answer: Answer) -> (u64, u64) {
    let runtime = runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let gateway = runtime.block_on(async { one(&[answer]) });
    let chat = chat(streamed);
    let ask = || runtime.block_on(async { text(gateway.dispatched(&chat).await.unwrap()).await });
    // What is kept for all requests is there after some.
    (0..4).for_each(|_| drop(ask()));
    let taken = allocation_counter::measure(|| drop(ask()));
    (taken.count_total, taken.bytes_total)
}

/// A future that holds those of all later steps shows in the bytes, a copy of headers in the blocks. The bounds are a tenth above what is taken.
#[test]
fn a_request_takes_few_blocks_of_memory() {
    let (blocks, bytes) = allocated(false, Answer::whole(FAST, "hello"));
    assert!(blocks <= 107 && bytes <= 52_000, "{blocks} blocks, {bytes} bytes");
}

#[test]
fn an_event_takes_few_blocks_of_memory() {
    let [few, many] = [20, 220].map(|tokens| allocated(true, Answer::stream(FAST, &vec!["la"; tokens])));
    let (blocks, bytes) = ((many.0 - few.0) / 200, (many.1 - few.1) / 200);
    assert!(blocks <= 2 && bytes <= 610, "{blocks} blocks, {bytes} bytes for an event");
}

#[tokio::test(start_paused = true)]
async fn refusals_that_are_not_the_request_s_move_on() {
    for (status, body) in [
        (402, r#"{"error":{"message":"Insufficient Balance"}}"#),
        (400, r#"{"error":{"message":"Your credit balance is too low to access the API."}}"#),
        (
            400,
            r#"{"error":{"message":"The input (9000 tokens) is longer than the model's context length (8192 tokens)."}}"#,
        ),
        (400, r#"{"error":"No models loaded. Please load a model first."}"#),
        (400, r#"{"error":{"message":"Invalid model: m","type":"invalid_model","code":"1500"}}"#),
        (400, r#"{"error":{"message":"This model does not support input audio"}}"#),
        (409, r#"{"error":{"message":"conflict"}}"#),
        (503, r#"{"error":{"message":"The engine is currently busy and cannot accept new requests."}}"#),
    ] {
        let gateway = two("", &[Answer::refusal(status, body)], &[Answer::stream(FAST, &["hello"])]);
        let reply = gateway.dispatched(&chat(true)).await.unwrap();
        assert_eq!(
            (header_of(&reply, "x-signalbox-pool"), hosts(&gateway).join(" ")),
            ("second", "a b".to_owned()),
            "{body}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_without_room_fails_nobody_and_opens_no_breaker() {
    let full = || Answer::refusal(503, r#"{"error":{"message":"The request queue is full."}}"#);
    let gateway = one(&[full(), full(), full(), full(), Answer::whole(FAST, "hello")]);
    let reply = gateway.dispatched(&chat(false)).await.unwrap();
    assert!(text(reply).await.contains("hello"));
    assert_eq!(outcomes(&gateway), ["upstream_full", "upstream_full", "upstream_full", "upstream_full", "ok"]);
    let gateway = one(&[full()]);
    let fault = gateway.dispatched(&chat(false)).await.unwrap_err();
    assert_eq!((fault.status, fault.retry_after.is_some()), (StatusCode::SERVICE_UNAVAILABLE, true), "{fault:?}");
}

#[tokio::test(start_paused = true)]
async fn the_operator_s_trouble_is_kept_from_the_caller() {
    let gateway = one(&[Answer::refusal(402, r#"{"error":{"message":"Your account org-7 owes $12"}}"#)]);
    let fault = gateway.dispatched(&chat(true)).await.unwrap_err();
    assert_eq!((fault.status, fault.kind), (StatusCode::BAD_GATEWAY, "upstream_account"));
    assert!(fault.unmasked.is_none() && !fault.message.contains("org-7"), "{}", fault.message);
}

#[tokio::test(start_paused = true)]
async fn an_idle_fallback_is_not_kept_waiting_by_a_pause() {
    let limited = Answer::status(429, &[("retry-after", "3")]);
    let gateway = two("", &[limited], &[Answer::stream(FAST, &["hello"])]);
    let reply = gateway.dispatched(&chat(true)).await.unwrap();
    assert_eq!((header_of(&reply, "x-signalbox-pool"), gateway.hosts().last().unwrap().1), ("second", 0));
}
