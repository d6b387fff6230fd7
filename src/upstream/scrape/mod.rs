//! What an engine's own `/metrics` says about its load and its caches. Pure: text in, numbers out; fetching is done
//! elsewhere.

mod names;
mod parse;
mod signals;

pub use self::{
    names::EngineKind,
    parse::{Labels, Sample, samples},
    signals::EngineSignals,
};

/// Reads `bytes` as an engine's answer and drops what comes of it: an entry for fuzzers, which must never panic.
pub fn fuzz_scrape(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for sample in samples(&text) {
        let _ = sample.labels.iter().count();
    }
    let _ = EngineSignals::read(&text);
}
