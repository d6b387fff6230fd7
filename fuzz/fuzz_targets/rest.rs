//! Coverage-guided target of `protocol::continuation::fuzz_rest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::continuation::fuzz_rest(bytes));
