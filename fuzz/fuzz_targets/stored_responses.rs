//! Coverage-guided target of `cache::responses::fuzz_stored_responses`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::cache::responses::fuzz_stored_responses(bytes));
