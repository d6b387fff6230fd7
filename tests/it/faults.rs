//! The sixteen faults of a public catalogue and a seventeenth, each driven from outside: a faulty provider, a fallback, a streaming caller, and a
//! policy without any settings for them. Checks both the caller's answer and the provider's requests.

#![expect(clippy::print_stdout, reason = "the table in the documentation is made of these lines")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{
    client::{End, Sse, data, http, json as with_json},
    gateway::Gateway,
    mock::{Mock, Plan, Seen, chat_events, polite, usage_event},
    until,
};

const TOKENS: usize = 60;

/// Tokens of the complete answer.
fn words() -> Vec<String> {
    (0..TOKENS).map(|number| format!("w{number} ")).collect()
}

fn sound() -> Plan {
    Plan::chat_stream(words())
}

/// A faulty provider, a healthy one, and the times of their requests.
struct Bed {
    primary: Mock,
    backup: Mock,
    times: Arc<Mutex<Vec<Instant>>>,
    gateway: Gateway,
}

impl Bed {
    /// `plan` gets the number of the request at the primary.
    async fn start(plan: impl Fn(usize, &Seen) -> Plan + Send + Sync + 'static) -> Self {
        Self::with("", plan, |_| sound()).await
    }

    async fn with(
        policy: &str,
        plan: impl Fn(usize, &Seen) -> Plan + Send + Sync + 'static,
        backup: impl Fn(&Seen) -> Plan + Send + Sync + 'static,
    ) -> Self {
        Self::with_pools("", policy, plan, backup).await
    }

    async fn with_pools(
        pool: &str,
        policy: &str,
        plan: impl Fn(usize, &Seen) -> Plan + Send + Sync + 'static,
        backup: impl Fn(&Seen) -> Plan + Send + Sync + 'static,
    ) -> Self {
        let times = Arc::new(Mutex::new(Vec::new()));
        let noted = times.clone();
        let primary = Mock::start(move |seen| {
            let mut times = noted.lock().expect("the times");
            times.push(Instant::now());
            plan(times.len() - 1, seen)
        })
        .await;
        let backup = Mock::start(backup).await;
        let policy = format!(
            "pools:\n  primary: {{ {pool} model: large, backends: [\"{}\"] }}\n  backup: {{ {pool} model: other, backends: [\"{}\"] }}\n\
             models: {{ auto: {{ to: primary, fallback: [backup] }} }}\n{policy}",
            primary.url(),
            backup.url()
        );
        Self { primary, backup, times, gateway: Gateway::start(&policy).await }
    }

    async fn ask(&self) -> Received {
        self.ask_with(&json!({})).await
    }

    async fn ask_with(&self, more: &Value) -> Received {
        let mut body = json!({ "model": "auto", "stream": true, "stream_options": { "include_usage": true },
            "messages": [{ "role": "user", "content": "Count." }] });
        for (name, value) in more.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        let began = Instant::now();
        let mut stream = Sse::send(with_json(http().post(self.gateway.at("/v1/chat/completions")), &body)).await;
        let status = stream.status.as_u16();
        let model = stream.header("x-signalbox-model").to_owned();
        let (events, end) = stream.rest().await;
        Received::of(status, model, &events, &end, began.elapsed())
    }

    /// Attempts at the primary, and at the fallback.
    fn attempts(&self) -> (usize, usize) {
        (self.primary.seen().len(), self.backup.seen().len())
    }

