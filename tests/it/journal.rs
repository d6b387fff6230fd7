//! The journal and the decisions: facts of every request, and secrets that never appear.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{
    client::{Sse, answer, http, json, post},
    gateway::{Gateway, Start},
    mock::{Mock, Plan, Seen, chat_chunk, chat_events, polite, usage_event},
    until,
};

fn chat(model: &str, prompt: &str, stream: bool) -> Value {
    json!({ "model": model, "stream": stream, "messages": [{ "role": "user", "content": prompt }] })
}

/// A policy with the engines `a` and `b` in turn, prices and a journal.
fn policy(a: &Mock, b: &Mock, more: &str) -> String {
    format!(
        "engines:\n  a: {{ url: \"{}\" }}\n  b: {{ url: \"{}\" }}\n\
         pools:\n  main: {{ model: m, balance: round_robin, price: {{ input: 2, cached_input: 1, output: 4 }}, \
         backends: [{{ engine: a }}, {{ engine: b }}] }}\n\
         models:\n  auto: {{ routes: [{{ name: everyday, to: main }}] }}\n{more}",
        a.url(),
        b.url()
    )
}

const JOURNAL: &str = "journal: { path: journal.jsonl }\n";

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// The journal, once it has `count` lines.
async fn journal(gateway: &Gateway, count: usize) -> Vec<Value> {
    let path = gateway.dir().join("journal.jsonl");
    // A line is whole with its break.
    let whole = || {
        std::fs::read_to_string(&path)
            .unwrap_or_default()
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .count()
    };
    until(&format!("{count} lines in the journal"), async || whole() >= count).await;
    lines(&path)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"))
}

