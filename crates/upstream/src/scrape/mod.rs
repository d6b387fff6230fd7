//! Periodic polling of engines: their `/metrics` and models, GPU gauges from an exporter, health checks and network
//! distance.

mod about;
mod apis;
mod dcgm;
mod distance;
mod health;
mod lists;
mod names;
mod outage;
mod parse;
mod poll;
mod signals;

pub(super) use self::about::ModelList;
pub use self::{
    apis::probe,
    parse::{Labels, Sample, samples},
    poll::{Scrapers, Source},
};
#[cfg(any(test, feature = "fuzzing"))]
use self::{dcgm::read_gpu_signals, signals::read_engine_signals};

/// Reads `bytes` as an engine's answer and drops the result: an entry point for fuzzers, which must never panic.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_scrape(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for sample in samples(&text) {
        let _ = sample.labels.iter().count();
    }
    let _ = read_engine_signals(&text);
    let _ = read_gpu_signals(&text);
    lists::fuzz(bytes);
}
