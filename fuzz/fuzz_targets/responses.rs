//! Coverage-guided target of `translation::responses::fuzz_responses`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::translation::responses::fuzz_responses(bytes));
