//! A gateway in bad times: a full outage, engines that stall, a policy that changes every second, and its own end under load. What it asks of
//! engines beyond what clients ask of it, and what becomes of the answers.

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
    engine::{Engine, Manner, start},
    house::House,
    read,
};

/// How long each part takes, and how hard it is.
#[derive(Copy, Clone)]
pub(crate) struct Load {
    pub(crate) seconds: u64,
    /// Requests per second.
    pub(crate) rate: u64,
}

/// Words of an answer, and how fast they come.
const WORDS: u64 = 40;
const PACE: Duration = Duration::from_millis(20);
/// Of the engines that stall, each so many-th request.
const NTH: usize = 100;
/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// All of it, one after the other.
pub(crate) async fn storm(client: &reqwest::Client, args: Load) -> Result<(), Box<dyn Error>> {
    println!(
        "| | requests | whole answers | attempts for each | hedges, share of requests | slowest, s |\n|---|---:|---:|---:|---:|---:|"
    );
    for (what, manner, price) in [
        ("a full outage", Manner::Down, ""),
        ("nothing wrong", Manner::Pace(PACE), ""),
        ("one request in a hundred gets no answer", Manner::Stalls(PACE, NTH), ""),
        ("the same, where tokens have a price", Manner::Stalls(PACE, NTH), "price: { input: 1, output: 2 }, "),
    ] {
        let engines = [start(manner).await?, start(manner).await?];
        let house = House::start(&pools("m", price, &engines), client.clone()).await?;
        let heard = load(client, &house, args, |_| Ok(())).await?;
        let attempts: usize = engines.iter().map(|engine| engine.asked.load(Relaxed)).sum();
        let hedges = house.count("signalbox_further_attempts_total", "why=\"hedge\"").await;
        let requests = heard.len() as f64;
        println!(
            "| {what} | {requests} | {} | {:.3} | {:.2} % | {:.2} |",
            heard.iter().filter(|heard| heard.whole).count(),
            attempts as f64 / requests,
            100.0 * hedges.max(0.0) / requests,
            heard.iter().map(|heard| heard.took.as_secs_f64()).fold(0.0, f64::max)
        );
    }
    changes(client, args).await
}

/// A policy that is written anew every second, and then the end, with answers under way.
async fn changes(client: &reqwest::Client, args: Load) -> Result<(), Box<dyn Error>> {
    let engines = [start(Manner::Pace(PACE)).await?, start(Manner::Pace(PACE)).await?];
    let mut house = House::start(&pools("m", "", &engines), client.clone()).await?;
    let other = |second: u64| house.rewrite(&pools(["m", "n"][second as usize % 2], "", &engines));
    let heard = load(client, &house, args, other).await?;
    let reloads = house.count("signalbox_config_reloads_total", "").await;
    let lost = heard.iter().filter(|heard| !heard.whole).count();
    println!("\n{reloads} reloads under {} requests: {lost} failed", heard.len());
    let mut asking = JoinSet::new();
    let url: Arc<str> = house.url.as_str().into();
    let before: usize = engines.iter().map(|engine| engine.asked.load(Relaxed)).sum();
    for _ in 0..args.rate {
        let (client, url) = (client.clone(), url.clone());
        asking.spawn(async move { ask(&client, &url).await });
    }
    let seen = || engines.iter().map(|engine| engine.asked.load(Relaxed)).sum::<usize>();
    let begun = timeout(PATIENCE, async {
        while seen() < before + args.rate as usize {
            tokio::task::yield_now().await;
        }
    });
    begun.await.map_err(|_| "the last requests did not come through")?;
    let well = tokio::task::spawn_blocking(move || house.terminate()).await??;
    let heard = asking.join_all().await;
    let cut = heard.iter().filter(|heard| !heard.whole).count();
    let said = if well { "well" } else { "badly" };
    println!("SIGTERM with {} answers under way: {cut} cut, it ended {said}", heard.len());
    Ok(())
}

fn pools(name: &str, price: &str, engines: &[Engine]) -> String {
    let urls: Vec<_> = engines.iter().map(|engine| format!("\"http://{}/v1\"", engine.address)).collect();
    format!("{{ {name}: {{ model: m, {price}backends: [{}] }} }}", urls.join(", "))
}

/// What became of one request.
struct Heard {
    whole: bool,
    took: Duration,
}

/// So many requests a second for so long, and `every` second something else.
async fn load(
    client: &reqwest::Client,
    house: &House,
    args: Load,
    every: impl Fn(u64) -> std::io::Result<()>,
) -> Result<Vec<Heard>, Box<dyn Error>> {
    let url: Arc<str> = house.url.as_str().into();
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

async fn ask(client: &reqwest::Client, url: &str) -> Heard {
    let began = Instant::now();
    let whole = timeout(PATIENCE, read(client, url, WORDS)).await.is_ok_and(|read| read.unwrap_or(false));
    Heard { whole, took: began.elapsed() }
}
