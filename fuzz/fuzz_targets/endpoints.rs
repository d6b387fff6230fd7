//! Coverage-guided target of `config::fuzz_endpoints`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::config::fuzz_endpoints(bytes));
