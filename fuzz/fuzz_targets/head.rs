//! Coverage-guided target of `gateway::fuzz_head`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::gateway::fuzz_head(bytes));
