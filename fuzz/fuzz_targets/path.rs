//! `types::endpoint::fuzz_path`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::types::endpoint::fuzz_path(bytes));
