//! What an engine's own `/metrics` says about its load and its caches, what an exporter says of its GPUs, and how far away it is: asked
//! for again and again.

mod about;
mod dcgm;
mod distance;
mod health;
mod names;
mod outage;
mod parse;
mod poll;
mod signals;

pub use self::{
    parse::{Labels, Sample, samples},
    poll::{Scrapers, Source},
};
use crate::types::{EngineSignals, GpuSignals};

/// Reads `bytes` as an engine's answer and drops what comes of it: an entry for fuzzers, which must never panic.
pub fn fuzz_scrape(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for sample in samples(&text) {
        let _ = sample.labels.iter().count();
    }
    let _ = EngineSignals::read(&text);
    let _ = GpuSignals::read(&text);
}
