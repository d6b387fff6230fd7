//! Coverage-guided target of `types::endpoint::fuzz_path`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::types::endpoint::fuzz_path(bytes));
