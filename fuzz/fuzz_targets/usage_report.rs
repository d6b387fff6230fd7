//! Coverage-guided target of `protocol::usage::fuzz_usage_report`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::usage::fuzz_usage_report(bytes));
