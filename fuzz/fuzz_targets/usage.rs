//! Coverage-guided target of `gateway::fuzz_usage`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::accounting::fuzz_usage(bytes));
