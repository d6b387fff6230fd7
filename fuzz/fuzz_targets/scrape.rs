//! Coverage-guided target of `upstream::scrape::fuzz_scrape`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::upstream::scrape::fuzz_scrape(bytes));
