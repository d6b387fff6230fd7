//! Coverage-guided target of `upstream::fuzz_http_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::upstream::fuzz_http_answer(bytes));
