//! Soak test: many slow streams for minutes, then clients that leave; reports memory, descriptors and counters. With `--storm`: outages,
//! stalls, reloads and shutdown under load.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench reports on stdout, and its progress on stderr")]

mod engine;
mod gateway;
mod storm;

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use clap::Parser;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use self::{
    engine::Behaviour,
    gateway::Gateway,
    storm::{Load, storm},
};

/// Command-line arguments.
#[derive(clap::Parser)]
#[command(name = "soak", about = "Many slow streams for minutes, then clients that leave; or faults under load")]
struct Args {
    /// Duration of the streams
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Concurrent streams
    #[arg(long, default_value_t = 1_000)]
    streams: usize,
    /// Clients that leave during an answer afterwards
    #[arg(long, default_value_t = 10_000)]
    leave: usize,
    /// Instead: an outage, stalls, reloads and a shutdown at this many requests per second
    #[arg(long, value_name = "RATE", num_args = 0..=1, default_missing_value = "100")]
    storm: Option<u64>,
    /// Passed by `cargo bench`; without it (`cargo test --all-targets`) it is a smoke test
    #[arg(long, hide = true)]
    bench: bool,
}

/// Concurrent clients that leave.
const LEAVING: usize = 200;

/// Counts of streams by outcome.
#[derive(Default)]
struct Tally {
    whole: AtomicU64,
    failed: AtomicU64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = Args::parse();
    if !args.bench {
        args = Args { minutes: 0.1, streams: 20, leave: 100, storm: args.storm, bench: false };
    }
    rlimit::increase_nofile_limit(u64::MAX)?;
    rustls::crypto::ring::default_provider().install_default().ok();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?;
    if let Some(rate) = args.storm {
        return storm(&client, Load { seconds: (60.0 * args.minutes.min(1.0)) as u64, rate }).await;
    }
    let engine = engine::start(Behaviour::Pace(Duration::from_secs(1))).await?;
    let pools = format!("{{ m: {{ model: m, backends: [\"http://{}/v1\"] }} }}", engine.address);
    let gateway = Gateway::start(&pools, client.clone()).await?;
    let tally = Arc::new(Tally::default());
    let until = Instant::now() + Duration::from_secs_f64(60.0 * args.minutes);
    let mut streams = JoinSet::new();
    for number in 0..args.streams {
        let (client, url, tally) = (client.clone(), gateway.url.clone(), tally.clone());
        streams.spawn(async move {
            // Staggered starts.
            sleep(Duration::from_millis((number * 7 % 1_000) as u64)).await;
            while Instant::now() < until {
                let tokens = fastrand::u64(30..90).min(1 + until.saturating_duration_since(Instant::now()).as_secs());
                match read(&client, &url, tokens).await {
                    Ok(true) => tally.whole.fetch_add(1, Relaxed),
                    Ok(false) | Err(_) => tally.failed.fetch_add(1, Relaxed),
                };
            }
        });
    }
    println!("| minute | resident, MB | descriptors | whole answers | failed |\n|---:|---:|---:|---:|---:|");
    let began = Instant::now();
    let mut samples: Vec<(f64, f64)> = Vec::new();
    while Instant::now() < until {
        sleep(Duration::from_secs(10).min(until.saturating_duration_since(Instant::now()))).await;
        let (minute, resident) = (began.elapsed().as_secs_f64() / 60.0, gateway.resident());
        samples.push((minute, resident));
        if minute.fract() < 10.0 / 60.0 || args.minutes < 1.0 {
            println!(
                "| {minute:.1} | {resident:.1} | {} | {} | {} |",
                gateway.descriptors(),
                tally.whole.load(Relaxed),
                tally.failed.load(Relaxed)
            );
        }
    }
    while streams.join_next().await.is_some() {}
    let near = |wanted: f64| samples.iter().min_by(|a, b| (a.0 - wanted).abs().total_cmp(&(b.0 - wanted).abs()));
    if let (Some((early, at_two)), Some((late, at_end))) = (near(2.0), samples.last()) {
        println!("\nminute {late:.1} to minute {early:.1}: {:.3} × the memory", at_end / at_two);
    }
    println!("{} whole answers, {} failed", tally.whole.load(Relaxed), tally.failed.load(Relaxed));
    leave(&client, &gateway, args.leave).await;
    let (left, connections) = gateway.settle(&engine).await;
    println!(
        "\n{} clients left: {left} of the gateway's counters are not 0, and {connections} connections to the engine are open; {:.1} MB, {} descriptors",
        args.leave,
        gateway.resident(),
        gateway.descriptors()
    );
    Ok(())
}

/// Reads one stream; true if it had all tokens and ended with `[DONE]`.
async fn read(client: &reqwest::Client, url: &str, tokens: u64) -> Result<bool, reqwest::Error> {
    let mut response = client.post(url).body(body(tokens)).send().await?;
    let (mut seen, mut done) = (0, false);
    while let Some(chunk) = response.chunk().await? {
        let text = String::from_utf8_lossy(&chunk);
        seen += text.matches("\"content\"").count() as u64;
        done |= text.contains("[DONE]");
    }
    Ok(seen == tokens && done)
}

/// Clients that leave: a third before anything came, a third with the head, the others with some of the answer.
async fn leave(client: &reqwest::Client, gateway: &Gateway, count: usize) {
    let mut leaving = JoinSet::new();
    for number in 0..count {
        if leaving.len() == LEAVING {
            leaving.join_next().await;
        }
        let (client, url) = (client.clone(), gateway.url.clone());
        leaving.spawn(async move {
            let request = client.post(url).body(body(1_000)).send();
            let limit = Duration::from_millis(if number % 3 == 0 { fastrand::u64(0..5) } else { 30_000 });
            let Ok(Ok(mut response)) = tokio::time::timeout(limit, request).await else { return };
            if number % 3 == 2 {
                response.chunk().await.ok();
            }
        });
    }
    while leaving.join_next().await.is_some() {}
}

fn body(tokens: u64) -> String {
    format!(r#"{{"model":"m","stream":true,"max_tokens":{tokens},"messages":[{{"role":"user","content":"Count."}}]}}"#)
}
