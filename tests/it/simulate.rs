//! `signalbox simulate` through the real binary.

use std::{fmt::Write as _, io::Write as _, path::Path};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use crate::support::cli::{self, Ran};

/// Runs `signalbox simulate` inside `dir`, so that paths print the same everywhere.
fn simulate(dir: &Path, arguments: &[&str]) -> Ran {
    cli::run(dir, ["simulate"].iter().chain(arguments).copied())
}

/// A folder with two policies over two engines, `cost` and `turns`, and other files.
fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for balance in ["cost: least_cost", "turns: round_robin"] {
        let (name, balance) = balance.split_once(": ").expect("a name");
        let policy = format!(
            "engines: {{ e1: {{ url: \"http://h1/v1\" }}, e2: {{ url: \"http://h2/v1\" }} }}\n\
             pools: {{ main: {{ model: m, balance: {balance}, backends: [{{ engine: e1 }}, {{ engine: e2 }}] }} }}\n"
        );
        std::fs::write(dir.path().join(format!("{name}.yaml")), policy).expect("a file");
    }
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).expect("a file");
    }
    dir
}

/// Azure's format: a request every 400 ms, every fifth one long.
fn azure(count: usize) -> String {
    let mut text = "TIMESTAMP,ContextTokens,GeneratedTokens\n".to_owned();
    for at in 0..count {
        let (seconds, tenths) = (at * 4 / 10, at * 4 % 10);
        let tokens = if at % 5 == 0 { 6_000 } else { 300 + at % 7 * 50 };
        let answer = 20 + at % 3 * 10;
        let (minutes, seconds) = (seconds / 60, seconds % 60);
        writeln!(text, "2024-05-10 00:{minutes:02}:{seconds:02}.{tenths},{tokens},{answer}").expect("a line");
    }
    text
}

/// Mooncake's format: four blocks shared by all, and two of its own.
fn mooncake(count: usize) -> String {
    let line = |at: usize| {
        let blocks = [1, 2, 3, 4, 100 + at * 2, 101 + at * 2];
        let row = json!({ "timestamp": at * 500, "input_length": 3_000, "output_length": 20, "hash_ids": blocks });
        format!("{row}\n")
    };
    (0..count).map(line).collect()
}

/// A journal, in the order of the requests' ends; the last one has no usage.
fn journal(count: u64) -> String {
    let line = |at: u64| {
        let usage =
            json!({ "prompt_tokens": 500, "cached_tokens": null, "completion_tokens": 20, "reasoning_tokens": null });
        let usage = if at == 0 { Value::Null } else { usage };
        let row = json!({ "id": "x", "time_ms": 1_700_000_000_000_u64 + at * 500, "stream": at.is_multiple_of(2), "usage": usage });
        format!("{row}\n")
    };
    (0..count).rev().map(line).collect()
}

fn zipped(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).expect("bytes in memory");
    encoder.finish().expect("bytes in memory")
}

const BOTH: [&str; 4] = ["--policy", "cost.yaml", "--policy", "turns.yaml"];

fn run(dir: &Path, more: &[&str]) -> Ran {
    let ran = simulate(dir, &[&BOTH, more].concat());
    assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{more:?}");
    ran
}

fn json(dir: &Path, more: &[&str]) -> Value {
    serde_json::from_str(&run(dir, &[more, &["--json"]].concat()).out).expect("JSON")
}