    /// Times between the attempts at the primary.
    fn gaps(&self) -> Vec<Duration> {
        self.times.lock().expect("the times").windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    /// Prints a line of the table in the documentation.
    fn print(&self, fault: &str, received: &Received) {
        let (primary, backup) = self.attempts();
        println!("| {fault} | {} | {:.1} s | {primary} | {backup} |", received.summary(), received.took.as_secs_f64());
    }
}

/// The caller's view of an answer.
#[derive(Debug)]
struct Received {
    status: u16,
    /// From the response head.
    model: String,
    text: String,
    /// Code of the error, in place of an answer or within it.
    error: Option<String>,
    done: bool,
    usage: Option<u64>,
    roles: usize,
    comments: usize,
    took: Duration,
}

impl Received {
    fn of(status: u16, model: String, events: &[bytes::Bytes], end: &End, took: Duration) -> Self {
        assert!(matches!(end, End::Clean), "{end:?}");
        let datas: Vec<String> = match status {
            200 => events.iter().filter_map(|event| data(event)).collect(),
            _ => vec![events.iter().map(|event| String::from_utf8_lossy(event).into_owned()).collect()],
        };
        let values: Vec<Value> = datas.iter().filter_map(|data| serde_json::from_str(data).ok()).collect();
        let delta = |value: &Value, name: &str| value["choices"][0]["delta"][name].as_str().map(str::to_owned);
        let code = |error: &Value| error["code"].as_str().or(error["type"].as_str()).unwrap_or("an error").to_owned();
        Self {
            status,
            model,
            text: values.iter().filter_map(|value| delta(value, "content")).collect(),
            error: values.iter().find(|value| value["error"].is_object()).map(|value| code(&value["error"])),
            done: datas.last().is_some_and(|last| last == "[DONE]"),
            usage: values.iter().find_map(|value| value["usage"]["completion_tokens"].as_u64()),
            roles: values.iter().filter(|value| delta(value, "role").is_some()).count(),
            comments: events.len() - datas.len().min(events.len()),
            took,
        }
    }

    fn summary(&self) -> String {
        match &self.error {
            None => "the whole answer".to_owned(),
            Some(error) => format!("`{error}`"),
        }
    }

