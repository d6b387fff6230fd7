//! Coverage-guided target of `protocol::encoding::fuzz_encoding`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::encoding::fuzz_encoding(bytes));
