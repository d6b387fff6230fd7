//! Coverage-guided target of `protocol::engine_error::fuzz_engine_error`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::engine_error::fuzz_engine_error(bytes));
