//! `protocol::continuation::fuzz_rest`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::continuation::fuzz_rest(bytes));
