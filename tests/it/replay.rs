//! `signalbox replay`: a policy is priced from the journal of another, and then run on the same traffic for comparison.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use serde_json::{Value, json};
use signalbox::sim::{Profile, Running, start};

use crate::support::{
    cli::{Ran, run},
    journal_replay::{compare, replay, traffic},
};

/// Engines with constants that only this test uses.
async fn engine(profile: Profile) -> Running {
    start(profile, "sim", SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.expect("an engine")
}

/// A policy over a small and a large pool, in which prompts of more than `long` tokens go to the large one.
fn policy(engines: &[Running], long: u64) -> String {
    let [one, two, big] = engines else { panic!("three engines") };
    format!(
        "engines:\n  one: {{ url: \"{}/v1\" }}\n  two: {{ url: \"{}/v1\" }}\n  big: {{ url: \"{}/v1\" }}\n\
         pools:\n  small: {{ model: sim, price: {{ input: 0.2, cached_input: 0.1, output: 0.6 }}, backends: [{{ engine: one }}, {{ engine: two }}] }}\n\
         \x20 large: {{ model: sim, price: {{ input: 2, cached_input: 1, output: 8 }}, backends: [{{ engine: big }}] }}\n\
         models:\n  auto:\n    routes:\n      - {{ name: long, when: \"prompt.tokens > {long}\", to: large }}\n      - {{ name: short, to: small }}\n\
         journal: {{ path: journal.jsonl }}\n",
        one.url(),
        two.url(),
        big.url()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_forecasts_the_cost_of_another_policy() {
    let small =
        Profile { step_ms: 9.0, sequence_ms: 0.5, prompt_ms: 11.0, prefill_ms: 0.13, jitter: 0.12, ..Profile::small() };
    let large = Profile {
        step_ms: 17.0,
        sequence_ms: 0.9,
        prompt_ms: 21.0,
        prefill_ms: 0.31,
        jitter: 0.08,
        ..Profile::large()
    };
    let engines = [engine(small).await, engine(Profile { step_ms: 12.0, ..small }).await, engine(large).await];
    let compared = compare(&policy(&engines, 250), &policy(&engines, 700), &traffic(160, 16.0, 1200, 11), "2").await;
    let (small, large) = (compared.share_off("small"), compared.share_off("large"));
    assert!(small <= 2.0 && large <= 2.0, "shares are off by {small} and {large} points: {compared:?}");
    assert!(compared.off("/cost_usd") <= 0.05, "the cost: {:?}", compared.both("/cost_usd"));
    // How fast engines are changes with what else the machine does, so that times are held against the journal they were learned from.
    let first = |it: &Value| it["ttft_s"]["p50"].as_f64().or(it["ttft_s"]["p50"]["mean"].as_f64()).expect("a TTFT");
    let ratio = first(&compared.priced["policies"][0]["figures"]) / first(&compared.priced["happened"]);
    assert!((0.4..2.5).contains(&ratio), "as played and as it was: {ratio}");
    let (was, new) = (&compared.priced["policies"][0]["figures"], &compared.priced["policies"][1]["figures"]);
    let share = |figures: &Value| figures["shares"]["large"]["mean"].as_f64().expect("a share");
    assert!(share(was) > share(new) + 0.1, "the change is a change: {was} {new}");
    assert_eq!(compared.priced["policies"][1]["not_known"], json!({}), "{}", compared.priced["policies"][1]);
}

fn ran(dir: &Path, arguments: &[&str]) -> Ran {
    run(dir, ["replay"].iter().chain(arguments).copied())
}

/// A line of a journal: an answer of `backend` to a prompt of `prompt` tokens, `ms` after the first.
fn line(ms: u64, backend: &str, prompt: u64, more: &Value) -> String {
    let usage =
        json!({ "prompt_tokens": prompt, "cached_tokens": 0, "completion_tokens": 20, "reasoning_tokens": null });
    let ttft = 20.0 + 0.2 * prompt as f64;
    let mut line = json!({
        "form": 2, "id": "x", "time_ms": 1_700_000_000_000_u64 + ms, "endpoint": "chat", "stream": true, "model": "auto",
        "prompt_bytes": prompt * 4, "explained": { "prompt_tokens": [prompt / 2, prompt, prompt * 2] },
        "particulars": { "class": "interactive", "tools": 0, "turns": 1 },
        "admission": { "pool": "p", "result": "admitted", "queued": false, "waited_ms": 0.0 },
        "attempts": [{
            "pool": "p", "backend": backend, "ttft_ms": ttft, "usage": usage, "outcome": "ok",
            "predicted": { "prompt_tokens": prompt, "cached_tokens": 0 },
        }],
        "answered": 0, "status": 200, "outcome": "ok", "usage": usage, "ttft_ms": ttft, "tpot_ms": 10.0, "e2e_ms": ttft + 190.0,
    });
    line.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    format!("{line}\n")
}

/// A folder with a journal of two backends, and a few policies.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("a file");
    let lines = |from: u64| {
        (from..from + 60).map(|at| line(at * 300, ["a", "b"][at as usize % 2], 100 + at * 17 % 900, &json!({})))
    };
    let early: String = lines(0).collect();
    let late: String = lines(60).collect();
    put("journal.jsonl.1", &early);
    let kept = json!({ "attempts": [], "answered": null, "usage": null, "reused": { "result": "hit-exact", "reason": "", "pool": "p" } });
    let refused = json!({ "explained": null, "attempts": [], "answered": null, "usage": null, "status": 400, "outcome": "bad_json" });
    let more = line(36_000, "a", 100, &kept) + &line(36_100, "a", 100, &refused);
    put("journal.jsonl", &format!("{late}{more}{{\"time_ms\": 17, \"end"));
    let policy = |engines: &str, backends: &str, rules: &str| {
        format!(
            "engines: {{ {engines} }}\npools: {{ p: {{ model: m, backends: [{backends}] }} }}\nmodels: {{ auto: {{ routes: [{rules}] }} }}\n"
        )
    };
    let (a, b) = ("a: { url: \"http://h1/v1\" }", "b: { url: \"http://h2/v1\" }");
    let both = format!("{a}, {b}");
    put("both.yaml", &policy(&both, "{ engine: a }, { engine: b }", "{ name: all, to: p }"));
    put("one.yaml", &policy(a, "{ engine: a }", "{ name: all, to: p }"));
    let other = format!("{a}, c: {{ url: \"http://h3/v1\" }}");
    put("other.yaml", &policy(&other, "{ engine: a }, { engine: c }", "{ name: all, to: p }"));
    put("c.yaml", "engines: { c: small }\n");
    let gold = "{ name: gold, when: 'headers[\"x-tier\"] == \"gold\"', to: p }, { name: hard, when: prompt.complexity > 0.5, to: p }, { name: all, to: p }";
    put("asks.yaml", &policy(&both, "{ engine: a }, { engine: b }", gold));
    dir
}

#[test]
fn a_journal_is_read_with_its_rotated_files_and_past_damage() {
    let dir = folder();
    let reported = replay(
        dir.path(),
        &["--journal", "journal.jsonl", "--policy", "one.yaml", "--was", "both.yaml", "--seeds", "2"],
    );
    let journal = &reported["journal"];
    assert_eq!(
        (&journal["requests"], &journal["damaged"], &journal["lines"]),
        (&json!(121), &json!(1), &json!(122)),
        "{journal}"
    );
    assert_eq!(journal["files"], json!(["journal.jsonl", "journal.jsonl.1"]));
    assert!(journal["first_damage"].as_str().is_some_and(|text| text.contains("journal.jsonl, line 63")), "{journal}");
    assert_eq!(reported["happened"]["shares"], json!({ "p": 1.0 }));
    let engines = reported["policies"][0]["engines"].as_array().expect("engines");
    for engine in engines {
        let bias = |kind: &str| engine[kind]["bias"].as_f64().expect("a number").abs();
        assert!(bias("ttft_error") < 0.1 && bias("tpot_error") < 0.1, "{engine}");
        assert_eq!(engine["from"], "journal");
    }
    let caveats = reported["caveats"].to_string();
    assert!(caveats.contains("the 1 requests that were cache hits"), "{caveats}");
}

#[test]
fn the_report_names_its_limitations() {
    let dir = folder();
    let reported = ran(
        dir.path(),
        &["--journal", "journal.jsonl", "--policy", "one.yaml", "--was", "both.yaml", "--plot", "out.html"],
    );
    assert_eq!((reported.code, &*reported.err), (Some(0), ""));
    for text in [
        "121 requests in 36s",
        "1 damaged lines were skipped",
        "happened   was, as played",
        "TTFT p50, ms",
        "as played and as it was",
    ] {
        assert!(reported.out.contains(text), "{text} in {}", reported.out);
    }
    let page = std::fs::read_to_string(dir.path().join("out.html")).expect("a page");
    assert!(page.contains("<svg") && page.contains("as played and as it was"), "{}", &page[..300]);
    let asks = ran(dir.path(), &["--journal", "journal.jsonl", "--policy", "asks.yaml", "--anyway", "--seeds", "1"]);
    assert!(asks.out.contains("used `headers[\"x-tier\"]` 121 times"), "{}", asks.out);
    assert!(asks.out.contains("used `prompt.complexity` 121 times"), "{}", asks.out);
}

#[test]
fn policies_that_cannot_be_priced_are_refused_with_a_help() {
    let dir = folder();
    let refused = |arguments: &[&str], parts: &[&str]| {
        let reported = ran(dir.path(), &[&["--journal", "journal.jsonl"], arguments].concat());
        assert_eq!(reported.code, Some(1), "{}", reported.out);
        let plain = reported.err.replace('\n', " ").split_whitespace().collect::<Vec<_>>().join(" ").replace("│ ", "");
        for part in parts {
            assert!(plain.contains(part), "{part} in {plain}");
        }
    };
    refused(
        &["--policy", "other.yaml"],
        &["the profile of the engine `c` is unknown", "has no answer of it", "--engines FILE"],
    );
    refused(
        &["--policy", "asks.yaml"],
        &["the rule `gold` uses `headers", "the rule `hard` uses `prompt.complexity`", "facts: on", "--anyway"],
    );
    let reported = ran(
        dir.path(),
        &["--journal", "journal.jsonl", "--policy", "other.yaml", "--engines", "c.yaml", "--seeds", "1"],
    );
    assert_eq!(reported.code, Some(0), "{}", reported.err);
    let none = ran(dir.path(), &["--journal", "both.yaml", "--policy", "one.yaml"]);
    assert!(none.code == Some(1) && none.err.contains("this is no journal"), "{}", none.err);
}
