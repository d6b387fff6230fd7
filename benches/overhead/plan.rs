//! The scenarios, measured in short blocks, one target after the other, round after round.

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
    targets::Target,
};

/// Warm-up requests per connection before its block is timed.
const WARM_UP: usize = 5;

/// A kind of request and its concurrency.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Bytes of the prompt.
    prompt: usize,
    pub(crate) concurrency: usize,
    /// Duration of a block.
    block: Duration,
    pub(crate) rounds: usize,
}

/// Blocks of a scenario, by target and round.
pub(crate) struct Measured {
    pub(crate) scenario: Scenario,
    pub(crate) targets: Vec<(&'static str, Vec<Block>)>,
}

/// Results of one target in one round.
pub(crate) struct Block {
    pub(crate) samples: Vec<Sample>,
    /// Requests without a complete answer.
    pub(crate) failed: usize,
    /// Requests per second.
    pub(crate) rate: f64,
    /// Processor time of the process per request.
    pub(crate) cpu: Option<Duration>,
}

/// Returns all scenarios. A quick run has short blocks and few rounds.
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

/// Measures a scenario. Each round takes every target once, in alternating order, so that neither drift nor position favours one.
pub(crate) async fn measure(scenario: Scenario, targets: &[Target], progress: &ProgressBar) -> io::Result<Measured> {
    let request: Arc<[u8]> = request(scenario.kind.model(), scenario.kind.streams(), scenario.prompt).into();
    let mut blocks: Vec<(&'static str, Vec<Block>)> = targets.iter().map(|target| (target.name, Vec::new())).collect();
    for round in 0..scenario.rounds {
        for turn in 0..targets.len() {
            let at = if round % 2 == 0 { turn } else { targets.len() - 1 - turn };
            let taken = block(&scenario, &targets[at], &request).await;
            let taken =
                taken.map_err(|error| io::Error::other(format!("{}, {}: {error}", scenario.name, targets[at].name)));
            blocks[at].1.push(taken?);
        }
        progress.inc(1);
    }
    Ok(Measured { scenario, targets: blocks })
}

async fn block(scenario: &Scenario, target: &Target, request: &Arc<[u8]>) -> io::Result<Block> {
    let address = target.address(scenario.kind);
    let (length, streams) = (scenario.block, scenario.concurrency);
    let warm = Arc::new(Barrier::new(streams + 1));
    let mut clients = JoinSet::new();
    for _ in 0..streams {
        let (request, warm, warm_up) =
            (request.clone(), warm.clone(), if streams == 1 { 4 * WARM_UP } else { WARM_UP });
        // Paced answers need only a warm connection.
        let warm_up = if scenario.kind == Kind::Paced { 1 } else { warm_up };
        clients.spawn(async move {
            let mut kept = None;
            for _ in 0..warm_up {
                once(&mut kept, address, &request).await.ok();
            }
            warm.wait().await;
            let (started, mut done) = (Instant::now(), (Vec::with_capacity(4096), 0));
            while started.elapsed() < length {
                match once(&mut kept, address, &request).await {
                    Ok(sample) => done.0.push(sample),
                    Err(_) => done.1 += 1,
                }
            }
            done
        });
    }
    warm.wait().await;
    let (started, cpu) = (Instant::now(), target.cpu());
    let (mut samples, mut failed) = (Vec::new(), 0);
    while let Some(client) = clients.join_next().await {
        let (mut seen, missed) = client.map_err(io::Error::other)?;
        samples.append(&mut seen);
        failed += missed;
    }
    if samples.is_empty() {
        return Err(io::Error::other(format!("none of {failed} requests was answered")));
    }
    let seconds = started.elapsed().as_secs_f64();
    let count = samples.len() as f64;
    let used = target.cpu().zip(cpu).map(|(after, before)| after.saturating_sub(before).div_f64(count));
    Ok(Block { samples, failed, rate: count / seconds, cpu: used })
}

/// Makes one exchange over the kept connection, or a new one. A failed connection is dropped.
async fn once(kept: &mut Option<Connection>, address: SocketAddr, request: &[u8]) -> io::Result<Sample> {
    let mut connection = match kept.take() {
        Some(connection) => connection,
        None => Connection::open(address).await?,
    };
    let sample = connection.exchange(request).await?;
    *kept = Some(connection);
    Ok(sample)
}
