//! Coverage-guided target of `protocol::sse::fuzz_sse`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::sse::fuzz_sse(bytes));