    /// The complete answer, once.
    fn is_whole(&self) {
        assert_eq!((self.status, self.text.clone()), (200, words().concat()), "{self:?}");
        assert!(self.error.is_none() && self.roles <= 1 && self.usage == Some(TOKENS as u64), "{self:?}");
    }
}

#[tokio::test]
async fn fault_1_an_idle_fallback_answers_before_a_wait_that_is_asked_for() {
    let limited = |after: &str| Plan::error(429, "slow down").header("retry-after", after);
    let bed = Bed::start(move |number, _| if number == 0 { limited("2") } else { sound() }).await;
    let received = bed.ask().await;
    received.is_whole();
    assert_eq!(bed.attempts(), (1, 1));
    assert!(received.took < Duration::from_secs(2), "{received:?}");
    bed.print("1 429, `Retry-After: 2`, once", &received);

    let bed = Bed::start(move |_, _| limited("20")).await;
    for _ in 0..3 {
        bed.ask().await.is_whole();
    }
    assert_eq!(bed.attempts(), (1, 3), "it is left alone for as long as it asks");
}

#[tokio::test]
async fn fault_2_a_429_without_retry_after_is_retried_slowly() {
    let bed = Bed::start(|_, _| Plan::error(429, "slow down")).await;
    let received = bed.ask().await;
    received.is_whole();
    let (primary, backup) = bed.attempts();
    assert!(primary <= 4 && backup == 1, "{primary}");
    assert!(bed.gaps().iter().all(|gap| *gap >= Duration::from_millis(300)), "{:?}", bed.gaps());
    bed.print("2 429 always", &received);
}

#[tokio::test]
async fn fault_3_one_error_is_made_good_where_it_happened() {
    let bed = Bed::start(|number, _| if number == 0 { Plan::error(500, "oops") } else { sound() }).await;
    let received = bed.ask().await;
    received.is_whole();
    assert_eq!(bed.attempts(), (2, 0));
    bed.print("3 500 once", &received);
}

#[tokio::test]
async fn fault_4_a_backend_that_is_down_is_skipped_or_reported_without_another() {
    let bed = Bed::start(|_, _| Plan::error(503, "down")).await;
    let received = bed.ask().await;
    received.is_whole();
    assert_eq!(bed.attempts(), (2, 1));
    bed.print("4 503 always", &received);

    let bed = Bed::with("", |_, _| Plan::error(503, "the cause"), |_| Plan::error(500, "another")).await;
    let received = bed.ask().await;
    assert_eq!(
        (received.status, received.error.as_deref()),
        (503, Some("server_error")),
        "the original error: {received:?}"
    );
    let (primary, backup) = bed.attempts();
    assert!(primary + backup <= 6, "{primary} + {backup}");
}

#[tokio::test]
async fn fault_5_a_connection_that_is_reset_is_made_good() {
    let bed = Bed::start(|number, _| if number == 0 { Plan::reset_at_once() } else { sound() }).await;
    let received = bed.ask().await;
    received.is_whole();
    assert_eq!(bed.attempts(), (2, 0));
    bed.print("5 reset before the head, once", &received);
}

#[tokio::test]
async fn fault_6_another_backend_answers_for_a_silent_one() {
    let bed = Bed::start(|_, _| Plan::silence()).await;
    let received = bed.ask().await;
    received.is_whole();
    assert!(received.took < Duration::from_secs(15), "{:?}", received.took);
    assert_eq!(bed.attempts(), (1, 1));
    bed.primary.gone().await;
    bed.print("6 accepts, never answers", &received);
}

#[tokio::test]
async fn fault_7_a_first_token_that_is_late_is_taken_from_elsewhere() {
    let late = || {
        let events = chat_events(words());
        Plan::stream().event(&events[0]).pause(Duration::from_secs(20)).events(&events[1..]).done()
    };
    let bed = Bed::start(move |_, _| late()).await;
    let received = bed.ask().await;
    received.is_whole();
    assert!(received.took < Duration::from_secs(15) && received.roles == 1, "{received:?}");
    assert_eq!(bed.attempts(), (1, 1));
    bed.print("7 head at once, first token after 20 s", &received);
}

#[tokio::test]
async fn faults_6_and_7_fail_over_where_tokens_have_a_price_too() {
    let late = |number: usize| {
        let events = chat_events(words());
        let begun = Plan::stream().event(&events[0]);
        if number == 0 { Plan::silence() } else { begun.hang() }
    };
    let price = "price: { input: 1, output: 2 },";
    let bed = Bed::with_pools(price, "", move |number, _| late(number), |_| sound()).await;
    for fault in ["6 the same, where tokens have a price", "7 the same, where tokens have a price"] {
        let received = bed.ask().await;
        received.is_whole();
        assert!(
            received.took < Duration::from_secs(15) && received.took > Duration::from_secs(9),
            "{:?}",
            received.took
        );
        bed.print(fault, &received);
    }
    assert_eq!(bed.attempts(), (2, 2), "no hedge is paid for unasked");
}

/// The first `tokens` of the answer, and then nothing.
fn begun(tokens: usize) -> Plan {
    Plan::stream().events(&chat_events(words())[..=tokens])
}

#[tokio::test]
async fn fault_8_a_stream_that_dies_is_completed_by_a_model_that_repeats_itself() {
    let bed = Bed::start(|number, _| if number == 0 { begun(40).cut() } else { sound() }).await;
    let received = bed.ask().await;
    received.is_whole();
    assert!(received.done && received.roles == 1, "{received:?}");
    assert_eq!((bed.attempts(), &*received.model), ((2, 0), "large"));
    bed.print("8 dies after 40 of 60 tokens", &received);
}

#[tokio::test]
async fn fault_8_a_stream_that_dies_is_never_glued_to_another_answer() {
    let other = || Plan::chat_stream(["Quite ", "another ", "answer."]);
    let bed = Bed::start(move |number, _| if number == 0 { begun(40).cut() } else { other() }).await;
    let received = bed.ask().await;
    assert_eq!(received.text, words()[..40].concat());
    assert_eq!((received.status, received.error.as_deref(), received.done), (200, Some("stream_cut"), false));
    assert_eq!(bed.attempts(), (2, 0), "no other model is asked for the rest");
    bed.print("8 the same, and the model says something else when asked again", &received);
}

#[tokio::test]
async fn fault_8_a_stream_that_dies_again_while_it_is_repeated_is_still_one_answer() {
    let bed = Bed::start(|number, _| match number {
        0 => begun(40).cut(),
        1 => begun(20).cut(),
        _ => sound(),
    })
    .await;
    let received = bed.ask().await;
    received.is_whole();
    assert!(received.done && received.roles == 1, "{received:?}");
    assert_eq!(bed.attempts(), (3, 0));
}

#[tokio::test]
async fn an_error_in_a_continued_stream_is_reported_to_the_client() {
    let error = r#"{"error":{"message":"out of memory","code":500}}"#;
    let bed =
        Bed::start(move |number, _| if number == 0 { begun(40).cut() } else { begun(50).event(error).done() }).await;
    let received = bed.ask().await;
    assert!(received.error.is_some() && !received.done, "{received:?}");
    let said = words()[..50].concat();
    assert!(said.starts_with(&received.text) && received.text.len() >= words()[..40].concat().len(), "{received:?}");
    // What the provider says of the request is not routed around.
    let filtered = r#"{"error":{"message":"filtered","code":400}}"#;
    let bed = Bed::start(move |_, _| begun(40).event(filtered)).await;
    assert!(bed.ask().await.error.is_some());
    assert_eq!(bed.attempts(), (1, 0));
}

#[tokio::test]
async fn content_that_is_no_text_and_bodies_that_may_be_sent_once_do_no_harm() {
    let odd = r#"{"choices":[{"index":0,"delta":{"content":7}}]}"#;
    let bed = Bed::start(move |_, _| Plan::stream().event(odd).event(odd).done()).await;
    assert!(bed.ask().await.done);
    let bed = Bed::start(|_, _| Plan::error(503, "down")).await;
    let received = bed.ask_with(&json!({ "store": true })).await;
    assert_eq!((received.status, bed.attempts()), (503, (1, 0)));
}

#[tokio::test]
async fn fault_9_a_stream_that_stalls_is_taken_up_and_the_gateway_lives() {
    let bed = Bed::with(
        "timeouts: { idle: 4s }\n",
        |number, _| if number == 0 { begun(40).hang() } else { sound() },
        |_| sound(),
    )
    .await;
    let received = bed.ask().await;
    received.is_whole();
    assert!(received.done);
    assert_eq!(bed.attempts(), (2, 0));
    bed.print("9 stalls (idle limit of 4 s)", &received);
    bed.ask().await.is_whole();
}

#[tokio::test]
async fn fault_10_an_event_that_is_no_json_is_left_out() {
    let bed = Bed::start(|_, _| {
        let events = chat_events(words());
        Plan::stream()
            .events(&events[..10])
            .event("{\"choices\": [{\"index\"")
            .events(&events[10..])
            .event(&usage_event(7, TOKENS))
            .done()
    })
    .await;
    let received = bed.ask().await;
    received.is_whole();
    assert!(received.done);
    assert_eq!(bed.attempts(), (1, 0));
    bed.print("10 the tenth event is no JSON", &received);
}

#[tokio::test]
async fn fault_11_an_answer_without_the_last_word_ends_promptly() {
    let bed = Bed::start(|_, _| Plan::stream().events(chat_events(words())).event(&usage_event(7, TOKENS))).await;
    let received = bed.ask().await;
    received.is_whole();
    assert!(received.took < Duration::from_secs(5), "{:?}", received.took);
    assert_eq!(bed.attempts(), (1, 0));
    bed.print("11 complete, but no `[DONE]`", &received);
}

fn refusal(code: &str) -> Plan {
    Plan::json(
        400,
        &json!({ "error": { "message": "no", "type": "invalid_request_error", "param": null, "code": code } }),
    )
}

#[tokio::test]
async fn fault_12_a_prompt_that_is_too_long_goes_to_a_longer_context_or_back() {
    let refuse = || refusal("context_length_exceeded");
    let bed = Bed::with("", move |_, _| refuse(), move |_| refuse()).await;
    let received = bed.ask().await;
    assert_eq!((received.status, received.error.as_deref()), (400, Some("context_length_exceeded")));
    assert_eq!(bed.attempts(), (1, 1), "the fallback may have a longer context: nothing says how long it is");
    bed.print("12 400 `context_length_exceeded`", &received);

    let longer = Mock::start(|_| sound()).await;
    let short = Mock::start(|_| refusal("context_length_exceeded")).await;
    let policy = format!(
        "pools:\n  short: {{ model: a, context: 8k, backends: [\"{}\"] }}\n  long: {{ model: b, context: 64k, backends: [\"{}\"] }}\n\
         models: {{ auto: {{ to: short, fallback: [long] }} }}\n",
        short.url(),
        longer.url()
    );
    let gateway = Gateway::start(&policy).await;
    let body = json!({ "model": "auto", "stream": true, "messages": [{ "role": "user", "content": "Count." }] });
    let stream = Sse::send(with_json(http().post(gateway.at("/v1/chat/completions")), &body)).await;
    assert_eq!((stream.status.as_u16(), stream.header("x-signalbox-pool")), (200, "long"));
    assert_eq!(short.seen().len(), 1);
}

#[tokio::test]
async fn fault_13_a_content_filter_is_the_provider_s_word() {
    let bed = Bed::start(|_, _| refusal("content_filter")).await;
    let received = bed.ask().await;
    assert_eq!((received.status, received.error.as_deref()), (400, Some("content_filter")));
    assert_eq!(bed.attempts(), (1, 0));
    bed.print("13 400 `content_filter`", &received);
}

#[tokio::test]
async fn fault_14_a_backend_that_takes_no_prefill_never_hides_the_cause() {
    let takes_none = |seen: &Seen| {
        let last = seen.json()["messages"].as_array().and_then(|all| all.last().cloned()).unwrap_or_default();
        last["role"] == "assistant"
    };
    // It says that it is vLLM, and so is asked to go on; then it is asked anew.
    let bed = Bed::start(move |number, seen| match number {
        0 => begun(40).cut(),
        _ if takes_none(seen) => Plan::error(400, "prefill is not supported"),
        _ => sound(),
    })
    .await;
    bed.primary.set_vllm(0, 0, 0.1);
    bed.gateway.wait_metrics("the engine to be known", |now| now.sum("signalbox_engine_running", &[]) < 0.5).await;
    until("its kind to be known", async || bed.gateway.get_json("/admin/state").await.to_string().contains("vllm"))
        .await;
    let received = bed.ask().await;
    received.is_whole();
    assert!(received.done);
    assert_eq!(bed.attempts(), (3, 0));
    bed.print("14 dies, and takes no prefill", &received);
}

#[tokio::test]
async fn a_model_that_can_go_on_is_asked_to() {
    let goes_on = |seen: &Seen| {
        let body = seen.json();
        let last = body["messages"].as_array().and_then(|all| all.last().cloned()).unwrap_or_default();
        if last["role"] != "assistant" {
            return begun(40).cut();
        }
        assert_eq!((&last["content"], &body["continue_final_message"]), (&json!(words()[..40].concat()), &json!(true)));
        let rest = chat_events(&words()[40..]);
        Plan::stream().events(rest).event(&usage_event(47, 20)).done()
    };
    let bed = Bed::start(move |_, seen| goes_on(seen)).await;
    bed.primary.set_vllm(0, 0, 0.1);
    until("its kind to be known", async || bed.gateway.get_json("/admin/state").await.to_string().contains("vllm"))
        .await;
    let received = bed.ask().await;
    assert_eq!((received.text.clone(), received.roles, received.done), (words().concat(), 1, true), "{received:?}");
    assert!(received.usage.is_some_and(|usage| usage > 20), "what was said before counts: {received:?}");
    assert_eq!(bed.attempts(), (2, 0));
}

#[tokio::test]
async fn fault_15_a_recovered_backend_is_found_soon_by_a_few_probes() {
    let down = Instant::now() + Duration::from_secs(6);
    // Its pace is the fallback's.
    let bed = Bed::with(
        "",
        move |_, _| if Instant::now() < down { Plan::error(503, "down") } else { sound() },
        |_| sound().after(Duration::from_millis(250)),
    )
    .await;
    let mut back = None;
    let began = Instant::now();
    while back.is_none() && began.elapsed() < Duration::from_secs(25) {
        let received = bed.ask().await;
        received.is_whole();
        if received.model == "large" {
            back = Some(Instant::now());
        }
    }
    let took = back.expect("it is used again").saturating_duration_since(down);
    assert!(took < Duration::from_secs(15), "{took:?}");
    let (probes, asked) = bed.attempts();
    assert!(probes <= 12 && asked > probes, "{probes} of {asked}");
    println!(
        "| 15 down for 6 s, a request every 250 ms | the whole answer, each | back after {:.1} s | {probes} | {asked} |",
        took.as_secs_f64()
    );
}

#[tokio::test]
async fn fault_16_an_answer_bears_the_name_and_the_usage_of_who_gave_it() {
    let bed = Bed::start(|_, _| Plan::error(503, "down")).await;
    let received = bed.ask().await;
    received.is_whole();
    assert_eq!(received.model, "other");
    let line = &bed.gateway.get_json("/admin/decisions").await[0];
    assert_eq!(line["usage"]["completion_tokens"], TOKENS as u64, "{line}");
    let attempts = line["attempts"].as_array().unwrap();
    let billed = attempts.iter().filter(|attempt| attempt["usage"].is_object()).count();
    assert_eq!((attempts.len(), billed), (3, 1), "{line}");
    bed.print("16 503 always, the fallback answers", &received);
}

/// Longer than a proxy waits by default.
const MINUTE: Duration = Duration::from_secs(61);

#[tokio::test]
async fn fault_17_a_silent_reasoning_model_is_not_cut_off() {
    // Longer than the limit for others; a minute is the same to the gateway.
    let thinks = || Plan::stream().pause(MINUTE).events(chat_events(words())).event(&usage_event(7, TOKENS)).done();
    let bed = Bed::start(move |_, _| thinks()).await;
    let received = bed.ask_with(&json!({ "reasoning_effort": "high" })).await;
    received.is_whole();
    assert!(received.comments >= 1 && received.took >= MINUTE, "{received:?}");
    assert_eq!(bed.attempts(), (1, 0));
    bed.print("17 thinks for 61 s in silence", &received);
}

#[tokio::test]
async fn a_request_that_its_only_engine_has_lost_is_asked_again() {
    let first = AtomicBool::new(true);
    let only = Mock::start(move |seen| if first.swap(false, Relaxed) { Plan::silence() } else { polite(seen) }).await;
    let gateway = Gateway::start(&format!(
        "timeouts: {{ first_token: 300ms }}\npools: {{ p: {{ backends: [\"{}\"] }} }}\nmodels: {{ m: {{ to: p }} }}\n",
        only.url()
    ))
    .await;
    let body = json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "hi" }] });
    let url = gateway.at("/v1/chat/completions");
    let lost = tokio::spawn({
        let (url, body) = (url.clone(), body.clone());
        async move { Sse::post(&url, &body).await.text().await.0 }
    });
    only.wait_seen(1).await;
    assert!(!Sse::post(&url, &body).await.text().await.0.is_empty(), "others are served");
    assert!(!lost.await.unwrap().is_empty());
    assert_eq!(only.seen().len(), 3);
}

