//! `signalbox bench` through the real binary, against mock engines and a gateway.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{net::TcpListener, process::Command};

use crate::{
    keys::{keys, pool},
    support::{
        gateway::{Gateway, Start},
        mock::{Mock, Plan, chat_events, polite, usage_event},
        prometheus::Prometheus,
        within,
    },
};

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

async fn bench(arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_signalbox"));
    let running = command.arg("bench").args(arguments).env_clear().kill_on_drop(true).output();
    let output = within("`signalbox bench` to end", running).await.expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

async fn reported(url: &str, arguments: &[&str]) -> Value {
    let ran = bench(&[&["--url", url, "--json"], arguments].concat()).await;
    assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{}", ran.out);
    serde_json::from_str(&ran.out).expect("JSON")
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "snapshots/bench", omit_expression => true }, {
        insta::assert_snapshot!(name, text);
    });
}

/// The type of each value: the shape that programs rely on.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
        Value::Number(_) => json!("a number"),
        Value::String(_) => json!("a text"),
        other => other.clone(),
    }
}

fn over(mock: &Mock) -> String {
    pool(mock, "")
}

#[tokio::test]
async fn the_client_and_the_gateway_agree_on_the_same_requests() {
    let slow = || Plan::stream().event(r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#);
    let mock = Mock::start(move |_| {
        let plan = slow().pause(Duration::from_millis(400)).events(chat_events(["Hello", " there"]));
        plan.event(&usage_event(7, 2)).done()
    })
    .await;
    let gateway = Gateway::start(&over(&mock)).await;
    let load = ["--rate", "20", "--requests", "20", "--warmup", "200ms", "--slo-ttft", "200ms", "--model", "auto"];
    let prometheus = Prometheus::scraping(&gateway).await;
    let reported = reported(&gateway.at(""), &load).await;
    let counts = ["requests", "answered", "failed", "unfinished"].map(|name| reported[name].as_u64().expect("a count"));
    assert_eq!(counts, [20, 20, 0, 0], "{reported:#}");
    for what in ["ttft", "e2e"] {
        let compared = &reported["gateway"][what];
        assert_eq!(compared["same_requests"], true, "{compared:#}");
        let warmup = reported["warmup_requests"].as_u64().expect("a count");
        assert_eq!(compared["client"]["count"], 20 + warmup, "the warm-up is among what both have counted");
        let mean = |side: &str| compared[side]["mean_s"].as_f64().expect("a mean");
        let (client, gateway) = (mean("client"), mean("gateway"));
        // Sums are exact: the client sees what the gateway sees, and the way there and back on top.
        assert!(gateway <= client && client < 1.5 * gateway, "{client} here, {gateway} there");
        assert!(gateway > 0.39, "the first token comes no sooner than the engine gives it: {gateway}");
    }
    assert_eq!(reported["slo"]["attainment"], 0.0, "nothing came within 200 ms");
    let metrics = gateway.metrics().await;
    let trial = 1.0;
    let sent = reported["gateway"]["ttft"]["client"]["count"].as_f64().expect("a count") + trial;
    assert!((metrics.sum("signalbox_ttft_seconds_count", &[]) - sent).abs() < 0.5, "one trial request beside them");
    // The page: quantiles within 2 %, of the trial too, which took as long as the others.
    let state = gateway.get_json("/admin/state").await;
    let p50 = state["pools"][0]["ttft"]["p50"].as_f64().unwrap_or_else(|| panic!("no p50 in {:#}", state["pools"][0]));
    let client = reported["ttft_from_sending_s"]["p50"].as_f64().expect("a p50");
    assert!(p50 < 1.05 * client && client < 1.5 * p50, "{p50} on the page, {client} here");
    let Some(prometheus) = prometheus else { return };
    let counted = prometheus.wait("sum(signalbox_ttft_seconds_count)", |count| count > sent - 0.5).await;
    assert!((counted - sent).abs() < 0.5, "{counted} in Prometheus");
    let sum = prometheus.wait("sum(signalbox_ttft_seconds_sum)", |_| true).await;
    assert!((sum - metrics.sum("signalbox_ttft_seconds_sum", &[])).abs() < 1e-6, "the same in Prometheus: {sum}");
}

#[tokio::test]
async fn failures_are_counted_by_kind() {
    let mock = Mock::start(|seen| match seen.number {
        1 => Plan::error(429, "slow down"),
        2 => Plan::stream().events(["{\"error\":{\"message\":\"out of memory\"}}"]).done(),
        3 => Plan::stream().events(&chat_events(["Hel"])[..2]).cut(),
        4 => Plan::close(),
        5 => Plan::stream().events(["{not json"]).done(),
        6 => Plan::stream().event(&usage_event(7, 0)).done(),
        7 => Plan::silence(),
        8 => Plan::text(502, "text/html", "<html>bad gateway"),
        _ => Plan::chat_stream(["Hello", " there"]),
    })
    .await;
    let load = ["--concurrency", "1", "--requests", "10", "--model", "m", "--timeout", "3s", "--slo-tpot", "10s"];
    let reported = reported(&mock.url(), &load).await;
    let failures = reported["failures"].as_object().expect("kinds");
    let kinds: Vec<_> = failures.iter().map(|(kind, seen)| (kind.as_str(), seen["count"].as_u64())).collect();
    let once =
        ["cut", "empty", "error_in_stream", "http_429_rate_limit_error", "http_502", "invalid", "lost", "timeout"];
    assert_eq!(kinds, once.map(|kind| (kind, Some(1))), "{reported:#}");
    assert_eq!(failures["error_in_stream"]["example"], "out of memory");
    assert_eq!(
        (&reported["answered"], &reported["failed"], &reported["loop"]),
        (&json!(2), &json!(8), &json!("closed"))
    );
    let share = reported["slo"]["attainment"].as_f64().expect("a share");
    assert!((share - 0.2).abs() < 1e-9, "who failed kept no limit: {share}");
    assert_eq!(reported["gateway"], Value::Null, "a mere engine has no metrics of ours");
}

#[tokio::test]
async fn a_run_without_answers_or_with_too_many_failures_fails() {
    let mock = Mock::start(|seen| {
        let says = String::from_utf8_lossy(&seen.body).into_owned();
        let fails = says.contains("\"dead\"") || seen.number % 2 == 1;
        if fails { Plan::error(500, "broken") } else { Plan::chat_stream(["Hello", " there"]) }
    })
    .await;
    let url = mock.url();
    let run = async |model: &str, more: &[&str]| {
        let load = ["--url", &url, "--model", model, "--concurrency", "1", "--requests", "6", "--json"];
        bench(&[&load[..], more].concat()).await
    };
    let dead = run("dead", &[]).await;
    assert_eq!((dead.code, &*dead.err), (Some(1), "signalbox: none of 6 requests was answered\n"));
    assert!(dead.out.contains("\"failed\": 6"), "{}", dead.out);
    for (limit, code) in [(&[][..], 0), (&["--max-failed", "60%"], 0), (&["--max-failed", "10%"], 1)] {
        let ran = run("m", limit).await;
        assert_eq!(ran.code, Some(code), "{limit:?}: {}", ran.err);
    }
    let slow = run("m", &["--slo-e2e", "1us"]).await;
    let reported: Value = serde_json::from_str(&slow.out).expect("JSON");
    assert_eq!(reported["slo"]["attainment"], 0.0, "no answer is so fast");
}

#[tokio::test]
async fn the_figures_are_there_as_json() {
    let events = chat_events(["Hello", " there"]);
    let mock = Mock::start(move |_| {
        let plan = Plan::stream().events(&events[..2]).pause(Duration::from_millis(20));
        plan.events(&events[2..]).event(&usage_event(7, 2)).done()
    })
    .await;
    let gateway = Gateway::start(&over(&mock)).await;
    let load = ["--concurrency", "2", "--requests", "6", "--slo-ttft", "1m", "--slo-tpot", "1m"];
    let reported = reported(&gateway.at("/v1/"), &load).await;
    assert_eq!(
        (&reported["model"], &reported["loop"], &reported["simulated"]),
        (&json!("auto"), &json!("closed"), &json!(false))
    );
    assert_eq!((&reported["slo"]["attainment"], &reported["ttft_s"]["count"]), (&json!(1.0), &json!(6)));
    snapshot("json", &format!("{:#}", shape(&reported)));
}

#[tokio::test]
async fn simulated_engines_give_as_many_tokens_as_are_asked_for() {
    let gateway = Start::simulated().start().await;
    let load = ["--concurrency", "4", "--requests", "8", "--prompt-tokens", "100", "--output-tokens", "7"];
    let reported = reported(&gateway.at(""), &load).await;
    assert_eq!((&reported["simulated"], &reported["answer_tokens"]), (&json!(true), &json!(8 * 7)), "{reported:#}");
    let prompts = reported["prompt_tokens"].as_u64().expect("a count");
    assert!((800..1_000).contains(&prompts), "their template adds a few: {prompts}");
    let ran = bench(&[&["--url", &gateway.at("")], &load[..], &["--whole"]].concat()).await;
    for text in ["SIMULATED", "closed loop, 4 at once", "8 answered, 0 failed", "TPOT", "E2E", "Gateway:   mean E2E"] {
        let there = ran.out.contains(text);
        assert_eq!(there, text != "TPOT", "{text}: {}", ran.out);
    }
}

#[tokio::test]
async fn recorded_prompts_share_what_they_shared() {
    let mock = Mock::start(polite).await;
    let dir = tempfile::tempdir().expect("a folder");
    let trace = dir.path().join("trace.jsonl");
    let row = |at: u64, blocks: [u64; 3]| {
        let row = json!({ "timestamp": at, "input_length": 1_200, "output_length": 9, "hash_ids": blocks });
        format!("{row}\n")
    };
    std::fs::write(&trace, row(0, [1, 2, 3]) + &row(4_000, [1, 2, 4])).expect("a trace");
    let trace = trace.display().to_string();
    let reported = reported(
        &mock.url(),
        &["--trace", &trace, "--speed", "40", "--model", "m", "--body", r#"{"ignore_eos": true}"#],
    )
    .await;
    assert_eq!((&reported["requests"], &reported["answered"]), (&json!(2), &json!(2)), "{reported:#}");
    let seen = mock.seen();
    let [one, other] = [1, 2].map(|at| seen[at].json());
    let text = |body: &Value| body["messages"][0]["content"].as_str().expect("a prompt").to_owned();
    let (one_text, other_text) = (text(&one), text(&other));
    assert_eq!((one_text.len(), other_text.len()), (4_800, 4_800));
    assert_eq!(one_text[..4_096], other_text[..4_096], "two blocks of 512 tokens");
    assert_ne!(one_text[4_096..], other_text[4_096..]);
    assert_eq!((&one["max_tokens"], &one["ignore_eos"], &one["stream"]), (&json!(9), &json!(true), &json!(true)));
}

#[tokio::test]
async fn permanent_errors_are_reported_before_the_run() {
    let mock = Mock::start(polite).await;
    let policy = over(&mock).replace("\"claude-*\": { to: main }", "");
    let gateway = Gateway::start(&(policy + &keys(&[("web", "")]))).await;
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let nobody = format!("http://{}", free.local_addr().expect("its address"));
    drop(free);
    let (url, no_api) = (gateway.at(""), gateway.at("/api"));
    let cases: [(&str, &[&str]); 7] = [
        ("wrong_url", &["--url", &nobody, "--model", "auto"]),
        ("wrong_url_without_model", &["--url", &nobody]),
        ("no_api", &["--url", &no_api, "--key", "web", "--model", "auto"]),
        ("no_address", &["--url", "localhost:4100"]),
        ("wrong_key", &["--url", &url, "--key", "other", "--model", "auto"]),
        ("unknown_model", &["--url", &url, "--key", "web", "--model", "autto"]),
        ("no_trace", &["--url", &url, "--key", "web", "--model", "auto", "--trace", "gone.csv"]),
    ];
    for (name, arguments) in cases {
        let load: &[&str] = if arguments.contains(&"--trace") { &[] } else { &["--rate", "1"] };
        let ran = bench(&[arguments, load].concat()).await;
        assert_eq!((ran.code, &*ran.out), (Some(1), ""), "{name}: {}", ran.err);
        snapshot(name, &ran.err.replace(&nobody, "http://NOBODY").replace(&url, "http://GATEWAY"));
    }
    let reported = reported(&url, &["--key", "web", "--concurrency", "1", "--requests", "1"]).await;
    assert_eq!(reported["answered"], 1, "the same with what is right: {reported:#}");
    assert_eq!(reported["gateway"]["ttft"]["same_requests"], true, "the key opens the metrics too: {reported:#}");
}
