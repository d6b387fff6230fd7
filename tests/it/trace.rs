//! Recorded arrivals against the real binary over its simulated engines: the clients' counts equal the gateway's.
#![allow(clippy::print_stderr, reason = "the table of latencies is for whoever reads the test's output")]

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use crate::support::{
    gateway::{Gateway, Metrics, Start},
    replay::{Ending, Replayed, arrivals, quantile, replay},
};

/// Number of requests of the trace, speed relative to the recording, and the longest answer.
const REQUESTS: usize = 120;
const SPEED: f64 = 5.0;
const LONGEST: u32 = 120;

/// Half of the load for the three small engines, a quarter each for the large ones and the long one.
const MODELS: [&str; 8] = ["small", "large", "auto", "long", "small", "large", "auto", "long"];

/// Tolerance for the clock and the sketches of the gateway.
const SLACK: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread")]
async fn recorded_traffic_is_answered_and_the_ledger_adds_up() {
    let mut gateway = Start::simulated().start().await;
    let mut reported = replay(&gateway.url(), arrivals(REQUESTS, LONGEST), SPEED, &MODELS).await;
    assert_eq!(reported.len(), REQUESTS);
    let odd: Vec<&Replayed> = reported.iter().filter(|reported| matches!(reported.ending, Ending::Odd(_))).collect();
    assert!(odd.is_empty(), "{} answers ended as none should: {:#?}", odd.len(), odd[0]);

    let quiet = |metrics: &Metrics| metrics.sum("signalbox_in_flight", &[]) < 0.5;
    let metrics = gateway.wait_metrics("the last request to be settled", quiet).await;
    counts_agree(&metrics, &reported);
    // A busy machine may need so long for a first token that the stream is opened before its pool is known.
    for late in reported.iter_mut().filter(|reported| reported.pool.is_empty()) {
        let decision = gateway.decision(&late.id).await;
        late.pool = decision["pool"].as_str().unwrap_or_else(|| panic!("no pool: {decision:#}")).to_owned();
    }
    latencies_agree(&gateway, &metrics, &reported).await;

    gateway.sigterm();
    let status = gateway.wait_exit().await;
    assert!(status.success(), "an idle gateway drains at once, this one: {status}");
}

/// Requests, tokens and load.
fn counts_agree(metrics: &Metrics, reported: &[Replayed]) {
    let done = reported.iter().filter(|reported| reported.ending == Ending::Done);
    same("requests", metrics.sum("signalbox_requests_total", &[]), reported.len() as u64);
    same("answers", metrics.sum("signalbox_requests_total", &[r#"outcome="ok""#]), done.clone().count() as u64);
    let (mut prompt, mut completion) = (0, 0);
    for one in done {
        let (asked, answered) = one.usage.expect("the usage that was asked for");
        assert_eq!(answered, u64::from(one.arrival.output_tokens), "headers reach the engine: {one:?}");
        assert!(asked.abs_diff(one.arrival.prompt_tokens.into()) < 16, "the prompt's length is kept: {one:?}");
        prompt += asked;
        completion += answered;
    }
    same("prompt tokens", metrics.sum("signalbox_tokens_total", &[r#"kind="prompt""#]), prompt);
    same("answered tokens", metrics.sum("signalbox_tokens_total", &[r#"kind="completion""#]), completion);
    for load in ["in_flight", "queued_prompt_tokens", "decoding", "context_tokens"] {
        same(load, metrics.sum(&format!("signalbox_backend_{load}"), &[]), 0);
    }
}

/// TTFT and TPOT, pool by pool.
async fn latencies_agree(gateway: &Gateway, metrics: &Metrics, reported: &[Replayed]) {
    let state = gateway.get_json("/admin/state").await;
    let mut seen: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for one in reported.iter().filter(|reported| reported.ending == Ending::Done) {
        seen.entry(&one.pool).or_default().push(one.ttft.expect("an answer has a first token"));
    }
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), ["large", "long", "small"]);
    eprintln!("pool   answers   TTFT p50 / p90 / p99 (clients' p50)         TPOT p50 / p90 / p99");
    for (pool, times) in &mut seen {
        let label = format!("pool=\"{pool}\"");
        let of = |name: &str| metrics.sum(name, &[&label]);
        same("first tokens", of("signalbox_ttft_seconds_count"), times.len() as u64);
        same("paces", of("signalbox_tpot_seconds_count"), times.len() as u64);
        // What the gateway measures lies within what the client measures, so the sums are in the same order.
        let (ours, theirs) = (of("signalbox_ttft_seconds_sum"), times.iter().sum::<Duration>().as_secs_f64());
        assert!(ours > 0.0 && ours <= theirs, "{pool}: the gateway saw {ours} s of waiting, its clients {theirs} s");

        let here = state["pools"].as_array().and_then(|pools| pools.iter().find(|here| here["name"] == **pool));
        let here = here.expect("every pool is in the state");
        let client = quantile(times, 0.5);
        eprintln!("{pool:6} {:7}   {} ({client:.0?})   {}", times.len(), row(&here["ttft"]), row(&here["tpot"]));
        // The state is about the last minute, a busy machine may need longer.
        if here["ttft"]["count"] == times.len() {
            let (ours, theirs) = (here["ttft"]["p50"].as_f64().expect("a median"), client + client / 20 + SLACK);
            assert!(ours <= theirs.as_secs_f64(), "{pool}: the gateway's median is {ours} s, its clients' {client:?}");
        }
    }
}

fn row(quantiles: &Value) -> String {
    let ms = |name: &str| quantiles[name].as_f64().map_or_else(|| "-".into(), |s| format!("{:.1} ms", s * 1e3));
    format!("{} / {} / {}", ms("p50"), ms("p90"), ms("p99"))
}

/// Compares a sum of whole numbers with a count.
fn same(what: &str, sample: f64, count: u64) {
    assert!((sample - count as f64).abs() < 0.5, "{what}: the gateway counted {sample}, its clients {count}");
}
