//! The lookup before a scripted next step, on paused time.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::body::Body;
use futures_util::stream;
use http::StatusCode;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{time::sleep, try_join};

use super::CacheLookup;
use crate::{
    Parts, Reply, Step,
    background::BackgroundRequests,
    dispatch::Dispatch,
    record::Served,
    stages::Missed,
    testing::{TestGateway, chat, chunk, header_of, text},
};
use signalbox_types::{Fault, Outcome};

/// The next step: gives scripted results, each after a second.
#[derive(Clone, Default)]
struct Next {
    results: Arc<Mutex<VecDeque<Result<&'static str, Fault>>>>,
    /// Texts of the requests.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Step<Missed> for Next {
    async fn call(&self, Missed(routed): Missed) -> Result<Reply, Fault> {
        let (call, streamed) = (&routed.call, routed.call.body.stream);
        self.asked.lock().push(String::from_utf8_lossy(call.body.member("messages").unwrap_or_default()).into());
        sleep(Duration::from_secs(1)).await;
        let said = self.results.lock().pop_front().unwrap()?;
        call.record.serve(Served {
            pool: "p".into(),
            backend: "a".into(),
            endpoint: signalbox_types::Endpoint::Chat,
            passed: true,
        });
        let (kind, frames) =
            if streamed { ("text/event-stream", events(said)) } else { ("application/json", vec![whole(said)]) };
        let frames = frames.into_iter().map(Ok::<_, std::convert::Infallible>);
        let mut reply = Reply::new(Body::from_stream(stream::iter(frames)));
        reply.headers_mut().insert("content-type", kind.parse().unwrap());
        reply.headers_mut().insert("x-signalbox-pool", "p".parse().unwrap());
        call.record.settle(Outcome::Complete);
        Ok(reply)
    }
}