#[tokio::test]
async fn a_long_answer_that_others_overtake_is_not_lost() {
    // Longer than the limit; what is asked meanwhile is answered at once.
    let first = AtomicBool::new(true);
    let only = Mock::start(move |seen| {
        let answer = polite(seen);
        if first.swap(false, Relaxed) { answer.after(Duration::from_secs(12)) } else { answer }
    })
    .await;
    let policy = format!("pools: {{ p: {{ backends: [\"{}\"] }} }}\nmodels: {{ m: {{ to: p }} }}\n", only.url());
    let gateway = Gateway::start(&policy).await;
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
    let (url, client) = (gateway.at("/v1/chat/completions"), http());
    let long = tokio::spawn(with_json(client.post(&url), &body).send());
    only.wait_seen(1).await;
    assert_eq!(with_json(client.post(&url), &body).send().await.unwrap().status(), 200);
    assert_eq!(long.await.unwrap().unwrap().status(), 200);
    assert_eq!(only.seen().len(), 2);
}

#[tokio::test]
async fn a_late_answer_is_waited_for_without_another_backend() {
    let late = |_: &Seen| Plan::stream().pause(Duration::from_secs(2)).events(chat_events(["late"])).done();
    let only = Mock::start(late).await;
    let gateway = Gateway::start(&format!(
        "timeouts: {{ first_token: 300ms }}\npools: {{ p: {{ backends: [\"{}\"] }} }}\nmodels: {{ m: {{ to: p }} }}\n",
        only.url()
    ))
    .await;
    let body = json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "hi" }] });
    let (text, _) = Sse::post(&gateway.at("/v1/chat/completions"), &body).await.text().await;
    assert_eq!((&*text, only.seen().len()), ("late", 1));
}

