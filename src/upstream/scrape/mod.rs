//! What an engine's own `/metrics` says about its load and its caches: asked for again and again, and read by one table of
//! names.

mod about;
mod names;
mod parse;
mod poll;
mod signals;

pub use self::{
    parse::{Labels, Sample, samples},
    poll::{Scrapers, Source},
};
use crate::types::EngineSignals;

/// Reads `bytes` as an engine's answer and drops what comes of it: an entry for fuzzers, which must never panic.
pub fn fuzz_scrape(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for sample in samples(&text) {
        let _ = sample.labels.iter().count();
    }
    let _ = EngineSignals::read(&text);
}
