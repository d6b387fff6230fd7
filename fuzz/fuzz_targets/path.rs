//! Coverage-guided target of `types::base_path::fuzz_base_path`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::types::base_path::fuzz_base_path(bytes));
