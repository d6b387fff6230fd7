//! Coverage-guided target of `protocol::transcript::fuzz_convert`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::transcript::fuzz_convert(bytes));
