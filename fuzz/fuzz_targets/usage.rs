//! `gateway::fuzz_usage`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::accounting::fuzz_usage(bytes));
