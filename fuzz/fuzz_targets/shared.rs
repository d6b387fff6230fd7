//! `gateway::fuzz_shared`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::answers::fuzz_shared(bytes));