fn whole(said: &str) -> String {
    let choice = json!({ "index": 0, "message": { "role": "assistant", "content": said }, "finish_reason": "stop" });
    let usage = json!({ "prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12 });
    json!({ "id": "w", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage })
        .to_string()
}

fn events(said: &str) -> Vec<String> {
    let token = chunk(&json!({ "role": "assistant", "content": said }), None);
    vec![token, chunk(&json!({}), Some("stop")), "data: [DONE]\n\n".to_owned()]
}

struct Tested {
    gateway: TestGateway,
    next: Next,
    lookup: CacheLookup<Next>,
}

impl Tested {
    /// A cache with these settings, before a step that gives these results.
    fn new(cache: &str, results: Vec<Result<&'static str, Fault>>) -> Self {
        let text = format!(
            "engines:\n  a: {{ url: 'http://a/v1', scrape: false }}\n\
             pools:\n  p: {{ model: m, backends: [{{ engine: a }}] }}\nmodels:\n  m: {{ to: p }}\ncache: {cache}\n"
        );
        let gateway = TestGateway::new(&text, &[]);
        let next = Next { results: Arc::new(Mutex::new(results.into())), ..Next::default() };
        let Parts { accounting, answers, estimator, placement, settlement, .. } = &*gateway.parts;
        let dispatch = Dispatch::new(gateway.client.clone());
        let background =
            BackgroundRequests::new(dispatch, settlement.clone(), placement.clone(), estimator.clone()).into();
        let lookup = CacheLookup::new(next.clone(), answers.clone(), accounting.background.clone(), background);
        Self { gateway, next, lookup }
    }

    async fn ask(&self, body: &Value, headers: &[(&'static str, &'static str)]) -> Result<Answered, Fault> {
        let routed = self.gateway.routed(body, headers).await;
        let record = routed.call.record.clone();
        let reply = self.lookup.call(routed).await.inspect_err(|fault| record.fail(fault))?;
        let cache = header_of(&reply, "x-signalbox-cache").to_owned();
        Ok(Answered { cache, text: text(reply).await })
    }

    fn asked(&self) -> usize {
        self.next.asked.lock().len()
    }
}

#[derive(Debug)]
struct Answered {
    cache: String,
    text: String,
}

/// Awaits work of another thread. Paused time stands still meanwhile, since the runtime is never idle.
async fn at_once<T>(work: impl Future<Output = T>) -> T {
    let busy = async {
        loop {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        done = work => done,
        () = busy => unreachable!("it never ends"),
    }
}

fn overloaded() -> Fault {
    Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, "queue_timeout", "no room")
}

const EXACT: &str = "{ exact: { scope: shared } }";

#[tokio::test(start_paused = true)]
async fn an_answer_is_stored_only_once_it_is_translated() {
    let fault = Fault::upstream(StatusCode::BAD_GATEWAY, "upstream_garbage", "a call without a name");
    for (end, stored) in [("translated", true), ("spoilt", false), ("left", false)] {
        for stream in [true, false] {
            let tested = Tested::new(EXACT, vec![Ok("Paris"), Ok("Paris")]);
            let routed = tested.gateway.routed(&chat(stream), &[]).await;
            let held = routed.call.record.hold();
            let reply = tested.lookup.call(routed).await.unwrap();
            // The task that runs the request is at its end before the translator reads a byte.
            sleep(Duration::from_secs(5)).await;
            match end {
                "translated" => held.translated(),
                "spoilt" => held.break_off(&fault),
                _ => {}
            }
            drop((held, reply));
            let again = tested.ask(&chat(stream), &[]).await.unwrap();
            assert_eq!(again.cache, if stored { "hit-exact" } else { "miss" }, "{end}, {stream}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_equal_request_is_answered_from_memory() {
    let tested = Tested::new(EXACT, vec![Ok("Paris")]);
    assert_eq!(tested.ask(&chat(false), &[]).await.unwrap().cache, "miss");
    let hit = tested.ask(&chat(false), &[]).await.unwrap();
    assert!(hit.cache == "hit-exact" && hit.text.contains("Paris"), "{hit:?}");
    let entry = tested.gateway.entry();
    let cache = entry.cache.as_ref().unwrap();
    assert_eq!((cache.result, cache.pool.as_deref(), entry.status), ("hit-exact", Some("p"), 200));
    assert_eq!((entry.outcome, entry.ttft_ms, entry.cost_usd), ("ok", Some(0.0), Some(0.0)));
    // The same answer as a stream.
    let streamed = tested.ask(&chat(true), &[]).await.unwrap();
    assert!(streamed.cache == "hit-exact" && streamed.text.ends_with("data: [DONE]\n\n"), "{streamed:?}");
    assert_eq!(tested.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn equal_requests_at_the_same_time_share_one_answer() {
    let tested = Tested::new(EXACT, vec![Ok("Paris")]);
    let body = chat(true);
    let (first, second) = try_join!(tested.ask(&body, &[]), tested.ask(&body, &[])).unwrap();
    assert_eq!((&*first.cache, &*second.cache), ("miss", "coalesced"));
    assert_eq!((tested.asked(), first.text), (1, second.text));
    let entry = tested.gateway.entry();
    assert_eq!((entry.cache.as_ref().unwrap().result, entry.ttft_ms), ("coalesced", Some(1_000.0)));
}

#[tokio::test(start_paused = true)]
async fn a_request_takes_over_from_a_leader_that_fails() {
    let tested = Tested::new(EXACT, vec![Err(overloaded()), Ok("Paris")]);
    let body = chat(true);
    let (first, second) = tokio::join!(tested.ask(&body, &[]), tested.ask(&body, &[]));
    assert_eq!(first.unwrap_err().kind, "queue_timeout");
    let second = second.unwrap();
    assert!(second.cache == "miss" && second.text.contains("Paris"), "{second:?}");
    assert_eq!(tested.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_the_request_is_shared() {
    let refused = Fault::client(StatusCode::BAD_REQUEST, "upstream_refused", "no");
    let tested = Tested::new(EXACT, vec![Err(refused)]);
    let body = chat(false);
    let (first, second) = tokio::join!(tested.ask(&body, &[]), tested.ask(&body, &[]));
    assert_eq!((first.unwrap_err().kind, second.unwrap_err().kind), ("upstream_refused", "upstream_refused"));
    assert_eq!(tested.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_wants_only_kept_answers_asks_no_engine() {
    let tested = Tested::new(EXACT, vec![Ok("Paris")]);
    let only = [("cache-control", "only-if-cached")];
    let fault = tested.ask(&chat(false), &only).await.unwrap_err();
    assert_eq!((fault.status, fault.kind, tested.asked()), (StatusCode::GATEWAY_TIMEOUT, "not_cached", 0));
    tested.ask(&chat(false), &[]).await.unwrap();
    assert_eq!((&*tested.ask(&chat(false), &only).await.unwrap().cache, tested.asked()), ("hit-exact", 1));
}

#[tokio::test(start_paused = true)]
async fn a_prompt_of_the_same_meaning_is_answered_and_another_is_not() {
    let tested =
        Tested::new("{ semantic: { max_false_hit_rate: 5%, scope: shared } }", vec![Ok("Paris"), Ok("Madrid")]);
    let asking = |said: &str| {
        let mut body = chat(false);
        body["messages"][0]["content"] = said.into();
        body
    };
    let kept = tested.ask(&asking("What is the capital of France?"), &[]).await.unwrap();
    assert_eq!(kept.cache, "miss");
    let semantic = tested.gateway.parts.answers.local.semantic.clone();
    while semantic.size().0 == 0 {
        tokio::task::yield_now().await;
    }
    let hit = at_once(tested.ask(&asking("what is the capital of france"), &[])).await.unwrap();
    assert!(hit.cache == "hit-semantic" && hit.text.contains("Paris"), "{hit:?}");
    let other = tested.ask(&asking("What is the capital of Spain?"), &[]).await.unwrap();
    assert_eq!((&*other.cache, other.text, tested.asked()), ("miss", whole("Madrid"), 2));
}