#[tokio::test]
async fn a_journal_line_is_complete() {
    let failing = |seen: &Seen| match seen.model() {
        _ if seen.streams() => Plan::error(500, "broken"),
        _ => polite(seen),
    };
    let answering = |_: &Seen| {
        let usage = json!({
            "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050,
            "prompt_tokens_details": { "cached_tokens": 400 }, "completion_tokens_details": { "reasoning_tokens": 7 },
        });
        let end = json!({ "id": "c", "object": "chat.completion.chunk", "choices": [], "usage": usage });
        Plan::stream().events(chat_events(["one", " two"])).event(&end.to_string()).done()
    };
    let (a, b) = (Mock::start(failing).await, Mock::start(answering).await);
    let gateway = Gateway::start(&policy(&a, &b, JOURNAL)).await;
    let request = json(http().post(gateway.at("/v1/chat/completions")), &chat("auto", "tell me", true));
    let answered = answer(request.header("x-request-id", "my/request 1".replace(' ', "-"))).await;
    assert_eq!((answered.status.as_u16(), answered.header("x-signalbox-id")), (200, "my/request-1"));
    assert!(!answered.text().contains("usage"), "the client did not ask for it: {}", answered.text());

    let line = &journal(&gateway, 1).await[0];
    for (field, want) in [
        ("id", json!("my/request-1")),
        ("endpoint", json!("chat")),
        ("stream", json!(true)),
        ("key", Value::Null),
        ("model", json!("auto")),
        ("route", json!("everyday")),
        ("status", json!(200)),
        ("outcome", json!("ok")),
        ("stage", json!("answer")),
    ] {
        assert_eq!(line[field], want, "{field} of {line}");
    }
    assert!(number(&line["prompt_bytes"]) > 7.0 && number(&line["estimated_prompt_tokens"]) >= 1.0, "{line}");
    let attempts = line["attempts"].as_array().unwrap();
    let reported =
        |attempt: &Value| (attempt["backend"].clone(), attempt["outcome"].clone(), attempt["reason"].clone());
    assert_eq!(reported(&attempts[0]), (json!("a"), json!("upstream_error"), json!("round_robin")));
    assert_eq!(reported(&attempts[1]), (json!("b"), json!("ok"), json!("only")));
    let candidates = attempts[0]["candidates"].as_array().unwrap();
    assert_eq!(candidates.iter().map(|it| &it["backend"]).collect::<Vec<_>>(), ["a", "b"]);
    for field in ["cost", "in_flight", "foreign", "queued_tokens", "uncached_tokens"] {
        assert!(candidates[0][field].is_number(), "{field} of {}", candidates[0]);
    }
    assert_eq!(
        line["usage"],
        json!({ "prompt_tokens": 1000, "cached_tokens": 400, "completion_tokens": 50, "reasoning_tokens": 7 })
    );
    // 600 × 2 + 400 × 1 + 50 × 4 dollars a million.
    assert!((number(&line["cost_usd"]) - 0.0018).abs() < 1e-9, "{line}");
    let [ttft, upstream, e2e] = ["ttft_ms", "upstream_ttft_ms", "e2e_ms"].map(|field| number(&line[field]));
    assert!(0.0 < upstream && upstream <= ttft && ttft <= e2e, "{line}");
    assert!(number(&line["tpot_ms"]) >= 0.0 && number(&line["overhead_us"]) > 0.0, "{line}");

    assert_eq!(&gateway.get_json("/admin/decisions/my%2Frequest-1").await, line);
    assert_eq!(&gateway.get_json("/admin/decisions").await[0], line);
    let metrics = gateway.metrics().await;
    assert!((metrics.sum("signalbox_cost_usd_total", &[]) - 0.0018).abs() < 1e-9, "{metrics:?}");
    assert!((metrics.sum("signalbox_tokens_total", &[r#"kind="completion""#]) - 50.0).abs() < 1e-9);
}

#[tokio::test]
async fn every_end_has_its_line() {
    let plan = |seen: &Seen| match seen.header("x-plan") {
        Some("cut") => Plan::stream().events(&chat_events(["a"])[..2]).cut(),
        Some("hang") => Plan::silence(),
        Some("400") => Plan::error(400, "not like this"),
        _ => polite(seen),
    };
    let (a, b) = (Mock::start(plan).await, Mock::start(plan).await);
    let gateway = Gateway::start(&policy(&a, &b, JOURNAL)).await;
    let url = gateway.at("/v1/chat/completions");
    let send = |plan: &str, body: &Value| json(http().post(&url), body).header("x-plan", plan);
    answer(send("ok", &chat("auto", "x", false))).await;
    answer(send("400", &chat("auto", "x", false))).await;
    answer(send("cut", &chat("auto", "x", true))).await;
    answer(send("ok", &chat("no-such-model", "x", true))).await;
    answer(http().post(&url).body("{ no json")).await;
    let asking = tokio::spawn(Sse::send(send("hang", &chat("auto", "x", true))));
    until("the last request to arrive", async || a.under_way() + b.under_way() == 1).await;
    asking.abort();
    let lines = journal(&gateway, 6).await;
    let reported: Vec<_> =
        lines.iter().map(|it| (it["status"].as_u64().unwrap(), it["outcome"].as_str().unwrap())).collect();
    let want = [
        (200, "ok"),
        (400, "upstream_refused"),
        (200, "stream_cut"),
        (404, "model_not_found"),
        (400, "bad_json"),
        (0, "client_gone"),
    ];
    assert_eq!(reported, want);
    assert_eq!((&lines[5]["stage"], &lines[5]["attempts"][0]["outcome"]), (&json!("prefill"), &json!("client_gone")));
    for line in &lines {
        assert_eq!(&gateway.get_json(&format!("/admin/decisions/{}", line["id"].as_str().unwrap())).await, line);
    }
    let missing = crate::support::client::get(&gateway.admin("/admin/decisions/none")).await;
    assert!(missing.status == 404 && missing.text().contains("5000"), "{}", missing.text());
}

#[tokio::test]
async fn no_prompt_no_answer_and_no_key_is_written_down() {
    const PROMPT: &str = "zq-prompt-zq";
    const ANSWER: &str = "zq-answer-zq";
    const CALLER: &str = "sk-zq-caller-zq";
    const PROVIDER: &str = "sk-zq-provider-zq";
    let plan = |seen: &Seen| match (seen.header("x-plan"), seen.streams()) {
        (Some("error"), _) => Plan::error(500, ANSWER),
        (Some("garbage"), _) => Plan::text(200, "application/json", "no json"),
        (_, true) => Plan::stream().events(chat_events([ANSWER])).done(),
        (_, false) => Plan::chat(ANSWER),
    };
    let mock = Mock::start(plan).await;
    let hash = blake3::hash(CALLER.as_bytes()).to_hex();
    let policy = format!(
        "keys:\n  - {{ id: web, hash: \"blake3:{hash}\" }}\n\
         pools:\n  main: {{ model: m, backends: [{{ url: \"{}\", key: \"${{PROVIDER}}\" }}] }}\n{JOURNAL}",
        mock.url()
    );
    let gateway = Start::with(&policy).env("PROVIDER", PROVIDER).env("SIGNALBOX_LOG", "debug").start().await;
    let url = gateway.at("/v1/chat/completions");
    for plan in ["ok", "error", "garbage"] {
        for stream in [false, true] {
            let request = json(http().post(&url), &chat("m", PROMPT, stream)).header("x-plan", plan);
            answer(request.bearer_auth(CALLER).header("cookie", "zq-cookie-zq")).await;
        }
    }
    answer(json(http().post(&url), &chat("m", PROMPT, false)).bearer_auth("sk-zq-wrong-zq")).await;
    answer(http().post(&url).bearer_auth(CALLER).body(format!("{{\"messages\": \"{PROMPT}\""))).await;
    let lines = journal(&gateway, 8).await;
    assert!(lines[..6].iter().all(|line| line["key"] == "web") && lines[6]["key"].is_null(), "{lines:?}");
    assert!(mock.seen().iter().all(|seen| seen.header("authorization") == Some(&format!("Bearer {PROVIDER}"))));
    assert!(mock.seen().iter().all(|seen| !seen.headers.iter().any(|(_, value)| value.contains("zq-c"))));
    let mut shown = vec![("journal", std::fs::read_to_string(gateway.dir().join("journal.jsonl")).unwrap())];
    for path in ["/admin/state", "/admin/decisions", "/metrics"] {
        shown.push((path, crate::support::client::get(&gateway.admin(path)).await.text()));
    }
    shown.push(("log", gateway.log()));
    for (place, text) in shown {
        assert!(!text.contains("zq-") && !text.is_empty(), "{place} shows a secret:\n{text}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn the_journal_is_for_its_owner_and_makes_room() {
    use std::os::unix::fs::PermissionsExt;

    let (a, b) = (Mock::start(polite).await, Mock::start(polite).await);
    let rotating = "journal: { path: journal.jsonl, max_size: 4Ki, keep: 2 }\n";
    let mut gateway = Gateway::start(&policy(&a, &b, rotating)).await;
    let url = gateway.at("/v1/chat/completions");
    for _ in 0..12 {
        post(&url, &chat("auto", "x", false)).await;
    }
    let metrics = gateway.metrics().await;
    assert!(
        metrics.sum("signalbox_journal_dropped_total", &[]) + metrics.sum("signalbox_journal_errors_total", &[]) < 0.5
    );
    // At its end everything is written and nothing moves any more.
    gateway.sigterm();
    gateway.wait_exit().await;
    let file = |ending: &str| gateway.dir().join(format!("journal.jsonl{ending}"));
    for ending in ["", ".1", ".2"] {
        let found = std::fs::metadata(file(ending)).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o600, "{ending}");
        assert!(found.len() <= 4096);
        assert!(lines(&file(ending)).iter().all(|line| line["outcome"] == "ok"));
    }
    assert!(!file(".3").exists());
}

#[tokio::test]
async fn the_journal_is_complete_when_the_process_ends() {
    let (a, b) = (Mock::start(polite).await, Mock::start(polite).await);
    let mut gateway = Gateway::start(&policy(&a, &b, JOURNAL)).await;
    for _ in 0..20 {
        post(&gateway.at("/v1/chat/completions"), &chat("auto", "x", true)).await;
    }
    gateway.sigterm();
    gateway.wait_exit().await;
    assert_eq!(lines(&gateway.dir().join("journal.jsonl")).len(), 20);
}

/// Times are true by construction: each gate was shut for at least as long as the test measured.
#[tokio::test]
async fn reported_times_contain_the_time_that_the_engine_took() {
    const TOKENS: usize = 5;
    let plan = |_: &Seen| {
        let [role, first, last, finish] = &chat_events(["one", " two"])[..] else { unreachable!() };
        Plan::stream()
            .event(role)
            .event(&chat_chunk(&json!({ "content": "" }), None))
            .gate(1)
            .event(first)
            .gate(2)
            .event(last)
            .gate(3)
            .event(finish)
            .event(&usage_event(7, TOKENS))
            .done()
    };
    let (a, b) = (Mock::start(plan).await, Mock::start(plan).await);
    let gateway = Gateway::start(&policy(&a, &b, JOURNAL)).await;
    let url = gateway.at("/v1/chat/completions");
    let asking = tokio::spawn(async move { Sse::post(&url, &chat("auto", "x", true)).await });
    a.wait_seen(1).await;
    let sum = async |name: &str| gateway.metrics().await.sum(name, &[]);
    // Time passes while the gate is shut; the role and an empty delta are no token.
    let shut = std::time::Instant::now();
    for _ in 0..5 {
        assert!(
            sum("signalbox_backend_queued_prompt_tokens").await > 0.5 && sum("signalbox_backend_decoding").await < 0.5
        );
        assert!(sum("signalbox_ttft_seconds_count").await < 0.5);
    }
    let prefill = millis_since(shut);
    a.open(1);
    let mut stream = asking.await.unwrap();
    while !stream.data().await.unwrap().contains("one") {}
    let shut = std::time::Instant::now();
    for _ in 0..5 {
        assert!(
            sum("signalbox_backend_decoding").await > 0.5 && sum("signalbox_backend_queued_prompt_tokens").await < 0.5
        );
    }
    let decode = millis_since(shut);
    a.open(2);
    while !stream.data().await.unwrap().contains("two") {}
    let shut = std::time::Instant::now();
    for _ in 0..5 {
        assert!(sum("signalbox_in_flight").await > 0.5);
    }
    let rest = millis_since(shut);
    a.open(3);
    stream.rest().await;

    let line = &journal(&gateway, 1).await[0];
    let [ttft, upstream, tpot, e2e] =
        ["ttft_ms", "upstream_ttft_ms", "tpot_ms", "e2e_ms"].map(|field| number(&line[field]));
    assert!(ttft >= prefill && upstream >= prefill, "{prefill} ms in {line}");
    let decoding = tpot * (TOKENS - 1) as f64;
    assert!(decoding >= decode, "{decode} ms in {line}");
    // What came after the last token belongs to neither.
    assert!(e2e >= upstream + decoding + rest - 1e-6 && e2e >= ttft + decode + rest, "{rest} ms in {line}");
    let metrics = gateway.metrics().await;
    for (name, value) in [("ttft", ttft), ("upstream_ttft", upstream), ("tpot", tpot), ("e2e", e2e)] {
        let sum = metrics.sum(&format!("signalbox_{name}_seconds_sum"), &[]) * 1e3;
        assert!((sum - value).abs() < 1.0 + value * 0.01, "{name}: {sum} and {value}");
    }
}

fn millis_since(start: std::time::Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

#[tokio::test]
async fn facts_for_replay_are_recorded_without_the_prompt() {
    let (a, b) = (Mock::start(polite).await, Mock::start(polite).await);
    let ask = async |gateway: &Gateway, prompt: &str| {
        let mut body = chat("auto", prompt, false);
        body["max_tokens"] = json!(7);
        body["tools"] = json!([{ "type": "function", "function": { "name": "f" } }]);
        answer(json(http().post(gateway.at("/v1/chat/completions")), &body).header("x-signalbox-session", "mine")).await
    };
    let gateway = Gateway::start(&policy(&a, &b, JOURNAL)).await;
    ask(&gateway, "tell me of lighthouses").await;
    let line = &journal(&gateway, 1).await[0];
    let known = &line["particulars"];
    assert_eq!((&line["form"], &known["class"], &known["max_tokens"]), (&json!(2), &json!("interactive"), &json!(7)));
    assert_eq!((&known["tools"], &known["turns"], &known["schema"]), (&json!(1), &json!(1), &json!(false)));
    assert!(known["session"].as_str().is_some_and(|hash| hash.len() == 16), "{known}");
    assert_eq!(
        (&known["complexity"], &known["language"], &known["blocks"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );

    let gateway = Gateway::start(&policy(&a, &b, "journal: { path: journal.jsonl, facts: on }\n")).await;
    let prompt = "Please tell me in a few words why lighthouses have lenses and not mirrors. ".repeat(4);
    ask(&gateway, &format!("{prompt}One.")).await;
    ask(&gateway, &format!("{prompt}Two!")).await;
    let lines = journal(&gateway, 2).await;
    let known = |at: usize| &lines[at]["particulars"];
    assert_eq!(known(0)["language"], "en", "{}", known(0));
    assert!((0.0..=1.0).contains(&number(&known(0)["complexity"]["score"])), "{}", known(0));
    let blocks = |at: usize| known(at)["blocks"].as_str().expect("hashes").to_owned();
    assert!(blocks(0).len() >= 32 && blocks(0)[..32] == blocks(1)[..32], "{} {}", blocks(0), blocks(1));
    let text = std::fs::read_to_string(gateway.dir().join("journal.jsonl")).expect("the journal");
    assert!(!text.contains("lighthouses") && !text.contains("mine"), "{text}");
}
