//! Coverage-guided target of `protocol::multipart::fuzz_form`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::multipart::fuzz_form(bytes));
