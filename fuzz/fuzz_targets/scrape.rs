//! `upstream::scrape::fuzz_scrape`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::upstream::scrape::fuzz_scrape(bytes));
