//! Traffic of the scenarios: recorded traces and synthetic ones, all drawn by seed.

use std::{fs::File, io::BufReader, path::PathBuf, sync::Arc, time::Duration};

use flate2::read::GzDecoder;
use signalbox::sim::{
    Job,
    replay::hash,
    trace::{self, Arrival},
    traffic::Request,
};

/// Tokens per block of the engines' prefix caches, as in Mooncake's traces.
pub(crate) const BLOCK: u32 = 512;

/// Folder of the traces: in `SIGNALBOX_DATA`, or beside the project.
fn data() -> PathBuf {
    std::env::var_os("SIGNALBOX_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from).join("traces")
}

/// Reads a recorded trace. `None` if it is missing.
pub(crate) fn recorded(file: &str) -> Option<Vec<Arrival>> {
    let reader = BufReader::new(GzDecoder::new(File::open(data().join(file)).ok()?));
    let rows: Result<Vec<_>, _> =
        if file.contains("azure") { trace::azure(reader).collect() } else { trace::mooncake(reader).collect() };
    rows.ok()
}

/// Builds a request. The part of the prompt without block hashes is shared with no other request.
fn request(at: f64, prompt_tokens: u32, output_tokens: u32, blocks: Arc<[u64]>) -> Request {
    Request {
        at: Duration::from_secs_f64(at),
        job: Job { prompt_tokens, blocks, output_tokens: output_tokens.max(1), ..Job::default() },
        ..Request::default()
    }
}

/// Conversations of four turns on average: one of 12 system prompts (Zipf, 1000 to 7000 tokens), a document (median 3000
/// tokens), then questions (120) and answers (250) that grow the context, with 30 s between turns. `per_second` counts
/// requests. The first conversations start 200 s early, so that all turns occur from the beginning.
pub(crate) fn conversations(per_second: f64, seconds: f64, seed: u64) -> Vec<Request> {
    const TURNS: f64 = 4.0;
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut requests = Vec::new();
    let mut begin = -200.0;
    let mut session = 0;
    while begin < seconds {
        begin += exponential(&mut dice, TURNS / per_second);
        session += 1;
        let system = zipf(&mut dice, 12, 1.0);
        let system_blocks = 2 + system % 5 * 3;
        let mut context = (system_blocks * u64::from(BLOCK)) as f64 + log_normal(&mut dice, 3_000.0, 1.2);
        let mut at = begin;
        loop {
            context += log_normal(&mut dice, 120.0, 1.0);
            let output = log_normal(&mut dice, 250.0, 0.8).clamp(4.0, 2_000.0);
            if context > 100_000.0 {
                break;
            }
            let blocks = (0..context as u64 / u64::from(BLOCK)).map(|block| {
                if block < system_blocks {
                    hash(system, block)
                } else {
                    hash(1_000_000 + seed * 100_000 + session, block)
                }
            });
            if (0.0..seconds).contains(&at) {
                let asked = request(at, context as u32, output as u32, blocks.collect());
                requests.push(Request { session: Some(session), ..asked });
            }
            context += output;
            at += output * 0.02 + exponential(&mut dice, 30.0);
            if dice.f64() < 1.0 / TURNS {
                break;
            }
        }
    }
    requests.sort_by_key(|request| request.at);
    requests
}

/// Prompts of one of 40 prefixes (8000 to 16 000 tokens; Zipf 1.3, the first has a third of all) and 400 tokens of their own,
/// answers of 120: the first prefix is requested more often than one engine can serve.
pub(crate) fn hot_prefixes(per_second: f64, seconds: f64, seed: u64) -> Vec<Request> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut at = 0.0;
    let mut requests = Vec::new();
    loop {
        at += exponential(&mut dice, 1.0 / per_second);
        if at > seconds {
            return requests;
        }
        let prefix = zipf(&mut dice, 40, 1.3);
        let blocks = 16 + prefix % 3 * 8;
        let own = log_normal(&mut dice, 400.0, 0.8).clamp(16.0, 8_000.0);
        let output = log_normal(&mut dice, 120.0, 0.8).clamp(4.0, 1_000.0);
        let tokens = blocks as u32 * BLOCK + own as u32;
        requests.push(request(at, tokens, output as u32, (0..blocks).map(|block| hash(prefix, block)).collect()));
    }
}

/// Bursts of siblings (an agent that fans out): 12 to 20 within 200 ms, all sharing a prefix of 3000 to 16 000 tokens that
/// is new, with 200 tokens of their own and answers of 150; four single prompts of 1500 tokens per burst.
pub(crate) fn siblings(per_second: f64, seconds: f64, seed: u64) -> Vec<Request> {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut requests = Vec::new();
    let mut at = 0.0;
    let mut family = 0;
    while at < seconds {
        at += exponential(&mut dice, 20.0 / per_second);
        family += 1;
        let blocks = 6 + dice.u64(..26);
        let shared: Arc<[u64]> = (0..blocks).map(|block| hash(family, block)).collect();
        for _ in 0..12 + dice.u32(..9) {
            let own = log_normal(&mut dice, 200.0, 0.8).clamp(16.0, 4_000.0);
            let output = log_normal(&mut dice, 150.0, 0.8).clamp(4.0, 1_000.0);
            let tokens = blocks as u32 * BLOCK + own as u32;
            requests.push(request(at + dice.f64() * 0.2, tokens, output as u32, shared.clone()));
        }
        for _ in 0..4 {
            let prompt = log_normal(&mut dice, 1_500.0, 1.0).clamp(16.0, 20_000.0);
            let output = log_normal(&mut dice, 150.0, 0.8).clamp(4.0, 1_000.0);
            let apart = dice.f64() * 20.0 / per_second;
            requests.push(request(at + apart, prompt as u32, output as u32, Arc::default()));
        }
    }
    requests.sort_by_key(|request| request.at);
    requests
}

/// Makes a share of the clients leave at a random time before their answer would end.
pub(crate) fn with_cancels(mut requests: Vec<Request>, share: f64, seed: u64) -> Vec<Request> {
    let mut dice = fastrand::Rng::with_seed(seed ^ 0xCA);
    for request in &mut requests {
        if dice.f64() < share {
            let about =
                0.3 + f64::from(request.job.prompt_tokens) * 0.000_3 + f64::from(request.job.output_tokens) * 0.02;
            request.leaves = Some(Duration::from_secs_f64(about * dice.f64()));
        }
    }
    requests
}

/// Makes a share of the answers non-streaming.
pub(crate) fn with_whole(mut requests: Vec<Request>, share: f64, seed: u64) -> Vec<Request> {
    let mut dice = fastrand::Rng::with_seed(seed ^ 0x3B);
    for request in &mut requests {
        request.whole = dice.f64() < share;
    }
    requests
}

fn exponential(dice: &mut fastrand::Rng, mean: f64) -> f64 {
    -(1.0 - dice.f64()).ln() * mean
}

fn log_normal(dice: &mut fastrand::Rng, median: f64, sigma: f64) -> f64 {
    let radius = (-2.0 * (1.0 - dice.f64()).ln()).sqrt();
    median * (sigma * radius * (std::f64::consts::TAU * dice.f64()).cos()).exp()
}

/// Draws a number below `count` by a Zipf distribution.
fn zipf(dice: &mut fastrand::Rng, count: u64, exponent: f64) -> u64 {
    let weight = |rank: u64| ((rank + 1) as f64).powf(-exponent);
    let mut left = dice.f64() * (0..count).map(weight).sum::<f64>();
    (0..count)
        .find(|&rank| {
            left -= weight(rank);
            left < 0.0
        })
        .unwrap_or(0)
}
