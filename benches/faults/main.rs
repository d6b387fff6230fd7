//! Fault harness: a public catalogue of provider faults and series of hundreds of requests, driven through the gateway's binary and its
//! peers from outside. It judges only by what callers and engines see, never by what a proxy reports of itself.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "results go to stdout, progress to stderr")]

mod caller;
mod catalogue;
mod judge;
mod litellm;
#[path = "../../tests/support/mock/mod.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::unwrap_used,
    reason = "the tests' mock, of which a bench uses some"
)]
mod mock;
mod peer;
mod play;
mod provider;
mod report;
mod script;
mod series;
mod signalbox;
mod site;
mod worker;

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Parser;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Semaphore,
    task::JoinSet,
};

use self::{
    peer::{Kind, Means},
    report::Findings,
    series::Series,
    site::Topology,
};

/// Command line of the bench.
#[derive(clap::Parser)]
#[command(name = "faults", about = "Requests while providers fail: a catalogue of faults, and series")]
#[expect(clippy::struct_excessive_bools, reason = "they are switches of a command line")]
struct Args {
    /// Only faults and series whose names contain this, such as `fault 6`, `one URL`, `kill -9`
    #[arg(long, default_value = "")]
    only: String,
    /// Only these proxies
    #[arg(long, value_enum)]
    peer: Vec<Kind>,
    /// Another build of the gateway
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Fewer requests in each series
    #[arg(long)]
    quick: bool,
    /// Writes `benches/results/NAME.md`, and `NAME.json` in the run's folder below `faults` in the target folder
    #[arg(long, value_name = "NAME")]
    save: Option<String>,
    /// Exit with an error if the gateway has a fault that is neither passed nor safe, or a series that does not hold
    #[arg(long)]
    strict: bool,
    /// Lists the names of all faults and series
    #[arg(long)]
    list: bool,
    /// Runs as one of the engines
    #[arg(long, hide = true)]
    engine: bool,
    /// Passed by `cargo bench`; without it (`cargo test --all-targets`) and without a choice the run is a smoke test
    #[arg(long, hide = true)]
    bench: bool,
}

/// Scenes of the catalogue that run at once: they mostly wait.
const SCENES: usize = 24;

/// Bounds the waits of the mock.
async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(Duration::from_secs(30), future).await;
    waited.unwrap_or_else(|_| panic!("timed out waiting for {what}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    if args.engine {
        return Ok(worker::serve().await?);
    }
    let mut terminate = signal(SignalKind::terminate())?;
    // The processes end as they go out of scope.
    tokio::select! {
        ran = run(args) => ran,
        _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        _ = terminate.recv() => Err("terminated".into()),
    }
}

async fn run(mut args: Args) -> Result<(), Box<dyn Error>> {
    let chosen = !args.only.is_empty() || !args.peer.is_empty() || args.binary.is_some() || args.save.is_some();
    if !args.bench && !chosen && !args.list && !args.quick {
        "fault 4 503 always (two URLs)".clone_into(&mut args.only);
        args.peer = vec![Kind::Signalbox];
        args.strict = true;
    }
    rlimit::increase_nofile_limit(u64::MAX)?;
    rustls::crypto::ring::default_provider().install_default().ok();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().ok_or("no target folder")?.to_owned();
    let binary = args.binary.clone().unwrap_or_else(|| env!("CARGO_BIN_EXE_signalbox").into());
    // Runs at the same time must not share policies: the gateway reloads them.
    let dir = target.join("faults").join(std::process::id().to_string());
    let means = Means { binary: fs::canonicalize(binary)?, dir, target };
    let peers = if args.peer.is_empty() { vec![Kind::Signalbox, Kind::Litellm] } else { args.peer.clone() };
    if args.list {
        for scene in catalogue::scenes(peers[0], &args.only, true).await {
            println!("{}", scene.name);
        }
        for series in series::all(peers[0], &args.only, true).await? {
            println!("{}", series.name);
        }
        return Ok(());
    }
    let mut findings = Vec::new();
    for peer in peers {
        match found(peer, &args, &means).await {
            Ok(found) => findings.push(found),
            Err(error) if peer == Kind::Litellm => eprintln!("litellm is left out: {error}"),
            Err(error) => return Err(error.into()),
        }
    }
    let machine = report::machine();
    let text = report::markdown(&machine, &findings);
    println!("{text}");
    if let Some(name) = &args.save {
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/results");
        fs::create_dir_all(&results)?;
        fs::write(results.join(format!("{name}.md")), format!("# Requests while providers fail\n\n{text}"))?;
        let document = report::document(&machine, &findings);
        fs::create_dir_all(&means.dir)?;
        fs::write(means.dir.join(format!("{name}.json")), format!("{document:#}\n"))?;
    }
    let own = findings.iter().filter(|found| found.peer == Kind::Signalbox.name());
    let faulty: usize = own.map(Findings::faulty).sum();
    if args.strict && faulty > 0 {
        return Err(format!("{faulty} faults and series are not as they should be").into());
    }
    Ok(())
}

