//! `protocol::sse::fuzz_sse`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| signalbox::protocol::sse::fuzz_sse(bytes));
