//! The queries of the Grafana dashboard on a real Prometheus, with a gateway under load: each returns data.

use std::{fs, time::Duration};

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::keys::{ask, keys};
use crate::support::{
    gateway::Start,
    mock::{Mock, Plan, Seen, chat_events, polite},
    package_dir,
    prometheus::Prometheus,
};

const GPUS: &str =
    "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 90\nDCGM_FI_DEV_FB_USED{gpu=\"0\"} 6\nDCGM_FI_DEV_FB_FREE{gpu=\"0\"} 2\n";
/// Most rounds of load, each of about a third of a second at least.
const ROUNDS: usize = 200;

/// An answer of five tokens with a gap, of which engines report a cached prompt.
fn answer(seen: &Seen) -> Plan {
    let usage = json!({ "prompt_tokens": 900, "completion_tokens": 5, "total_tokens": 905, "prompt_tokens_details": { "cached_tokens": 300 } });
    let events = chat_events(["one ", "two ", "three ", "four ", "five"]);
    let last = json!({ "id": "x", "object": "chat.completion.chunk", "choices": [], "usage": usage });
    if !seen.streams() {
        let mut whole = polite(seen);
        if seen.path.ends_with("/chat/completions") {
            let message =
                json!({ "index": 0, "message": { "role": "assistant", "content": "one" }, "finish_reason": "stop" });
            whole = Plan::json(
                200,
                &json!({ "id": "x", "object": "chat.completion", "choices": [message], "usage": usage }),
            );
        }
        return whole.after(Duration::from_millis(20));
    }
    let (head, rest) = events.split_at(3);
    Plan::stream().events(head).pause(Duration::from_millis(180)).events(rest).event(&last.to_string()).done()
}

/// An engine that fails now and then, before the first token or after it.
fn flaky(seen: &Seen) -> Plan {
    match seen.number % 4 {
        1 => Plan::error(500, "now and then"),
        3 if seen.streams() => Plan::stream().events(&chat_events(["one ", "two "])[..3]).cut(),
        _ => answer(seen),
    }
}

fn gauges(round: usize) -> String {
    let drafts = 100 * round;
    format!(
        "vllm:num_requests_running 1\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.2\nvllm:spec_decode_num_drafts_total {drafts}\n\
         vllm:spec_decode_num_draft_tokens_total {}\nvllm:spec_decode_num_accepted_tokens_total {}\n",
        3 * drafts,
        2 * drafts
    )
}

/// Rules of `examples/observability`, as one file.
fn rules() -> String {
    let read = |file: &str| {
        fs::read_to_string(package_dir().join("examples/observability/rules").join(file)).expect("the rules")
    };
    let objectives = read("objectives.yml");
    let (_, groups) = objectives.split_once("groups:\n").expect("groups");
    read("recording.yml") + "\n" + groups
}

/// Title and query of everything that the dashboard shows.
fn queries() -> Vec<(String, String)> {
    let path = package_dir().join("examples/observability/grafana/dashboards/signalbox.json");
    let board: Value = serde_json::from_str(&fs::read_to_string(path).expect("a dashboard")).expect("JSON");
    let panels = board["panels"].as_array().expect("panels").iter();
    let each = |panel: &Value| -> Vec<(String, String)> {
        let title = panel["title"].as_str().unwrap_or_default().to_owned();
        let targets = panel["targets"].as_array().into_iter().flatten();
        let query = |target: &Value| {
            target["expr"].as_str().expect("a query").replace("$__rate_interval", "30s").replace("$pool", ".*")
        };
        targets.map(|target| (title.clone(), query(target))).collect()
    };
    panels.flat_map(each).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_query_of_the_dashboard_returns_data() {
    let (steady, failing, small) = (Mock::start(answer).await, Mock::start(flaky).await, Mock::start(answer).await);
    let exporter = Mock::start(polite).await;
    exporter.set_metrics(GPUS);
    let policy = format!(
        "{}engines:\n  steady: {{ url: \"{}\", gpu_hour: 2, dcgm: \"http://{}\", scrape: 200ms }}\n  failing: {{ url: \"{}\", scrape: 200ms }}\n  \
         small: {{ url: \"{}\", max_concurrency: 1 }}\n\
         pools:\n  main:\n    model: m\n    balance: round_robin\n    price: {{ input: 1, output: 2 }}\n    objectives: [{{ ttft: {{ p95: 1s }} }}, {{ availability: 99% }}]\n    \
           backends: [{{ engine: steady }}, {{ engine: failing }}]\n  tight: {{ model: m, backends: [{{ engine: small }}] }}\n\
         models: {{ auto: {{ to: main }}, tight: {{ to: tight }} }}\n\
         cache: {{ exact: {{ scope: shared }}, semantic: {{ scope: shared }} }}\nlimits: {{ queue: {{ wait: 0s }} }}\n",
        keys(&[("web", ""), ("batch", "")]),
        steady.url(),
        exporter.addr(),
        failing.url(),
        small.url()
    );
    let gateway = Start::with(&policy).start().await;
    let Some(prometheus) = Prometheus::with_rules(&gateway, &rules()).await else { return };
    let rule = |number| format!("Rule {number}: mind the gap between platform {number} and the train. ");
    let rules = (0..40).map(rule).collect::<Vec<_>>().concat();
    let chat = |model: &str, system: &str, text: &str, stream: bool| {
        json!({ "model": model, "stream": stream, "temperature": 0, "stream_options": stream.then(|| json!({ "include_usage": true })),
            "messages": [{ "role": "system", "content": system }, { "role": "user", "content": text }] })
    };
    let mut missing = queries();
    assert!(missing.len() > 50, "{missing:?}");
    for round in 1..=ROUNDS {
        for engine in [&steady, &failing] {
            engine.set_metrics(gauges(round));
        }
        let bodies = (0..10).map(|number| match number {
            0 => chat("nowhere", "", "hi", false),
            1 | 2 => chat("auto", &rules, "Which signal shows that the line is clear?", false),
            3..=5 => chat("tight", &rules, &format!("Count the {number} of round {round}."), true),
            _ => chat(
                "auto",
                &format!("It is second {number} of minute {round}. {rules}"),
                &format!("Tell {number} of {round}."),
                number % 2 == 0,
            ),
        });
        let bodies: Vec<_> = bodies.collect();
        join_all(bodies.iter().map(|body| ask(&gateway, "web", body, &[]))).await;
        let mut left = Vec::new();
        for (title, query) in missing {
            if prometheus.values(&query).await.is_empty() {
                left.push((title, query));
            }
        }
        missing = left;
        if missing.is_empty() {
            return;
        }
    }
    panic!("no data after {ROUNDS} rounds: {missing:#?}");
}