/// The text without the last column, which has decision times of this machine.
fn timeless(text: &str) -> String {
    let line = |line: &str| {
        let policy = line.starts_with(" cost ") || line.starts_with(" turns ");
        match line.rsplit_once("   ") {
            Some((rest, _)) if policy && line.split_whitespace().count() > 9 => {
                format!("{}   (time)\n", rest.trim_end())
            }
            _ => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({ prepend_module_to_snapshot => false, snapshot_path => "snapshots/simulate", omit_expression => true }, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
fn one_rate_is_printed_as_a_table() {
    let dir = folder(&[("trace.csv", azure(150).as_bytes())]);
    let arguments = ["--trace", "trace.csv", "--seeds", "3"];
    let ran = run(dir.path(), &arguments);
    snapshot("one_rate", &timeless(&ran.out));
    assert_eq!(timeless(&ran.out), timeless(&run(dir.path(), &arguments).out), "the same seeds, the same figures");
}

#[test]
fn a_range_of_rates_ends_in_goodput_and_a_drawing() {
    let dir = folder(&[("trace.csv", azure(80).as_bytes())]);
    let arguments = ["--trace", "trace.csv", "--seeds", "2", "--rate", "0.5..4", "--plot", "out.svg"];
    snapshot("a_range", &timeless(&run(dir.path(), &arguments).out));
    let svg = std::fs::read_to_string(dir.path().join("out.svg")).expect("a drawing");
    for text in ["<svg ", "TTFT p99 (s)", "share of requests (%)", "rate (× recorded load)", "cost", "turns", "</svg>"]
    {
        assert!(svg.contains(text), "no {text} in {svg}");
    }
    assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn one_rate_is_drawn_as_a_spread() {
    let dir = folder(&[("trace.csv", azure(60).as_bytes())]);
    std::fs::copy(dir.path().join("cost.yaml"), dir.path().join("a<b&c.yaml")).expect("a copy");
    let more = ["--policy", "a<b&c.yaml", "--trace", "trace.csv", "--seeds", "1", "--plot", "out.svg"];
    run(dir.path(), &more);
    let svg = std::fs::read_to_string(dir.path().join("out.svg")).expect("a drawing");
    for text in ["TTFT (s)", "requests answered by then (%)", "a&lt;b&amp;c"] {
        assert!(svg.contains(text), "no {text} in {svg}");
    }
}

#[test]
fn every_format_is_read_zipped_or_not() {
    let (azure, mooncake, journal) = (azure(20), mooncake(20), journal(21));
    for (format, text) in [("azure", &azure), ("mooncake", &mooncake), ("journal", &journal)] {
        let dir = folder(&[("plain", text.as_bytes()), ("packed.gz", &zipped(text))]);
        let mut reported = json(dir.path(), &["--trace", "plain", "--seeds", "1"]);
        let trace = reported["trace"].clone();
        assert_eq!((&trace["format"], &trace["requests"]), (&json!(format), &json!(20)), "{format}");
        assert_eq!(trace["skipped"], json!(u32::from(format == "journal")), "{format}");
        let mut packed = json(dir.path(), &["--trace", "packed.gz", "--trace-format", format, "--seeds", "1"]);
        for reported in [&mut reported, &mut packed] {
            reported["trace"]["file"] = Value::Null;
            for policy in reported["policies"].as_array_mut().expect("a list") {
                policy["rates"][0]["decision_us"] = Value::Null;
            }
        }
        assert_eq!(reported, packed, "{format}");
        let cost = &reported["policies"][0];
        let cached = cost["rates"][0]["cached"].as_f64().expect("a share");
        assert_eq!(cached > 0.3, format == "mooncake", "{format}: {cached}");
        let block = if format == "mooncake" { 512 } else { 16 };
        assert_eq!(cost["engines"][0]["profile"]["block_tokens"], block, "{format}");
    }
}

#[test]
fn the_figures_are_there_as_json() {
    let dir = folder(&[]);
    let reported = json(dir.path(), &["--trace", "excerpt", "--seeds", "2", "--limit", "30s", "--rate", "0.5..1"]);
    assert_eq!(reported["trace"]["made_up"], true);
    let policies = reported["policies"].as_array().expect("a list");
    assert_eq!(policies.iter().map(|policy| &policy["name"]).collect::<Vec<_>>(), ["cost", "turns"]);
    for policy in policies {
        assert!(policy["goodput"]["rate"]["mean"].is_number(), "{policy}");
        let rates = policy["rates"].as_array().expect("a list");
        assert_eq!((rates.len(), &rates[0]["rate"], &rates[6]["rate"]), (7, &json!(0.5), &json!(1.0)));
        for rate in rates {
            assert!(rate["attainment"]["reach_95"].is_number() && rate["ttft_s"]["p99"].is_number(), "{rate}");
            let shares: f64 = rate["shares"].as_object().expect("shares").values().filter_map(Value::as_f64).sum();
            assert!((shares - 1.0).abs() < 1e-9, "{rate}");
        }
    }
}

#[test]
fn synthetic_traffic_is_marked() {
    let dir = folder(&[]);
    let ran = run(dir.path(), &["--trace", "excerpt", "--seeds", "1", "--limit", "10s"]);
    assert!(ran.out.starts_with("Traffic:  MADE-UP arrivals"), "{}", ran.out);
}

#[test]
fn the_example_runs_and_its_events_happen() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/simulate");
    let arguments = ["--trace", "excerpt", "--seeds", "1", "--limit", "5m", "--json"];
    let policies = ["--policy", "four.yaml", "--policy", "four-in-turn.yaml"];
    let reported = |more: &[&str]| -> Value {
        let ran = simulate(&examples, &[&arguments[..], &policies, more].concat());
        assert_eq!((ran.code, &*ran.err), (Some(0), ""));
        serde_json::from_str(&ran.out).expect("JSON")
    };
    let (without, with) = (reported(&[]), reported(&["--engines", "engines.yaml"]));
    let share = |reported: &Value, policy: usize| {
        reported["policies"][policy]["rates"][0]["shares"]["e2"].as_f64().expect("a share")
    };
    assert!(share(&with, 1) < share(&without, 1) - 0.02, "a dead engine answers less: {with}");
    assert_eq!(with["policies"][0]["engines"][3]["profile"]["prefill_ms"], 0.2);
}

#[test]
fn peak_ewma_goes_by_the_latencies_it_sees() {
    let dir = folder(&[
        ("trace.csv", azure(300).as_bytes()),
        ("engines.yaml", b"engines: { e2: { step_ms: 60, prefill_ms: 1 } }\n"),
    ]);
    let turns = std::fs::read_to_string(dir.path().join("turns.yaml")).expect("a policy");
    std::fs::write(dir.path().join("cost.yaml"), turns.replace("round_robin", "peak_ewma")).expect("a file");
    let reported = json(dir.path(), &["--trace", "trace.csv", "--engines", "engines.yaml", "--seeds", "2"]);
    let slow = |policy: usize| reported["policies"][policy]["rates"][0]["shares"]["e2"].as_f64().expect("a share");
    assert!(slow(0) < 0.3 && slow(1) > 0.45, "{reported}");
}

#[test]
fn limits_are_those_of_the_command_line_or_of_the_pool() {
    let objectives = "pools: { main: { model: m, objectives: [{ ttft: { p95: 1h } }, { tpot: { p95: 1h } }], backends: [http://h/v1] } }";
    let dir = folder(&[("easy.yaml", objectives.as_bytes()), ("trace.csv", azure(30).as_bytes())]);
    let attainment = |more: &[&str]| {
        let reported =
            json(dir.path(), &[&["--policy", "easy.yaml", "--trace", "trace.csv", "--seeds", "1"], more].concat());
        reported["policies"][2]["rates"][0]["attainment"]["mean"].as_f64().expect("a share")
    };
    assert!((attainment(&["--rate", "5"]) - 1.0).abs() < 1e-9);
    assert!(attainment(&["--rate", "5", "--slo-ttft", "1ms"]) < 1e-9);
}

#[test]
fn both_orders_under_overload_are_priced_side_by_side() {
    let pool = |overload: &str| {
        let objectives = "[{ ttft: { p95: 3s } }, { tpot: { p95: 10s } }]";
        let backends = "[http://h1/v1, http://h2/v1]";
        format!("pools: {{ main: {{ model: m, objectives: {objectives}{overload}, backends: {backends} }} }}\n")
    };
    let trace = azure(400);
    let dir = folder(&[
        ("usual.yaml", pool("").as_bytes()),
        ("tail.yaml", pool(", overload: tail").as_bytes()),
        ("trace.csv", trace.as_bytes()),
    ]);
    let more =
        ["--policy", "usual.yaml", "--policy", "tail.yaml", "--trace", "trace.csv", "--rate", "1.6", "--seeds", "2"];
    let reported = json(dir.path(), &more);
    let rate = |policy: usize| &reported["policies"][policy]["rates"][0];
    assert_eq!(rate(0)["overload"], json!({}), "without an objective they are the same: {reported}");
    let [usual, tail] = [2, 3].map(rate);
    assert_eq!(usual["overload"], tail["overload"], "both of both: {reported}");
    for (policy, own) in [(usual, "attainment"), (tail, "tail")] {
        assert_eq!(policy["overload"][own]["attainment"], policy["attainment"], "{reported}");
        assert_eq!(policy["overload"][own]["ttft_p99_over_limit"], policy["ttft_p99_over_limit"], "{reported}");
    }
    let figure = |own: &str, name: &str| usual["overload"][own][name].as_f64().expect("a figure");
    let within = |own: &str| usual["overload"][own]["attainment"]["mean"].as_f64().expect("a share");
    assert!(within("attainment") > within("tail") + 0.05, "{reported}");
    assert!(figure("tail", "ttft_p99_s") < 0.9 * figure("attainment", "ttft_p99_s"), "{reported}");
    let text = run(dir.path(), &more).out;
    assert!(text.contains("attainment (as is)") && text.contains("tail (as is)"), "{text}");
}

#[test]
fn traces_that_cannot_be_played_are_refused_with_a_help() {
    let long = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00,10,10\n2024-05-10 00:00:01,40000,10\n";
    let files: [(&str, &[u8]); 10] = [
        ("good.csv", b"2024-05-10 00:00:00,10,10\n"),
        ("long.csv", long.as_bytes()),
        ("broken.csv", b"2024-05-10 00:00:00,10,10\n2024-05-10 00:00:00,10,x\n"),
        ("head.csv", b"TIMESTAMP,ContextTokens,GeneratedTokens\n"),
        ("empty", b"\n\n"),
        ("other", b"hello\n"),
        ("cut.gz", &[0x1F, 0x8B, 8, 0]),
        ("unused.jsonl", b"{\"time_ms\": 1, \"usage\": null}\n"),
        ("none.yaml", b"{}"),
        ("engines.yaml", b"engines:\n  e1: smal\n  e7: large\nevents:\n  - { at: 5, engine: e1, die: true }\n"),
    ];
    let dir = folder(&files);
    let cases: [(&str, &[&str]); 12] = [
        ("no_trace", &["--trace", "gone.csv", "--policy", "cost.yaml"]),
        ("no_policy", &["--trace", "good.csv", "--policy", "gone.yaml"]),
        ("no_pools", &["--trace", "good.csv", "--policy", "none.yaml"]),
        ("no_model", &["--trace", "good.csv", "--policy", "cost.yaml", "--model", "autto"]),
        ("empty", &["--trace", "empty", "--policy", "cost.yaml"]),
        ("only_a_head", &["--trace", "head.csv", "--policy", "cost.yaml"]),
        ("unknown_format", &["--trace", "other", "--policy", "cost.yaml"]),
        ("broken_row", &["--trace", "broken.csv", "--policy", "cost.yaml"]),
        ("broken_gzip", &["--trace", "cut.gz", "--policy", "cost.yaml"]),
        ("no_usage", &["--trace", "unused.jsonl", "--policy", "cost.yaml"]),
        ("too_long", &["--trace", "long.csv", "--policy", "cost.yaml"]),
        ("engines", &["--trace", "good.csv", "--policy", "cost.yaml", "--engines", "engines.yaml"]),
    ];
    for (name, arguments) in cases {
        let ran = simulate(dir.path(), arguments);
        assert_eq!((ran.code, &*ran.out), (Some(1), ""), "{name}: {}", ran.err);
        assert!(ran.err.contains("help: "), "{name} has no mend:\n{}", ran.err);
        snapshot(name, &ran.err);
    }
    let ran = simulate(dir.path(), &["--trace", "good.csv", "--policy", "cost.yaml", "--plot", "gone/out.svg"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("gone/out.svg cannot be written"), "{}", ran.err);
}
