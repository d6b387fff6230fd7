//! The scenarios, and how they are measured: in short blocks, one way after the other, round after round.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use indicatif::ProgressBar;
use tokio::{sync::Barrier, task::JoinSet};

use crate::{
    client::{Connection, Sample, request},
    engine::Kind,
    paths::Way,
};

/// Requests that each connection makes before its block is timed.
const WARM_UP: usize = 5;

/// What is asked, and how often at once.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Bytes of the prompt.
    prompt: usize,
    pub(crate) concurrency: usize,
    /// How long a block takes.
    block: Duration,
    pub(crate) rounds: usize,
}

/// A scenario's blocks, by way and round.
pub(crate) struct Measured {
    pub(crate) scenario: Scenario,
    pub(crate) ways: Vec<(&'static str, Vec<Block>)>,
}

/// What one way did in one round.
pub(crate) struct Block {
    pub(crate) samples: Vec<Sample>,
    /// Requests without a whole answer.
    pub(crate) failed: usize,
    /// Requests per second.
    pub(crate) rate: f64,
    /// Processor time of the process in between, for each request.
    pub(crate) cpu: Option<Duration>,
}

/// All scenarios. A quick run has short blocks and few.
pub(crate) fn scenarios(quick: bool, rounds: Option<usize>) -> Vec<Scenario> {
    let rounds = rounds.unwrap_or(if quick { 2 } else { 8 }).max(1);
    let scenario = |name, kind, prompt, concurrency| Scenario {
        name,
        kind,
        prompt,
        concurrency,
        block: Duration::from_millis(match (kind, quick) {
            (Kind::Paced, false) => 1500,
            (_, false) => 400,
            (Kind::Paced, true) => 200,
            (_, true) => 60,
        }),
        rounds,
    };
    vec![
        scenario("whole, 1 kB", Kind::Plain, 1 << 10, 1),
        scenario("whole, 32 kB", Kind::Plain, 32 << 10, 1),
        scenario("whole, 256 kB", Kind::Plain, 256 << 10, 1),
        scenario("stream, 64 tokens at once", Kind::Burst, 1 << 10, 1),
        scenario("stream, 20 ms + 5 ms a token", Kind::Paced, 1 << 10, 1),
        scenario("whole, 16 at once", Kind::Plain, 1 << 10, 16),
        scenario("whole, 64 at once", Kind::Plain, 1 << 10, 64),
        scenario("stream, 16 at once", Kind::Burst, 1 << 10, 16),
        scenario("stream, 64 at once", Kind::Burst, 1 << 10, 64),
        scenario("stream, 20 ms + 5 ms a token, 64 at once", Kind::Paced, 1 << 10, 64),
    ]
}

/// Measures a scenario. Each round takes every way once, in turned order, so that neither drift nor place favours one.
pub(crate) async fn measure(scenario: Scenario, ways: &[Way], progress: &ProgressBar) -> io::Result<Measured> {
    let request: Arc<[u8]> = request(scenario.kind.model(), scenario.kind.streams(), scenario.prompt).into();
    let mut blocks: Vec<(&'static str, Vec<Block>)> = ways.iter().map(|way| (way.name, Vec::new())).collect();
    for round in 0..scenario.rounds {
        for turn in 0..ways.len() {
            let at = if round % 2 == 0 { turn } else { ways.len() - 1 - turn };
            let taken = block(&scenario, &ways[at], &request).await;
            let taken =
                taken.map_err(|error| io::Error::other(format!("{}, {}: {error}", scenario.name, ways[at].name)));
            blocks[at].1.push(taken?);
        }
        progress.inc(1);
    }
    Ok(Measured { scenario, ways: blocks })
}

async fn block(scenario: &Scenario, way: &Way, request: &Arc<[u8]>) -> io::Result<Block> {
    let address = way.address(scenario.kind);
    let (length, streams) = (scenario.block, scenario.concurrency);
    let warm = Arc::new(Barrier::new(streams + 1));
    let mut clients = JoinSet::new();
    for _ in 0..streams {
        let (request, warm, warm_up) =
            (request.clone(), warm.clone(), if streams == 1 { 4 * WARM_UP } else { WARM_UP });
        // Slow answers need no warm-up but for their connection.
        let warm_up = if scenario.kind == Kind::Paced { 1 } else { warm_up };
        clients.spawn(async move {
            let mut kept = None;
            for _ in 0..warm_up {
                once(&mut kept, address, &request).await.ok();
            }
            warm.wait().await;
            let (begun, mut done) = (Instant::now(), (Vec::with_capacity(4096), 0));
            while begun.elapsed() < length {
                match once(&mut kept, address, &request).await {
                    Ok(sample) => done.0.push(sample),
                    Err(_) => done.1 += 1,
                }
            }
            done
        });
    }
    warm.wait().await;
    let (begun, cpu) = (Instant::now(), way.cpu());
    let (mut samples, mut failed) = (Vec::new(), 0);
    while let Some(client) = clients.join_next().await {
        let (mut seen, missed) = client.map_err(io::Error::other)?;
        samples.append(&mut seen);
        failed += missed;
    }
    if samples.is_empty() {
        return Err(io::Error::other(format!("none of {failed} requests was answered")));
    }
    let seconds = begun.elapsed().as_secs_f64();
    let count = samples.len() as f64;
    let used = way.cpu().zip(cpu).map(|(after, before)| after.saturating_sub(before).div_f64(count));
    Ok(Block { samples, failed, rate: count / seconds, cpu: used })
}

/// One exchange, over the kept connection where there is one. A connection that failed is not kept.
async fn once(kept: &mut Option<Connection>, address: SocketAddr, request: &[u8]) -> io::Result<Sample> {
    let mut connection = match kept.take() {
        Some(connection) => connection,
        None => Connection::open(address).await?,
    };
    let sample = connection.exchange(request).await?;
    *kept = Some(connection);
    Ok(sample)
}
