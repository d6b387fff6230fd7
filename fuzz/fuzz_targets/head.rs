//! `gateway::fuzz_head`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::gateway::fuzz_head(bytes));
