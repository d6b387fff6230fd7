//! `protocol::verdict::fuzz_verdict`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::verdict::fuzz_verdict(bytes));
