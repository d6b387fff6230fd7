//! Faults under load: a full outage, stalling engines, a policy that changes every second, and a shutdown. Counts attempts per request,
//! hedges and complete answers.

use std::{
    error::Error,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, timeout},
};

use crate::{
    engine::{Behaviour, Engine, start},
    gateway::Gateway,
    read,
};

/// Duration and rate of each part.
#[derive(Copy, Clone)]
pub(crate) struct Load {
    pub(crate) seconds: u64,
    /// Requests per second.
    pub(crate) rate: u64,
}

/// Words per answer, and their interval.
const WORDS: u64 = 40;
const PACE: Duration = Duration::from_millis(20);
/// Stalling engines leave every n-th request unanswered.
const NTH: usize = 100;
/// Time limit of a client for an answer.
const CLIENT_TIMEOUT: Duration = Duration::from_mins(1);

/// Runs all parts, one after the other.
pub(crate) async fn storm(client: &reqwest::Client, args: Load) -> Result<(), Box<dyn Error>> {
    println!(
        "| | requests | whole answers | attempts for each | hedges, share of requests | slowest, s |\n|---|---:|---:|---:|---:|---:|"
    );
    for (name, behaviour, price) in [
        ("a full outage", Behaviour::Down, ""),
        ("nothing wrong", Behaviour::Pace(PACE), ""),
        ("one request in a hundred gets no answer", Behaviour::Stalls(PACE, NTH), ""),
        ("the same, where tokens have a price", Behaviour::Stalls(PACE, NTH), "price: { input: 1, output: 2 }, "),
    ] {
        let engines = [start(behaviour).await?, start(behaviour).await?];
        let gateway = Gateway::start(&pools("m", price, &engines), client.clone()).await?;
        let outcomes = load(client, &gateway, args, |_| Ok(())).await?;
        let attempts: usize = engines.iter().map(|engine| engine.requests.load(Relaxed)).sum();
        let hedges = gateway.count("signalbox_further_attempts_total", "why=\"hedge\"").await;
        let requests = outcomes.len() as f64;
        println!(
            "| {name} | {requests} | {} | {:.3} | {:.2} % | {:.2} |",
            outcomes.iter().filter(|outcome| outcome.whole).count(),
            attempts as f64 / requests,
            100.0 * hedges.max(0.0) / requests,
            outcomes.iter().map(|outcome| outcome.took.as_secs_f64()).fold(0.0, f64::max)
        );
    }
    changes(client, args).await
}

/// Rewrites the policy every second, then shuts down with answers under way.
async fn changes(client: &reqwest::Client, args: Load) -> Result<(), Box<dyn Error>> {
    let engines = [start(Behaviour::Pace(PACE)).await?, start(Behaviour::Pace(PACE)).await?];
    let mut gateway = Gateway::start(&pools("m", "", &engines), client.clone()).await?;
    let other = |second: u64| gateway.rewrite(&pools(["m", "n"][second as usize % 2], "", &engines));
    let outcomes = load(client, &gateway, args, other).await?;
    let reloads = gateway.count("signalbox_config_reloads_total", "").await;
    let lost = outcomes.iter().filter(|outcome| !outcome.whole).count();
    println!("\n{reloads} reloads under {} requests: {lost} failed", outcomes.len());
    let mut asking = JoinSet::new();
    let url: Arc<str> = gateway.url.as_str().into();
    let before: usize = engines.iter().map(|engine| engine.requests.load(Relaxed)).sum();
    for _ in 0..args.rate {
        let (client, url) = (client.clone(), url.clone());
        asking.spawn(async move { ask(&client, &url).await });
    }
    let seen = || engines.iter().map(|engine| engine.requests.load(Relaxed)).sum::<usize>();
    let started = timeout(CLIENT_TIMEOUT, async {
        while seen() < before + args.rate as usize {
            tokio::task::yield_now().await;
        }
    });
    started.await.map_err(|_| "the last requests did not reach the engines")?;
    let well = tokio::task::spawn_blocking(move || gateway.terminate()).await??;
    let outcomes = asking.join_all().await;
    let cut = outcomes.iter().filter(|outcome| !outcome.whole).count();
    let exit = if well { "success" } else { "failure" };
    println!("SIGTERM with {} answers under way: {cut} cut, exit status: {exit}", outcomes.len());
    Ok(())
}

fn pools(name: &str, price: &str, engines: &[Engine]) -> String {
    let urls: Vec<_> = engines.iter().map(|engine| format!("\"http://{}/v1\"", engine.address)).collect();
    format!("{{ {name}: {{ model: m, {price}backends: [{}] }} }}", urls.join(", "))
}

/// Outcome of one request.
struct Outcome {
    whole: bool,
    took: Duration,
}

/// Sends requests at the given rate, and calls `every` once per second.
async fn load(
    client: &reqwest::Client,
    gateway: &Gateway,
    args: Load,
    every: impl Fn(u64) -> std::io::Result<()>,
) -> Result<Vec<Outcome>, Box<dyn Error>> {
    let url: Arc<str> = gateway.url.as_str().into();
    let mut pace = interval(Duration::from_secs(1) / args.rate as u32);
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut asking = JoinSet::new();
    for number in 0..args.rate * args.seconds {
        pace.tick().await;
        if number % args.rate == 0 {
            every(number / args.rate + 1)?;
        }
        let (client, url) = (client.clone(), url.clone());
        asking.spawn(async move { ask(&client, &url).await });
    }
    Ok(asking.join_all().await)
}

async fn ask(client: &reqwest::Client, url: &str) -> Outcome {
    let began = Instant::now();
    let whole = timeout(CLIENT_TIMEOUT, read(client, url, WORDS)).await.is_ok_and(|read| read.unwrap_or(false));
    Outcome { whole, took: began.elapsed() }
}
