//! Coverage-guided target of `protocol::rest::fuzz_rest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::rest::fuzz_rest(bytes));
