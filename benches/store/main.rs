//! Speed of the cache's log on disk: writing, reading back, compaction.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench reports on stdout and panics on errors")]

#[path = "../overhead/machine.rs"]
mod machine;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use signalbox::store::{Limits, Log, Record};

/// Command-line arguments.
#[derive(clap::Parser)]
#[command(name = "store", about = "Bench of the cache's log on disk")]
struct Args {
    /// Smoke test with few records
    #[arg(long)]
    quick: bool,
    /// Number of records
    #[arg(long, default_value_t = 100_000)]
    records: u64,
    /// Bytes per record
    #[arg(long, default_value_t = 2048)]
    bytes: usize,
    /// Passed by `cargo bench`; without it (`cargo test --all-targets`) the run is a quick one
    #[arg(long, hide = true)]
    bench: bool,
}

const LIMITS: Limits = Limits { bytes: 1 << 32, age: Duration::from_hours(24), queue: 1 << 30 };

fn main() {
    let mut args = Args::parse();
    if args.quick || !args.bench {
        args.records = 1000;
    }
    println!("{}\n", machine::line(&machine::read()));
    let folder = tempfile::tempdir().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let mut dice = fastrand::Rng::with_seed(1);
    let payload: bytes::Bytes = (0..args.bytes).map(|_| dice.u8(..)).collect::<Vec<u8>>().into();
    let key = |number: u64| *blake3::hash(&number.to_le_bytes()).as_bytes();
    let record = |number| Record {
        kind: 1,
        key: key(number),
        scope: [0; 32],
        written: now,
        expires: now + 86_400_000,
        payload: payload.clone(),
    };
    let records: Vec<Record> = (0..args.records).map(record).collect();

    println!(
        "{} records of {} bytes\n\n| step | took | records/s | MB/s |\n|---|---:|---:|---:|",
        args.records, args.bytes
    );
    let row = |step: &str, started: Instant| {
        let took = started.elapsed();
        let rate = args.records as f64 / took.as_secs_f64();
        println!("| {step} | {took:.1?} | {rate:.0} | {:.0} |", rate * args.bytes as f64 / 1e6);
    };
    let (log, _) = Log::open(folder.path(), LIMITS).unwrap();
    let started = Instant::now();
    for record in records {
        assert!(log.put(record));
    }
    row("put into the queue", started);
    assert!(log.flush());
    row("… and on the disk", started);
    log.close();

    let started = Instant::now();
    let (log, recovery) = Log::open(folder.path(), LIMITS).unwrap();
    row("open", started);
    let mut count = 0;
    let mut first = true;
    for piece in recovery {
        if std::mem::take(&mut first) {
            row("… the file is read, the first piece is there", started);
        }
        count += piece.len() as u64;
    }
    assert_eq!(count, args.records);
    row("… all records are there", started);

    let started = Instant::now();
    for number in (0..args.records).filter(|number| number % 5 < 3) {
        log.remove(1, key(number));
        // More deletions than the queue holds would become a deletion of everything.
        if number % 5000 == 0 {
            assert!(log.flush());
        }
    }
    while log.figures().compactions == 0 {
        assert!(log.flush());
    }
    row("three in five deleted, the file compacted", started);
    log.close();
}