#[tokio::test]
async fn an_open_stream_gets_its_error_in_band() {
    let bed = Bed::with(
        "",
        |_, _| Plan::error(500, "in the end").after(Duration::from_secs(11)),
        |_| Plan::error(500, "here, too").after(Duration::from_secs(12)),
    )
    .await;
    let received = bed.ask().await;
    assert_eq!((received.status, received.done), (200, false), "{received:?}");
    assert!(received.error.is_some() && received.comments >= 1, "{received:?}");
}

#[tokio::test]
async fn a_full_outage_is_not_made_worse() {
    const REQUESTS: usize = 400;
    let down = Mock::start(|_| Plan::error(503, "down")).await;
    let policy = format!("pools: {{ p: {{ backends: [\"{}\"] }} }}\nmodels: {{ m: {{ to: p }} }}\n", down.url());
    let gateway = Gateway::start(&policy).await;
    let client = http();
    let asking: Vec<_> = (0..REQUESTS)
        .map(|_| {
            let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
            let request = with_json(client.post(gateway.at("/v1/chat/completions")), &body);
            tokio::spawn(async move { request.send().await.unwrap().status().as_u16() })
        })
        .collect();
    for one in asking {
        assert_eq!(one.await.unwrap(), 503);
    }
    let seen = down.seen().len();
    assert!((seen as f64) <= 1.2 * REQUESTS as f64, "{seen} attempts at {REQUESTS}");
}

#[tokio::test]
async fn a_late_first_token_is_hedged_where_that_costs_nothing() {
    let bed = Bed::start(|number, seen| if number < 20 { polite(seen) } else { Plan::silence() }).await;
    for _ in 0..20 {
        assert_eq!(bed.ask().await.status, 200);
    }
    // It is known how soon the first token comes; one that does not come is made good long before the limit.
    let received = bed.ask().await;
    received.is_whole();
    assert!(received.took < Duration::from_secs(6), "{:?}", received.took);
    assert_eq!(bed.attempts(), (21, 1));
    let metrics = bed.gateway.metrics().await;
    assert!(metrics.sum("signalbox_backend_attempts_total", &[r#"outcome="outrun""#]) > 0.5, "{metrics:?}");
}