async fn found(peer: Kind, args: &Args, means: &Means) -> io::Result<Findings> {
    let version = peer.version(&means.binary).await?;
    let (scenes, series) =
        (catalogue::scenes(peer, &args.only, args.quick).await, series::all(peer, &args.only, args.quick).await?);
    eprintln!("{version}: {} scenes, {} series", scenes.len(), series.len());
    let topologies = |all: Vec<&Topology>| all.into_iter().cloned().collect::<Vec<_>>();
    let (of_scenes, of_series) = (
        topologies(scenes.iter().map(|it| &it.topology).collect()),
        topologies(series.iter().map(|it| &it.topology).collect()),
    );
    // Two of them, so that the load of the series does not slow the catalogue.
    let rows = async {
        if of_scenes.is_empty() {
            return Ok(Vec::new());
        }
        let ready = peer.prepare(means, "catalogue", &of_scenes).await?;
        shots(scenes, Arc::new(ready)).await
    };
    let tallies = async {
        if of_series.is_empty() {
            return Ok(Vec::new());
        }
        let ready = peer.prepare(means, "series", &of_series).await?;
        runs(series, Arc::new(ready), peer.most()).await
    };
    let (rows, series) = tokio::try_join!(rows, tallies)?;
    Ok(Findings { peer: peer.name(), version, rows, series })
}

/// Runs scenes concurrently.
async fn shots(scenes: Vec<catalogue::Scene>, peer: Arc<peer::Peer>) -> io::Result<Vec<catalogue::Row>> {
    let room = Arc::new(Semaphore::new(SCENES));
    let mut playing = JoinSet::new();
    for (at, scene) in scenes.into_iter().enumerate() {
        let (room, peer) = (room.clone(), peer.clone());
        playing.spawn(async move {
            let _place = room.acquire_owned().await.map_err(io::Error::other)?;
            let row = catalogue::play(scene, &peer).await?;
            eprintln!(
                "fault {} ({}): {} {:?}",
                row.id,
                row.setup.name(),
                row.judgement.grade.name(),
                row.judgement.why
            );
            Ok::<_, io::Error>((at, row))
        });
    }
    in_order(playing).await
}

/// Runs series concurrently while their load together stays below `most` requests per second.
async fn runs(series: Vec<Series>, peer: Arc<peer::Peer>, most: u32) -> io::Result<Vec<play::Tally>> {
    let room = Arc::new(Semaphore::new(most as usize));
    let mut playing = JoinSet::new();
    for (at, series) in series.into_iter().enumerate() {
        let places = room.clone().acquire_many_owned(series.weight.min(most)).await.map_err(io::Error::other)?;
        let peer = peer.clone();
        playing.spawn(async move {
            let began = Instant::now();
            let tally = play::play(series, &peer).await?;
            let seconds = began.elapsed().as_secs();
            let play::Tally { name, requests, failed, broken, wrong, attempts, .. } = &tally;
            eprintln!("{name}: {failed} failed, {broken} broken, {wrong} wrong of {requests}; {attempts} attempts, {seconds} s");
            drop(places);
            Ok::<_, io::Error>((at, tally))
        });
    }
    in_order(playing).await
}

async fn in_order<T: 'static>(playing: JoinSet<io::Result<(usize, T)>>) -> io::Result<Vec<T>> {
    let mut done = playing.join_all().await.into_iter().collect::<io::Result<Vec<_>>>()?;
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, it)| it).collect())
}
