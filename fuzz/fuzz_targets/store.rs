//! Coverage-guided target of `store::fuzz_store`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::store::fuzz_store(bytes));
